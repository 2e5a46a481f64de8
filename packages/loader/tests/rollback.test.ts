import { type Context, configureBehaviour } from '@cambium/core'
import { expect, onTestFinished, test } from 'vitest'
import { type Living, living } from './living.ts'

const OLD = '- { id: a, name: note }\n- { id: b, name: note, config: { tag: old } }\n- { id: c, name: note }\n'
const nothing = { added: [], removed: [], remounted: [], moved: [] }

/** The same plugin, but of a later edition. */
const edition = (provide: string[], apply: (ctx: Context) => unknown) => ({ name: 'edition', provide, apply })

async function asBefore(tree: Living) {
  expect(tree.states()).toEqual(['a active', 'b active', 'c active'])
  expect(tree.order()).toEqual(['a', 'b', 'c'])
  tree.log.length = 0
  tree.write(OLD)
  expect(await tree.reload()).toEqual(nothing)
  expect(tree.log).toEqual([])
}

test.each([
  ['at once', 'broken', 'boom', true],
  ['after a while', 'late', 'late boom', true],
  ['at once, in a row that need not run', 'broken', 'boom', false],
  ['after a while, in a row that need not run', 'late', 'late boom', false],
])('a plugin that fails %s leaves the former one running, with its config', async (_when, name, words, required) => {
  const tree = await living(OLD)
  tree.log.length = 0
  tree.write(
    `- { id: a, name: note, config: { tag: new } }\n- { id: b, name: ${name}, required: ${required} }\n- { id: d, name: note }\n- { id: c, name: note }\n`,
  )
  const message = await tree.refusal(tree.reload())
  expect(message).toMatch(
    new RegExp(`^TREE_APPLY_FAILED: ${name} failed to start: ${words}\n {2}where: cordis.yml:2:3 \\(row b\\)`),
  )
  expect(tree.log.filter(line => line !== '-half')).toEqual([
    '-b=old',
    '-a',
    '+a=new',
    '+d',
    '-d',
    '-a=new',
    '+a',
    '+b=old',
  ])
  expect(tree.records, 'what is thrown is not logged too').toEqual([])
  expect(tree.heard).toEqual(['reload refused: TREE_APPLY_FAILED'])
  await asBefore(tree)
})

test('rows that fail together are told together, each once and with its place', async () => {
  const tree = await living(OLD)
  tree.write('- { id: a, name: broken }\n- { id: b, name: late }\n- { id: c, name: note }\n')
  const message = await tree.refusal(tree.reload())
  expect(message.match(/where: cordis.yml:\d:\d \(row \w\)/g)).toEqual([
    'where: cordis.yml:1:3 (row a)',
    'where: cordis.yml:2:3 (row b)',
  ])
  expect(tree.records).toEqual([])
  await asBefore(tree)
})

test('what was there comes back with its former module, though there is a newer one', async () => {
  const modules: Record<string, unknown> = { it: edition([], () => void seen.push('v1')) }
  const seen: string[] = []
  const tree = await living('- { id: a, name: it }\n- { id: b, name: note }\n', modules)
  modules.it = edition([], () => {
    throw new Error('v2 is broken')
  })
  expect(await tree.refusal(tree.reload('a', 'b'))).toContain('v2 is broken')
  expect(seen).toEqual(['v1', 'v1'])
  expect(tree.states()).toEqual(['a active', 'b active'])
  modules.it = edition([], () => void seen.push('v3'))
  await tree.reload('a')
  expect(seen).toEqual(['v1', 'v1', 'v3'])
})

test('a row that cannot be brought back is told, and the others run', async () => {
  let runs = 0
  const once = {
    name: 'once',
    apply() {
      if (runs++) throw new Error('only once')
    },
  }
  const text = '- { id: a, name: note }\n- { id: o, name: once }\n- { id: c, name: note }\n'
  const tree = await living(text, { once })
  tree.write(`${text}- { id: x, name: broken }\n`)
  expect(await tree.refusal(tree.reload('a', 'o'))).toMatch(
    /^TREE_MISTAKES: 2 mistakes[\s\S]*only once[\s\S]*row o[\s\S]*boom[\s\S]*row x/,
  )
  expect(tree.states()).toEqual(['a active', 'o failed', 'c active'])
  expect(tree.records).toHaveLength(1)
  expect(tree.records[0]).toMatch(
    /^error TREE_RESTORE_FAILED: o could not be brought back: once failed to start: only once\n {2}where: cordis.yml:2:3 \(row o\)/,
  )
})

const CHAIN = '- { id: p, name: it }\n- { id: c, name: reader }\n- { id: n, name: note }\n'

test('rows that inject what a provider brings run again with the one that came back', async () => {
  const modules: Record<string, unknown> = { it: edition(['ink'], ctx => ctx.provide('ink', { colour: 'v1' })) }
  const tree = await living(CHAIN, modules)
  modules.it = edition(['ink'], () => {
    throw new Error('no ink')
  })
  expect(await tree.refusal(tree.reload('p'))).toContain('no ink')
  expect(tree.log).toEqual(['+n', '+c reads v1', '-c', '+c reads v1'])
  expect(tree.records).toEqual([])
})

test('a provider that a row which injects it cannot start with is not kept', async () => {
  const modules: Record<string, unknown> = { it: edition(['ink'], ctx => ctx.provide('ink', { colour: 'v1' })) }
  const tree = await living(CHAIN, modules)
  // What it provides is no ink as the reader knows it.
  modules.it = edition(['ink'], ctx => ctx.provide('ink', null as never))
  const message = await tree.refusal(tree.reload('p'))
  expect(message).toMatch(/^TREE_APPLY_FAILED: reader failed to start: .*colour.*\n {2}where: cordis.yml:2:3 \(row c\)/)
  expect(tree.log).toEqual(['+n', '+c reads v1', '-c', '+c reads v1'])
  expect(tree.states()).toEqual(['p active', 'c active', 'n active'])
  expect(tree.records).toEqual([])
})

test('a provider that is taken away stops the rows that inject it, which wait and are listed; one that comes starts them', async () => {
  const tree = await living('- { id: p, name: red }\n- { id: c, name: reader }\n- { id: d, name: chained }\n', {
    chained: { inject: ['ink'], provide: ['paper'], apply: (ctx: Context) => void ctx.provide('paper', {}) },
  })
  tree.write('- { id: p, name: red, disabled: true }\n- { id: c, name: reader }\n- { id: d, name: chained }\n')
  expect(await tree.reload()).toEqual({ ...nothing, removed: ['p'] })
  expect(tree.states()).toEqual(['p disabled', 'c waiting', 'd waiting'])
  expect(tree.loader.rows().map(({ waits }) => waits)).toEqual([[], ['ink'], ['ink']])
  expect(tree.records.map(record => record.split('\n')[0])).toEqual([
    'warn TREE_PENDING: pending: c waits for ctx.ink; no enabled row provides it',
    'warn TREE_PENDING: pending: d waits for ctx.ink; no enabled row provides it',
  ])
  tree.write('- { id: q, name: blue }\n- { id: c, name: reader }\n- { id: d, name: chained }\n')
  await tree.reload()
  expect(tree.states()).toEqual(['q active', 'c active', 'd active'])
  expect(tree.log).toEqual(['+p red', '+c reads red', '-p red', '-c', '+q blue', '+c reads blue'])
})

test('a row that need not run and fails on and on is told once, and starts once it can', async () => {
  const tree = await living('- { id: a, name: note }\n')
  const text = '- { id: a, name: note }\n- { id: x, name: ./x.mjs, required: false }\n'
  tree.write(text)
  expect((await tree.reload()).added).toEqual(['x'])
  await tree.reload()
  await tree.reload('x')
  expect(tree.records).toHaveLength(1)
  expect(tree.records[0]).toMatch(
    /^warn TREE_MODULE_NOT_FOUND: there is no file x.mjs\n {2}where: cordis.yml:2:18 \(row x\)/,
  )
  expect(tree.states()).toEqual(['a active', 'x failed'])
  tree.write('export const apply = () => {}', 'x.mjs')
  expect((await tree.reload()).remounted).toEqual(['x'])
  expect(tree.states()).toEqual(['a active', 'x active'])
  expect(tree.log).toEqual(['+a'])
})

test('a tree that ends in the middle of a change ends whole', async () => {
  let starting = () => {}
  const begun = new Promise<void>(resolve => {
    starting = resolve
  })
  const slow = {
    async apply(ctx: Context) {
      ctx.effect(() => () => void tree.log.push('-slow'))
      starting()
      for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
    },
  }
  const tree = await living('- { id: a, name: note }\n', { slow })
  tree.write('- { id: a, name: note }\n- { id: s, name: slow }\n')
  const change = tree.reload()
  await begun
  const next = tree.refusal(tree.reload())
  const ended = tree.booted.dispose()
  await change
  await ended
  expect(tree.log).toEqual(['+a', '-slow', '-a'])
  expect(await next).toMatch(/^it was not refused|^TREE_DISPOSED/)
  expect(await tree.refusal(tree.reload())).toMatch(/^TREE_DISPOSED/)
})

test('a plugin that never starts gives its place back to the former one', async () => {
  const modules: Record<string, unknown> = { it: edition(['ink'], ctx => ctx.provide('ink', { colour: 'v1' })) }
  const tree = await living(CHAIN, modules, { settleMs: 30 })
  modules.it = edition(['ink'], ctx => {
    ctx.effect(() => () => void tree.log.push('-stuck'))
    return new Promise(() => {})
  })
  expect(await tree.refusal(tree.reload('p'))).toMatch(
    /^TREE_SETTLE_TIMEOUT: p did not finish loading within 30 ms\n {2}where: cordis.yml:1:3 \(row p\)/,
  )
  expect(tree.log).toEqual(['+n', '+c reads v1', '-c', '-stuck', '+c reads v1'])
  expect(tree.states()).toEqual(['p active', 'c active', 'n active'])
})

test('a plugin whose disposer throws or hangs is replaced all the same, and told', async () => {
  onTestFinished(configureBehaviour({ disposeMs: 20 }))
  const seen: string[] = []
  const sour = (version: string) =>
    edition([], ctx => {
      seen.push(version)
      ctx.effect(() => () => void seen.push(`${version} gone`))
      ctx.effect(() => () => new Promise(() => {}), 'hanging')
      ctx.effect(() => () => {
        throw new Error('sour')
      })
    })
  const modules: Record<string, unknown> = { it: sour('v1') }
  const tree = await living('- { id: s, name: it }\n', modules)
  modules.it = sour('v2')
  expect((await tree.reload('s')).remounted).toEqual(['s'])
  expect(seen).toEqual(['v1', 'v1 gone', 'v2'])
  expect(tree.records.join('\n')).toMatch(/sour[\s\S]*disposing hanging did not end within 20 ms/)
})
