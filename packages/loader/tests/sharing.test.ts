import type { Context } from '@cambium/core'
import { type BootedTree, bootTree, readTree } from '@cambium/loader'
import { afterEach, describe, expect, test } from 'vitest'

declare module 'cordis' {
  interface Context {
    'sharing-test': { word: string }
  }
}

let tree: BootedTree | undefined
afterEach(() => tree?.dispose())

describe('a service that a plugin can do without', () => {
  const provider = {
    provide: ['sharing-test'],
    apply: (ctx: Context) => void ctx.provide('sharing-test', { word: 'ink' }),
  }

  test('is used for as long as it is there', async () => {
    const log: string[] = []
    const user = {
      apply(ctx: Context) {
        log.push(`started with ${ctx.get('sharing-test')?.word ?? 'nothing'}`)
        ctx.inject(['sharing-test'], inner => {
          log.push(`uses ${inner['sharing-test'].word}`)
          inner.effect(() => () => void log.push('lets go'))
        })
      },
    }
    const modules = { user, provider }
    const rows = (text: string) => readTree({ text, file: 'cordis.yml' }).rows
    tree = await bootTree({ text: '- name: user', file: 'cordis.yml' }, { modules })
    expect(tree.tree.rows().map(({ state }) => state)).toEqual(['active'])
    await tree.tree.apply(rows('- name: user\n- { id: p, name: provider }'))
    await tree.tree.apply(rows('- name: user'))
    expect(log).toEqual(['started with nothing', 'uses ink', 'lets go'])
  })
})

describe('one id in two files', () => {
  const clash = (patch: string) => {
    try {
      readTree(
        { text: '- { id: hello, name: p }', file: '/base/cordis.yml' },
        { patches: [{ text: patch, file: '/user/patch.yml' }] },
      )
    } catch (error) {
      return (error as Error).message
    }
    return 'nothing was thrown'
  }

  test('is refused with both places when a patch inserts what the base has', () => {
    const message = clash('# mine\n- insert: [{ id: hello, name: p }]')
    expect(message).toContain('TREE_ID_DUPLICATE: the id "hello" is taken')
    expect(message).toMatch(/\/user\/patch\.yml:2:\d+/)
    expect(message).toMatch(/\/base\/cordis\.yml:1:\d+/)
  })

  test('is one row when a patch names it', () => {
    expect(clash('- { id: hello, label: changed }')).toBe('nothing was thrown')
  })
})
