import type { Context } from '@cambium/core'
import { expect, test } from 'vitest'
import { living } from './living.ts'

interface Counter {
  runs: number
}

/** Counts its runs in what it keeps, and says how often it ran. */
const counter = (log: string[], then: (ctx: Context) => unknown = () => {}) => ({
  name: 'counter',
  apply(ctx: Context) {
    const counted = ctx.loader.keep<Counter>('count', () => ({ runs: 0 }))
    log.push(`run ${++counted.runs}`)
    return then(ctx)
  },
})

const ROW = '- { id: k, name: counter }\n'

test('what a row keeps is handed over when it is reloaded, reconfigured, moved, or restarts with a service', async () => {
  const log: string[] = []
  const modules: Record<string, unknown> = { counter: counter(log), needy: { ...counter(log), inject: ['ink'] } }
  const tree = await living(`${ROW}- { id: n, name: note }\n`, modules)
  await tree.reload('k')
  modules.counter = counter(log)
  await tree.reload('k')
  tree.write(`- { id: k, name: counter, config: { x: 1 } }\n- { id: n, name: note }\n`)
  await tree.reload()
  tree.write(`- { id: n, name: note }\n- { id: k, name: counter, config: { x: 2 } }\n`)
  await tree.reload()
  expect(log).toEqual(['run 1', 'run 2', 'run 3', 'run 4', 'run 5'])
  log.length = 0
  tree.write('- { id: p, name: red }\n- { id: k, name: needy }\n')
  await tree.reload()
  await tree.reload('p')
  expect(log, 'another plugin under the same id starts afresh').toEqual(['run 1', 'run 2'])
})

test('each row keeps its own, by key', async () => {
  const seen: unknown[] = []
  const plugin = {
    apply(ctx: Context, { first }: { first: string }) {
      seen.push([ctx.loader.keep('a', () => first), ctx.loader.keep('b', () => `${first}!`)])
      // An inner plugin is of the same row.
      ctx.plugin({ name: 'inner', apply: inner => void seen.push(inner.loader.keep('a', () => 'other')) })
    },
  }
  const tree = await living(
    '- { id: x, name: plugin, config: { first: 1 } }\n- { id: y, name: plugin, config: { first: 2 } }\n',
    {
      plugin,
    },
  )
  expect(seen).toEqual([[1, '1!'], [2, '2!'], 1, 2])
  seen.length = 0
  tree.write('- { id: x, name: plugin, config: { first: 3 } }\n- { id: y, name: plugin, config: { first: 2 } }\n')
  await tree.reload()
  expect(seen).toEqual([[1, '1!'], 1])
})

test('it goes with the row, when that is removed or disabled', async () => {
  const log: string[] = []
  const tree = await living(ROW, { counter: counter(log) })
  for (const without of ['[]', '- { id: k, name: counter, disabled: true }\n', '- { id: other, name: counter }\n']) {
    tree.write(without)
    await tree.reload()
    tree.write(ROW)
    await tree.reload()
  }
  expect(log.filter(line => line !== 'run 1')).toEqual([])
})

test('a change that is undone leaves what was kept before, and drops what the failed run made', async () => {
  const log: string[] = []
  const modules: Record<string, unknown> = { counter: counter(log) }
  const tree = await living(ROW, modules)
  modules.counter = counter(log, ctx => {
    ctx.loader.keep('new', () => log.push('made'))
    throw new Error('boom')
  })
  await tree.refusal(tree.reload('k'))
  expect(log).toEqual(['run 1', 'run 2', 'made', 'run 3'])
  modules.counter = counter(log, ctx => void ctx.loader.keep('new', () => log.push('made again')))
  await tree.reload('k')
  expect(log.slice(4)).toEqual(['run 4', 'made again'])
})

test('code that belongs to no row cannot keep anything', async () => {
  const tree = await living('[]')
  expect(() => tree.loader.keep('x', () => 1)).toThrow(/^LOADER_KEEP: only a row can keep "x"/)
})
