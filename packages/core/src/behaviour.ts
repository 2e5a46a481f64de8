/**
 * Where we decide what cordis leaves open. Importing this file changes cordis for the whole process; nothing else
 * touches its internals, and each point is held by a test that fails on plain cordis.
 *
 * 1. Disposers of one plugin run last-acquired first, one after the other, each awaited for at most `disposeMs`;
 *    a failing or hanging one is reported and passed over.
 * 2. A notification's throwing listener is reported with its plugin's name and the rest still run.
 * 3. In a waterfall, `next` is bound to its position.
 * 4. A plugin that waits for a service can be listed.
 * 5. Listeners keep row order, also after a reload and when their row was pending at start.
 */

import { Context, DisposableList, EventsService, Fiber, type Hook } from 'cordis'
import { errorMessage, isHarnessError } from './error.ts'
import { compareRows, rowOf } from './row.ts'

const limits = { disposeMs: 5_000 }

/** Changes the process-wide bounds; returns the undo. */
export function configureBehaviour(change: Partial<typeof limits>): () => void {
  const before = { ...limits }
  Object.assign(limits, change)
  return () => void Object.assign(limits, before)
}

/** Reports a failure that nobody can catch any more, under the name of the plugin it belongs to. */
export function report(ctx: Context, what: string, error: unknown): void {
  ctx.logger.error(`${what} failed: ${explain(error)}`)
}

function explain(error: unknown): string {
  if (isHarnessError(error) || !(error instanceof Error)) return errorMessage(error)
  const frame = error.stack?.split('\n').find(line => /^\s+at /.test(line))
  return `${error.name}: ${errorMessage(error)}${frame ? `\n${frame}` : ''}`
}

// 1. Disposal ----------------------------------------------------------------------------------------------------

type Disposer = () => unknown

/** `Fiber` unloads by `clear().map(run)`; a list whose `map` starts each run after the last one keeps that code's joining. */
class InTurn<T> extends Array<T> {
  static override get [Symbol.species]() {
    return Array
  }
  override map<U>(run: (value: T, index: number, all: T[]) => U): U[] {
    let last: Promise<unknown> = Promise.resolve()
    return super.map((value, index, all) => {
      last = last.then(() => run(value, index, all))
      return last as U
    })
  }
}

const { clear } = DisposableList.prototype
DisposableList.prototype.clear = function (this: DisposableList<WeakKey>) {
  return InTurn.from(clear.call(this)) as never
}

/** Bounds one disposer. `contain` also keeps its failure from the ones after it, which cordis would skip. */
function bounded(ctx: Context, label: string, dispose: Disposer, contain: boolean): Disposer {
  const failed = (error: unknown) => {
    if (!contain) throw error
    report(ctx, `disposing ${label}`, error)
  }
  return () => {
    try {
      const result = dispose()
      if (!isThenable(result)) return result
      return within(ctx, label, result).catch(failed)
    } catch (error) {
      return failed(error)
    }
  }
}

async function within(ctx: Context, label: string, work: PromiseLike<unknown>): Promise<unknown> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const ms = limits.disposeMs
  const late = new Promise<void>(resolve => {
    timer = setTimeout(() => {
      ctx.logger.error(`disposing ${label} did not end within ${ms} ms and was passed over`)
      resolve()
    }, ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/** A child plugin has bounds of its own, disposer by disposer. */
const CHILD = 'ctx.plugin()'

type Execute = Parameters<Fiber['effect']>[0]
type Bound = (dispose: unknown, contain: boolean) => unknown

const { effect } = Fiber.prototype
Fiber.prototype.effect = function (this: Fiber, execute: Execute, label = 'anonymous') {
  if (label === CHILD) return effect.call(this, execute, label)
  const bind: Bound = (dispose, contain) => {
    if (typeof dispose !== 'function') return dispose
    const wrapped = bounded(this.ctx, label, dispose as Disposer, contain)
    // A yielded effect moves from the plugin's list into this one, by identity; its label moves along.
    this._disposables.delete(dispose as never)
    const meta = (dispose as unknown as Record<symbol, unknown>)[Context.effect]
    if (meta) Object.defineProperty(wrapped, Context.effect, { value: meta })
    return wrapped
  }
  return effect.call(this, () => bindAll(execute(), bind) as never, label)
} as typeof effect

function bindAll(result: unknown, bind: Bound): unknown {
  if (typeof result === 'function') return bind(result, false)
  if (typeof result !== 'object' || result === null) return result
  if (isThenable(result)) return result.then(value => bind(value, false))
  if (Symbol.iterator in result) return bindEach(result as Iterable<unknown>, bind)
  if (Symbol.asyncIterator in result) return bindEachAsync(result as AsyncIterable<unknown>, bind)
  return result
}

function* bindEach(source: Iterable<unknown>, bind: Bound): Generator<unknown, unknown> {
  const iterator = source[Symbol.iterator]()
  for (;;) {
    const { value, done } = iterator.next()
    if (done) return bind(value, true)
    yield bind(value, true)
  }
}

async function* bindEachAsync(source: AsyncIterable<unknown>, bind: Bound): AsyncGenerator<unknown, unknown> {
  const iterator = source[Symbol.asyncIterator]()
  for (;;) {
    const { value, done } = await iterator.next()
    if (done) return bind(value, true)
    yield bind(value, true)
  }
}

// 2. Notification, 3. waterfall ----------------------------------------------------------------------------------

type Listener = (...args: unknown[]) => unknown
type Carrier = { [Context.filter]?: (ctx: Context) => boolean } | null

function takeCarrier(args: unknown[]): Carrier {
  return typeof args[0] === 'object' || typeof args[0] === 'function' ? (args.shift() as Carrier) : null
}

EventsService.prototype.emit = function (this: EventsService, ...args: unknown[]) {
  const target = takeCarrier(args)
  const name = args.shift() as string
  const hooks = this._hooks[name]
  if (!name.startsWith('internal/') && this._hooks['internal/dispatch']?.length) {
    this.emit('internal/dispatch', 'emit', name, args, target)
  }
  if (!hooks?.length) return
  const filter = target?.[Context.filter]
  for (const hook of [...hooks]) {
    if (!hook.global && filter && !filter.call(target, hook.ctx)) continue
    try {
      const result: unknown = hook.callback.apply(target, args)
      if (isThenable(result)) result.then(undefined, error => report(hook.ctx, `listener of ${name}`, error))
    } catch (error) {
      report(hook.ctx, `listener of ${name}`, error)
    }
  }
}

EventsService.prototype.waterfall = function (this: EventsService, ...args: unknown[]) {
  const listeners = this.dispatch('waterfall', args) as Listener[]
  const inner = args.pop() as Listener
  const from = (index: number): Listener => {
    const listener = listeners[index]
    return listener ? () => listener(...args, from(index + 1)) : () => inner(...args)
  }
  return from(0)()
}

// 4. Pending -----------------------------------------------------------------------------------------------------

/** `FiberState` is a const enum without a runtime export; these are its members in order. */
export const FIBER_STATES = ['pending', 'loading', 'active', 'failed', 'disposed', 'unloading'] as const
export type FiberStateName = (typeof FIBER_STATES)[number]

export function stateOf(fiber: Fiber): FiberStateName {
  return FIBER_STATES[fiber.state as number]!
}

export interface PendingPlugin {
  readonly plugin: string
  /** The services it waits for, at least one. */
  readonly waits: readonly string[]
  readonly fiber: Fiber
}

/** Every plugin of the tree that is mounted but waits for a service. */
export function pending(ctx: Context): PendingPlugin[] {
  const found: PendingPlugin[] = []
  for (const runtime of ctx.registry.values()) {
    for (const fiber of runtime.fibers as Iterable<Fiber>) {
      const waits = Object.keys(fiber.inject).filter(name => fiber.ctx.get(name) === undefined)
      if (stateOf(fiber) === 'pending' && waits.length) found.push({ plugin: fiber.name, waits, fiber })
    }
  }
  return found
}

// 5. Listener order ----------------------------------------------------------------------------------------------

EventsService.prototype.register = function (label, hooks, callback, options) {
  const { ctx } = this as unknown as { ctx: Context }
  return ctx.fiber.effect(() => {
    const hook: Hook = { ctx, callback, ...options }
    hooks.splice(placeOf(hook, hooks), 0, hook)
    return () => this.unregister(hooks, callback)
  }, label)
}

/** Prepended listeners come first, the latest row's foremost; then the others as their rows stand in the file. */
function placeOf(hook: Hook, hooks: readonly Hook[]): number {
  if (hook.prepend) {
    const at = hooks.findIndex(other => !other.prepend || !rowOf(hook.ctx) || compareRows(other.ctx, hook.ctx) <= 0)
    return at < 0 ? hooks.length : at
  }
  for (let at = hooks.length; at > 0; at--) {
    const other = hooks[at - 1]!
    if (other.prepend || compareRows(other.ctx, hook.ctx) <= 0) return at
  }
  return 0
}
