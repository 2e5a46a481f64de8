import { type Context, createScope, gate, notify, ScopedRegistry, Service, sleep } from '@cambium/core'
import { expect, it } from 'vitest'
import { bench } from './bench.ts'
import { mount, row } from './scenarios.ts'

/** All that a root holds, as far as anyone can see. */
function holdings(root: Context) {
  const hooks = Object.entries(root.events._hooks).map(([name, list]) => [name, list.length])
  return {
    effects: root.fiber.getEffects(),
    hooks: Object.fromEntries(hooks.filter(([, count]) => count)),
    plugins: [...root.registry.values()].map(runtime => runtime.name),
    services: Object.getOwnPropertySymbols(root.reflect.store).length,
    timers: process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length,
  }
}

class Board extends Service {
  constructor(ctx: Context) {
    super(ctx, 'board')
  }
}

it('a plugin that uses everything leaves nothing, however often it comes and goes', async () => {
  const { root, logs } = bench()
  const tools = new ScopedRegistry<string>({ noun: 'tool', duplicateCode: 'TOOL_DUPLICATE' })
  const key = {}
  const owner = createScope(root, key)
  await owner.ctx.fiber.await()
  const before = holdings(root)

  const comeAndGo = async () => {
    const fiber = await mount(row(root, 1), 'everything', async ctx => {
      ctx.on('test/said', () => {}, { prepend: true })
      ctx.once('test/said', () => {})
      tools.register(ctx, 'global', 'g')
      const joined = createScope(ctx, key)
      tools.register(joined.ctx, 'scoped', 's')
      joined.ctx.on('test/said', () => {})
      const own = createScope(ctx, {}, key)
      own.ctx.on('test/said', () => {})
      ctx.effect(function* () {
        yield ctx.effect(() => () => {}, 'inner')
        const end = new AbortController()
        void sleep(60_000, end.signal)
        yield () => end.abort()
      }, 'outer')
      await ctx.plugin(Board)
      await mount(ctx, 'child', child => void child.on('test/said', () => {}), ['board'])
      await mount(ctx, 'waiting', () => {}, ['nobody'])
      return () => {}
    })
    expect(tools.get('scoped', key)).toBe('s')
    expect(holdings(root)).not.toEqual(before)
    notify(root, key, 'test/said', 'x')
    gate(root, key, 'test/said', 'x')
    await fiber.dispose()
  }
  for (let turn = 0; turn < 3; turn++) {
    await comeAndGo()
    expect(holdings(root)).toEqual(before)
    expect([tools.list(), tools.list(key)]).toEqual([[], []])
  }
  expect(logs).toEqual([])
})

it('a root that is disposed holds what a new one holds, its logger aside', async () => {
  const { root } = bench()
  const fresh = holdings(root)
  await mount(root, 'plugin', ctx => {
    ctx.on('test/said', () => {})
    createScope(ctx, {})
    return ctx.plugin(Board).then(() => undefined)
  })
  await root.fiber.dispose()
  expect(holdings(root)).toEqual({ ...fresh, effects: [] })
})
