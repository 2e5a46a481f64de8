import { type Context, createRoot } from '@cambium/core'
import { type BootOptions, bootTree, claim, loadTree } from '@cambium/loader'
import { describe, expect, test } from 'vitest'

const quiet: BootOptions = { write: () => {} }

/** A tree of one row, whose plugin does `apply`. */
const one = (apply: (ctx: Context) => void, more: BootOptions = {}) =>
  bootTree({ text: '- { id: it, name: it }', file: 'cordis.yml' }, { ...quiet, ...more, modules: { it: { apply } } })

describe('ctx.app', () => {
  test('tells a plugin the tree, the arguments and the environment', async () => {
    const seen: unknown[] = []
    const tree = await one(({ app }) => void seen.push(app.label, app.args, app.env), { args: ['x'], env: { A: '1' } })
    expect(seen).toEqual(['cordis.yml', ['x'], { A: '1' }])
    await tree.dispose()
  })

  test('exit ends the tree, with the highest of the codes', async () => {
    const gone: string[] = []
    const tree = await one(ctx => {
      ctx.effect(() => () => void gone.push('it'))
      ctx.app.exit(2)
      ctx.app.exit(1)
    })
    expect(gone, 'not before the tree stands').toEqual([])
    expect(await tree.ended).toBe(2)
    expect(gone).toEqual(['it'])
  })

  test('a tree that is disposed from outside ends with 0', async () => {
    const tree = await one(() => {})
    await tree.dispose()
    expect(await tree.ended).toBe(0)
  })
})

test.each([[256], [1e9], [-1], [0.5], [Number.NaN], ['0'], [null]])(
  'a code that no process can end with, as %s, is a failure',
  async code => {
    const exits = await one(({ app }) => app.exit(code as number))
    expect(await exits.ended).toBe(1)
    const works = await one(({ app }) => app.main(() => code as number))
    expect(await works.ended).toBe(1)
  },
)

describe('finite work', () => {
  test('begins when the whole tree stands, and the tree ends when all of it is done', async () => {
    const log: string[] = []
    const work = (tag: string, code: number) => ({
      apply(ctx: Context) {
        log.push(`+${tag}`)
        ctx.app.main(async () => {
          log.push(`${tag} works`)
          await new Promise(resolve => setImmediate(resolve))
          return code
        })
        ctx.effect(() => () => void log.push(`-${tag}`))
      },
    })
    const tree = await bootTree(
      { text: '- name: a\n- name: b' },
      { ...quiet, modules: { a: work('a', 3), b: work('b', 1) } },
    )
    expect(await tree.ended).toBe(3)
    expect(log).toEqual(['+a', '+b', 'a works', 'b works', '-b', '-a'])
  })

  test('that fails is reported and counts as 1', async () => {
    const records: string[] = []
    const tree = await one(
      ctx =>
        ctx.app.main(() => {
          throw new Error('out of ink')
        }),
      { write: record => records.push(record.text) },
    )
    expect(await tree.ended).toBe(1)
    expect(records.join()).toContain('out of ink')
  })

  test('is told the reason of an early end, which waits until it rests', async () => {
    const log: string[] = []
    const tree = await one(ctx => {
      ctx.effect(() => () => void log.push('disposed'))
      ctx.app.main(async signal => {
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        log.push(`told ${signal.reason}`)
        await new Promise(resolve => setImmediate(resolve))
        log.push('at rest')
        return 5
      })
    })
    await tree.dispose('SIGINT')
    expect(log).toEqual(['told SIGINT', 'at rest', 'disposed'])
    expect(await tree.ended).toBe(5)
  })

  test('of a row that is reloaded is ended with it and begins anew', async () => {
    const log: string[] = []
    const tree = await one(ctx =>
      ctx.app.main(async signal => {
        log.push('begin')
        await new Promise(resolve => signal.addEventListener('abort', resolve))
        log.push(`end ${signal.reason}`)
        return 9
      }),
    )
    await tree.tree.apply(tree.source.rows, { remount: new Set(['it']) })
    expect(log).toEqual(['begin', 'end disposed', 'begin'])
    await tree.dispose()
  })
})

describe('a claim', () => {
  test('belongs to the plugin that made it, across trees, and is free again after its end', async () => {
    const take = (ctx: Context) => void ctx.app.claim('loader-test-port')
    const first = await one(take)
    await expect(one(take)).rejects.toThrow(
      'TREE_CLAIM_TAKEN: loader-test-port is already taken by it (cordis.yml:1:3)',
    )
    await first.dispose()
    await (await one(take)).dispose()
  })

  test('may be given back early', () => {
    const owner = { tree: 't', name: 'n', at: undefined }
    claim('loader-test-early', owner)()
    claim('loader-test-early', owner)()
  })
})

describe('a loaded tree', () => {
  test('can be given services before its rows are mounted', async () => {
    const seen: unknown[] = []
    const needs = { inject: ['ink'], apply: (ctx: Context) => void seen.push(ctx.get('ink')) }
    const tree = loadTree({ text: '- name: needs' }, { ...quiet, modules: { needs } })
    tree.ctx.provide('ink', 'blue' as never)
    await tree.mount()
    expect(seen).toEqual(['blue'])
    await tree.dispose()
  })

  test('is checked without running a plugin, and can be started after', async () => {
    let ran = 0
    const tree = loadTree({ text: '- name: it' }, { ...quiet, modules: { it: { apply: () => void ran++ } } })
    await tree.check()
    expect(ran).toBe(0)
    await tree.mount()
    expect(ran).toBe(1)
    await tree.dispose()
  })

  test('that is disposed while it is being mounted ends without its work having begun', async () => {
    let worked = false
    const it = {
      async apply(ctx: Context) {
        ctx.app.main(() => {
          worked = true
          return 0
        })
        await new Promise(resolve => setImmediate(resolve))
      },
    }
    const tree = loadTree({ text: '- name: it' }, { ...quiet, modules: { it } })
    const mounting = tree.mount()
    const disposal = tree.dispose()
    await mounting
    tree.begin()
    await disposal
    expect(worked).toBe(false)
    expect(await tree.ended).toBe(0)
  })

  test('does not wait for work that never rests, which counts as failed', async () => {
    const tree = await one(ctx => ctx.app.main(() => new Promise<number>(() => {})), { restMs: 10 })
    await tree.dispose()
    expect(await tree.ended).toBe(1)
    expect(tree.ctx.registry.size).toBe(createRoot(quiet).registry.size)
  })
})
