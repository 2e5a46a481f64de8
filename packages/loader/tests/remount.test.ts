import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Context } from '@cambium/core'
import { expect, test } from 'vitest'
import { type Living, living } from './living.ts'

/** Whatever a plugin may hold, each released as it should be. */
const holder = (children: Set<ChildProcess>) => ({
  name: 'holder',
  provide: ['ink'],
  async apply(ctx: Context, { child, tag }: { child?: boolean; tag?: string }) {
    ctx.provide('ink', { colour: tag ?? 'grey' })
    ctx.on('loader-test/ping', ids => void ids.push('holder'))
    ctx.effect(() => {
      const timer = setInterval(() => {}, 60_000)
      return () => clearInterval(timer)
    })
    ctx.effect(() => {
      const listener = () => {}
      process.on('SIGUSR2', listener)
      return () => process.off('SIGUSR2', listener)
    })
    const server = createServer().listen(0, '127.0.0.1')
    ctx.effect(() => () => new Promise(resolve => server.close(resolve)))
    await once(server, 'listening')
    if (!child) return
    const running = spawn('sleep', ['60'], { stdio: 'ignore' })
    children.add(running)
    ctx.effect(() => async () => {
      running.kill('SIGKILL')
      await once(running, 'exit')
      children.delete(running)
    })
  },
})

const count = (items: readonly string[]) =>
  Object.fromEntries([...new Set(items)].sort().map(item => [item, items.filter(other => other === item).length]))

/** Everything of the tree and of the process that a remount could leave behind. */
async function held({ booted: { ctx } }: Living, children: Set<ChildProcess>) {
  // What is closed leaves in the next turn of the event loop.
  await new Promise(resolve => setImmediate(resolve))
  await new Promise(resolve => setImmediate(resolve))
  const fibers = [...ctx.registry.values()].flatMap(({ fibers: of }) => [...of])
  return {
    plugins: ctx.registry.size,
    effects: count([ctx.fiber, ...fibers].flatMap(fiber => fiber.getEffects().map(({ label }) => label))),
    services: Reflect.ownKeys(ctx.reflect.store).length,
    listeners: Object.fromEntries(Object.entries(ctx.events._hooks).map(([name, hooks]) => [name, hooks.length])),
    ofProcess: process.listenerCount('SIGUSR2'),
    resources: count(process.getActiveResourcesInfo().filter(name => /Server|ProcessWrap/.test(name))),
    children: [...children].filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null).length,
  }
}

test.each([
  [100, true],
  [500, false],
])('a row that is mounted anew %i times holds what it held at first', async (times, child) => {
  const children = new Set<ChildProcess>()
  const row = (tag: number) =>
    `- { id: h, name: holder, config: { child: ${child}, tag: t${tag} } }\n- { id: c, name: reader }\n`
  const tree = await living(row(0), { holder: holder(children) })
  const before = await held(tree, children)
  expect(before).toMatchObject({ ofProcess: 1, children: child ? 1 : 0 })
  for (let time = 1; time <= times; time++) {
    if (time % 2) tree.write(row(time))
    expect((await tree.reload('h')).remounted).toEqual(['h'])
  }
  expect(await held(tree, children)).toEqual(before)
  expect(tree.order(), 'one reaction to one event').toEqual(['holder'])
  expect(tree.log.filter(line => line.startsWith('+c'))).toHaveLength(times + 1)
  await tree.booted.dispose()
  expect(process.listenerCount('SIGUSR2')).toBe(0)
  expect(children.size).toBe(0)
})

test('what was unloaded can be collected, also a run that failed', async () => {
  const gone: WeakRef<object>[] = []
  const modules: Record<string, unknown> = {}
  const edition = (fails: boolean) => ({
    name: 'heavy',
    apply(ctx: Context) {
      const weight = { bytes: new Uint8Array(1_000) }
      gone.push(new WeakRef(weight))
      ctx.on('loader-test/ping', () => void weight.bytes)
      ctx.effect(() => () => void weight.bytes)
      if (fails) throw new Error('boom')
    },
  })
  modules.heavy = edition(false)
  const tree = await living('- { id: h, name: heavy }\n', modules)
  for (let time = 0; time < 20; time++) {
    modules.heavy = edition(time % 4 === 3)
    await tree.reload('h').catch(() => {})
  }
  const { setFlagsFromString } = await import('node:v8')
  const { runInNewContext } = await import('node:vm')
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const left = () => gone.filter(ref => ref.deref()).length
  for (let round = 0; round < 10 && left() > 2; round++) {
    await new Promise(resolve => setImmediate(resolve))
    collect()
  }
  expect(left()).toBeLessThanOrEqual(2)
})
