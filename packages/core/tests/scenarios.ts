/**
 * One scenario for each behaviour of cordis that we decide. `behaviour.test.ts` runs them on our kernel and
 * `raw-cordis.test.ts` on plain cordis: a scenario that comes out alike on both has become needless.
 *
 * Nothing here may import `behaviour.ts`, directly or not, since that changes cordis for the whole process.
 */

import type { Context, Fiber } from 'cordis'
import { withRow } from '../src/row.ts'
import { createScope } from '../src/scope.ts'

declare module 'cordis' {
  interface Events {
    'test/said'(word: string): unknown
    'test/around'(word: string, next: () => string): string
  }
}

export interface Bench {
  readonly root: Context
  /** What was logged, one line a record. */
  readonly logs: string[]
  /** Lets that much time pass, with all that is due in it. */
  pass(ms: number): Promise<unknown>
}

export interface Scenario {
  readonly name: string
  run(bench: Bench): Promise<unknown>
  readonly decided: unknown
  readonly raw: unknown
}

const turn = () => new Promise<void>(resolve => setImmediate(resolve))

/** Mounts a plugin made of its body and waits until it has started. */
export async function mount(
  ctx: Context,
  name: string,
  apply: (ctx: Context) => unknown,
  inject: string[] = [],
): Promise<Fiber> {
  const fiber = ctx.plugin({ name, inject, apply: (inner: Context) => apply(inner) as void })
  await fiber
  return fiber
}

export function row(ctx: Context, ...path: number[]): Context {
  return withRow(ctx, { id: path.join(':'), at: `cordis.yml:${path[0]}:3`, path })
}

/** Whether a disposal ends, given all the time it may ask for. */
async function endsIn(bench: Bench, work: Promise<unknown>): Promise<boolean> {
  let ended = false
  void work.then(() => {
    ended = true
  })
  await bench.pass(60_000)
  return ended
}

const never = () => new Promise<void>(() => {})

export const scenarios: Scenario[] = [
  {
    name: 'disposers of a plugin run last-acquired first, one after the other',
    async run({ root, pass }) {
      const order: string[] = []
      const slow = (name: string) => async () => {
        order.push(`${name} begins`)
        await turn()
        order.push(`${name} ends`)
      }
      const fiber = await mount(root, 'plugin', ctx => {
        ctx.effect(() => slow('a'))
        ctx.effect(() => () => void order.push('b'))
        ctx.effect(function* () {
          yield slow('c1')
          yield slow('c2')
        })
        ctx.effect(() => slow('d'))
      })
      const disposal = fiber.dispose()
      await pass(1)
      await disposal
      return order
    },
    decided: ['d begins', 'd ends', 'c2 begins', 'c2 ends', 'c1 begins', 'c1 ends', 'b', 'a begins', 'a ends'],
    raw: ['d begins', 'c2 begins', 'b', 'a begins', 'd ends', 'c2 ends', 'c1 begins', 'a ends', 'c1 ends'],
  },
  {
    name: 'a hanging disposer is reported and passed over',
    async run(bench) {
      const order: string[] = []
      const fiber = await mount(bench.root, 'plugin', ctx => {
        ctx.effect(() => () => void order.push('first'))
        ctx.effect(() => never, 'a socket')
      })
      return { ended: await endsIn(bench, fiber.dispose()), order, logs: bench.logs }
    },
    decided: {
      ended: true,
      order: ['first'],
      logs: ['error plugin: disposing a socket did not end within 5000 ms and was passed over'],
    },
    raw: { ended: false, order: ['first'], logs: [] },
  },
  {
    name: 'a hanging disposer inside a generator effect is passed over, and the outer ones still run',
    async run(bench) {
      const order: string[] = []
      const fiber = await mount(bench.root, 'plugin', ctx => {
        ctx.effect(function* () {
          yield () => void order.push('first')
          yield never
        })
      })
      return { ended: await endsIn(bench, fiber.dispose()), order }
    },
    decided: { ended: true, order: ['first'] },
    raw: { ended: false, order: [] },
  },
  {
    name: 'a failing disposer inside a generator effect is reported, and the outer ones still run',
    async run({ root, logs }) {
      const order: string[] = []
      const fiber = await mount(root, 'plugin', ctx => {
        ctx.effect(function* () {
          yield () => void order.push('first')
          yield () => {
            throw new Error('boom')
          }
          yield ctx.effect(
            () => async () => {
              await turn()
              throw new Error('bang')
            },
            'the inner one',
          )
        }, 'the outer one')
      })
      await fiber.dispose()
      return { order, logs: logs.map(line => line.split('\n')[0]) }
    },
    decided: {
      order: ['first'],
      logs: [
        'error plugin: disposing the inner one failed: Error: bang',
        'error plugin: disposing the outer one failed: Error: boom',
      ],
    },
    raw: { order: [], logs: ['error plugin: Error: bang'] },
  },
  {
    name: 'a hanging disposer that a plugin returns is passed over',
    async run(bench) {
      const fiber = await mount(bench.root, 'plugin', () => never)
      return { ended: await endsIn(bench, fiber.dispose()), logs: bench.logs }
    },
    decided: {
      ended: true,
      logs: ['error plugin: disposing apply() did not end within 5000 ms and was passed over'],
    },
    raw: { ended: false, logs: [] },
  },
  {
    name: 'a plugin that hangs while it starts can be disposed, and what it brings later is disposed too',
    async run(bench) {
      const order: string[] = []
      let arrive = (_: () => void) => {}
      const fiber = bench.root.plugin({
        name: 'plugin',
        apply(ctx: Context) {
          ctx.effect(() => () => void order.push('held'))
          return new Promise<() => void>(resolve => {
            arrive = resolve
          }) as never
        },
      })
      await turn()
      const ended = await endsIn(bench, fiber.dispose())
      const before = [...order]
      arrive(() => void order.push('late'))
      await turn()
      return { ended, before, order, logs: bench.logs }
    },
    decided: {
      ended: true,
      before: ['held'],
      order: ['held', 'late'],
      logs: ['error plugin: apply() was still starting 5000 ms after its disposal began and was passed over'],
    },
    raw: { ended: false, before: [], order: ['late', 'held'], logs: [] },
  },
  {
    name: 'an effect that hangs while it is set up can be disposed',
    async run(bench) {
      const fiber = await mount(bench.root, 'plugin', ctx => {
        ctx.effect(async function* () {
          yield () => {}
          await never()
        }, 'a connection')
      })
      return { ended: await endsIn(bench, fiber.dispose()), logs: bench.logs }
    },
    decided: {
      ended: true,
      logs: ['error plugin: a connection was still starting 5000 ms after its disposal began and was passed over'],
    },
    raw: { ended: false, logs: [] },
  },
  {
    name: 'a throwing listener of a notification is reported with its plugin, and the rest still hear it',
    async run({ root, logs }) {
      const heard: string[] = []
      await mount(root, 'faulty', ctx =>
        ctx.on('test/said', () => {
          throw new Error('boom')
        }),
      )
      await mount(root, 'sound', ctx => ctx.on('test/said', word => void heard.push(word)))
      let thrown = false
      try {
        root.emit('test/said', 'hello')
      } catch {
        thrown = true
      }
      return { heard, thrown, logs: logs.map(line => line.split('\n')[0]) }
    },
    decided: {
      heard: ['hello'],
      thrown: false,
      logs: ['error faulty: listener of test/said failed: Error: boom'],
    },
    raw: { heard: [], thrown: true, logs: [] },
  },
  {
    name: 'a rejecting listener of a notification is reported with its plugin',
    async run({ root, logs }) {
      // A thenable, since the rejection of a real promise that nobody handles would end a process.
      const rejected = { then: (_: unknown, reject?: (error: Error) => void) => reject?.(new Error('boom')) }
      await mount(root, 'faulty', ctx => ctx.on('test/said', () => rejected))
      root.emit('test/said', 'hello')
      await turn()
      return logs.map(line => line.split('\n')[0])
    },
    decided: ['error faulty: listener of test/said failed: Error: boom'],
    raw: [],
  },
  {
    name: 'an event without a scope is not heard inside one',
    async run({ root }) {
      const heard: string[] = []
      const scope = createScope(root, {})
      root.on('test/said', () => void heard.push('outside'))
      scope.ctx.on('test/said', () => void heard.push('inside'))
      scope.ctx.on('test/said', () => void heard.push('inside, for all'), { global: true })
      root.emit('test/said', 'hello')
      await root.serial('test/said', 'hello')
      return heard
    },
    decided: ['outside', 'inside, for all', 'outside', 'inside, for all'],
    raw: ['outside', 'inside', 'inside, for all', 'outside', 'inside', 'inside, for all'],
  },
  {
    name: 'calling next twice in a waterfall runs the same inner chain twice',
    async run({ root }) {
      const order: string[] = []
      root.on('test/around', (_, next) => {
        order.push('retry 1')
        next()
        order.push('retry 2')
        return next()
      })
      root.on('test/around', (_, next) => {
        order.push('timeout')
        return next()
      })
      const answer = root.waterfall('test/around', 'x', () => {
        order.push('body')
        return 'done'
      })
      return { order, answer }
    },
    decided: { order: ['retry 1', 'timeout', 'body', 'retry 2', 'timeout', 'body'], answer: 'done' },
    raw: { order: ['retry 1', 'timeout', 'body', 'retry 2', 'body'], answer: 'done' },
  },
  {
    name: 'a listener keeps its row’s place when its plugin is reloaded',
    async run({ root }) {
      const heard: number[] = []
      const listen = (number: number) => (ctx: Context) => ctx.on('test/said', () => void heard.push(number))
      await mount(row(root, 1), 'one', listen(1))
      const two = await mount(row(root, 2), 'two', listen(2))
      await mount(row(root, 3), 'three', listen(3))
      await two.restart()
      root.emit('test/said', 'hello')
      return heard
    },
    decided: [1, 2, 3],
    raw: [1, 3, 2],
  },
  {
    name: 'a listener has its row’s place when the row had to wait for a service at the start',
    async run({ root }) {
      const heard: string[] = []
      const listen = (name: string) => (ctx: Context) => ctx.on('test/said', () => void heard.push(name))
      const waiting = await mount(row(root, 1), 'waiting', listen('one'), ['service'])
      await mount(row(root, 2, 0), 'two', listen('two'))
      await mount(row(root, 2, 1), 'two and a half', listen('two and a half'))
      await mount(row(root, 3), 'provider', ctx => ctx.provide('service', {}))
      await waiting.await()
      root.emit('test/said', 'hello')
      return heard
    },
    decided: ['one', 'two', 'two and a half'],
    raw: ['two', 'two and a half', 'one'],
  },
  {
    name: 'prepended listeners come first, the last row’s foremost, also after a reload',
    async run({ root }) {
      const heard: string[] = []
      const listen = (name: string, prepend: boolean) => (ctx: Context) => {
        ctx.on('test/said', () => void heard.push(name), { prepend })
      }
      await mount(row(root, 1), 'one', listen('one', false))
      const two = await mount(row(root, 2), 'two', listen('two, first', true))
      await mount(row(root, 3), 'three', listen('three, first', true))
      await two.restart()
      root.emit('test/said', 'hello')
      return heard
    },
    decided: ['three, first', 'two, first', 'one'],
    raw: ['two, first', 'three, first', 'one'],
  },
]
