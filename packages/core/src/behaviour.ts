/**
 * Where we decide what cordis leaves open. Importing this file changes cordis for the whole process; nothing else
 * touches its internals, and each point is held by a test that fails on plain cordis.
 *
 * 1. Disposers of one plugin run last-acquired first, one after the other, each awaited for at most `disposeMs`, and so
 *    is a start that is still under way; a failing or hanging one is reported and passed over.
 * 2. A notification's throwing listener is reported with its plugin's name and the rest still run. An event without a
 *    scope is not heard inside scopes.
 * 3. In a waterfall, `next` is bound to its position.
 * 4. A plugin that waits for a service can be listed.
 * 5. Listeners keep row order, also after a reload and when their row was pending at start.
 */

import { Context, DisposableList, EventsService, Fiber, type Hook } from 'cordis'
import { errorMessage, isHarnessError } from './error.ts'
import { compareRows } from './row.ts'
import { unscoped } from './scope.ts'

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

/** `Fiber` unloads by `clear().map(run)`; a list whose `map` starts each run after the last one keeps that code's joining. */
class InTurn<T> extends Array<T> {
  static override get [Symbol.species]() {
    return Array
  }
  override map<U>(run: (value: T, index: number, all: T[]) => U): U[] {
    let last: Promise<unknown> = Promise.resolve()
    return super.map((value, index, all) => {
      const next = () => run(value, index, all)
      last = last.then(next, next)
      return last as U
    })
  }
}

const { clear } = DisposableList.prototype
DisposableList.prototype.clear = function (this: DisposableList<WeakKey>) {
  return InTurn.from(clear.call(this)) as never
}

type Disposer = () => unknown

/** What cordis keeps of a plugin's body or of an effect: what starts it, what takes its disposers, and its validity. */
interface Runner {
  epoch: unknown
  execute(this: Fiber): unknown
  collect(dispose: Disposer): void
}

interface Internals {
  _runner: Runner
  _execute(this: Fiber, runner: Runner): unknown
}

/** An effect that is set up through here, or a plugin's body. */
interface Held {
  readonly label: string
  /** Set once an outer effect holds it: its failures must not keep the outer one from its further disposers. */
  contain: boolean
}

/** A child plugin has bounds of its own, disposer by disposer. */
const CHILD = 'ctx.plugin()'

/** By the function that sets an effect up, and by the disposer that cordis gives back for it. */
const held = new WeakMap<object, Held>()
const raw = Fiber.prototype as unknown as Internals
const { effect } = Fiber.prototype
const { _execute: run } = raw

Fiber.prototype.effect = function (this: Fiber, execute: Parameters<Fiber['effect']>[0], label = 'anonymous') {
  const own: Held = { label, contain: false }
  const setUp = () => execute.call(this)
  if (label !== CHILD) held.set(setUp, own)
  const dispose = effect.call(this, setUp, label)
  held.set(dispose, own)
  return dispose
} as typeof effect

raw._execute = function (runner) {
  const body = runner === (this as unknown as Internals)._runner
  const own = body ? { label: 'apply()', contain: false } : held.get(runner.execute)
  if (!own) return run.call(this, runner)
  let abandoned = false
  const guarded: Runner = Object.create(runner, {
    execute: { value: () => bindAll(runner.execute.call(this), bind) },
    collect: {
      value: (dispose: Disposer) => {
        if (!abandoned) return runner.collect(dispose)
        // The start was given up, and what it brings now nobody else would dispose.
        Promise.resolve()
          .then(dispose)
          .catch(error => report(this.ctx, `disposing ${own.label}`, error))
      },
    },
  })
  const bind: Bind = (dispose, contain) => {
    if (typeof dispose !== 'function') return dispose
    const inner = held.get(dispose)
    if (inner) inner.contain ||= contain
    // An effect stays as it is: cordis knows it by identity, and its disposers are bounded already.
    return inner || Context.effect in dispose ? dispose : bounded(this.ctx, own, dispose as Disposer, contain)
  }
  const starting = run.call(this, guarded)
  if (!isThenable(starting)) return starting
  const mayAbandon = () => !body || this.uid === null
  return startWithin(this.ctx, own.label, runner, starting, mayAbandon, () => {
    abandoned = true
  })
}

/** Bounds one disposer. Contained, it also keeps its failure from the ones after it, which cordis would skip. */
function bounded(ctx: Context, own: Held, dispose: Disposer, contain: boolean): Disposer {
  const failed = (error: unknown) => {
    if (!contain && !own.contain) throw error
    report(ctx, `disposing ${own.label}`, error)
  }
  return () => {
    try {
      const result = dispose()
      return isThenable(result) ? disposeWithin(ctx, own.label, result).catch(failed) : result
    } catch (error) {
      return failed(error)
    }
  }
}

async function disposeWithin(ctx: Context, label: string, work: PromiseLike<unknown>): Promise<unknown> {
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

/**
 * A start that is disposed while it is under way is waited for, by cordis for as long as it takes. `runner.epoch`
 * changes when that begins; a start that lasts longer from there on is abandoned.
 */
function startWithin(
  ctx: Context,
  label: string,
  runner: Runner,
  starting: PromiseLike<unknown>,
  mayAbandon: () => boolean,
  abandon: () => void,
): Promise<unknown> {
  const ms = limits.disposeMs
  const valid = runner.epoch
  let epoch = valid
  let timer: ReturnType<typeof setTimeout> | undefined
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer)
      Object.defineProperty(runner, 'epoch', { value: epoch, writable: true, enumerable: true, configurable: true })
    }
    const late = () => {
      // An unload for want of a service waits on: what such a start registers afterwards would join the next one's.
      if (epoch === valid || !mayAbandon()) {
        timer = epoch === valid ? undefined : setTimeout(late, ms)
        return
      }
      over()
      abandon()
      ctx.logger.error(`${label} was still starting ${ms} ms after its disposal began and was passed over`)
      resolve(undefined)
    }
    Object.defineProperty(runner, 'epoch', {
      get: () => epoch,
      set(value: unknown) {
        epoch = value
        if (value !== valid) timer ??= setTimeout(late, ms)
      },
      enumerable: true,
      configurable: true,
    })
    starting.then(
      value => {
        over()
        resolve(value)
      },
      error => {
        over()
        reject(error)
      },
    )
  })
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

type Bind = (dispose: unknown, contain: boolean) => unknown

function bindAll(result: unknown, bind: Bind): unknown {
  if (typeof result === 'function') return bind(result, false)
  if (typeof result !== 'object' || result === null) return result
  if (isThenable(result)) return result.then(value => bind(value, false))
  if (Symbol.iterator in result) return bindEach(result as Iterable<unknown>, bind)
  if (Symbol.asyncIterator in result) return bindEachAsync(result as AsyncIterable<unknown>, bind)
  return result
}

function* bindEach(source: Iterable<unknown>, bind: Bind): Generator<unknown, unknown> {
  const iterator = source[Symbol.iterator]()
  for (;;) {
    const { value, done } = iterator.next()
    if (done) return bind(value, true)
    yield bind(value, true)
  }
}

/** Not a generator: that would wait for a yielded effect, which can be awaited itself. */
function bindEachAsync(source: AsyncIterable<unknown>, bind: Bind): AsyncIterable<unknown> {
  const iterator = source[Symbol.asyncIterator]()
  const next = async () => {
    const { value, done } = await iterator.next()
    return { value: bind(value, true), done: done ?? false } as IteratorResult<unknown>
  }
  return { [Symbol.asyncIterator]: () => ({ next }) }
}

// 2. Notification, 3. waterfall ----------------------------------------------------------------------------------

type Listener = (...args: unknown[]) => unknown
type Carrier = { [Context.filter]?: (ctx: Context) => boolean } | null

/**
 * The listeners of one dispatch, and takes what is not an argument off `args`. A dispatch without `this` belongs to no
 * scope, so listeners of scopes do not hear it; cordis's own events are heard by all.
 */
export function listenersOf(events: EventsService, mode: string, args: unknown[]): { target: Carrier; hooks: Hook[] } {
  const given = typeof args[0] === 'object' || typeof args[0] === 'function' ? (args.shift() as Carrier) : null
  const name = args.shift() as string
  const internal = name.startsWith('internal/')
  if (!internal && events._hooks['internal/dispatch']?.length) {
    events.emit('internal/dispatch', mode, name, args, given)
  }
  const target = given ?? (internal ? null : unscoped)
  const filter = target?.[Context.filter]
  const hooks = (events._hooks[name] ?? []).filter(hook => hook.global || !filter || filter.call(target, hook.ctx))
  return { target: given, hooks }
}

EventsService.prototype.dispatch = function (this: EventsService, mode: string, args: unknown[]) {
  const { target, hooks } = listenersOf(this, mode, args)
  return hooks.map(hook => hook.callback.bind(target))
}

EventsService.prototype.emit = function (this: EventsService, ...args: unknown[]) {
  const name = String(typeof args[0] === 'string' ? args[0] : args[1])
  const { target, hooks } = listenersOf(this, 'emit', args)
  for (const hook of hooks) {
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
      const needs = Object.keys(fiber.inject)
      if (stateOf(fiber) !== 'pending' || !needs.length) continue
      const absent = needs.filter(name => fiber.ctx.get(name) === undefined)
      // A service may be there and refuse to be used, by its own check.
      found.push({ plugin: fiber.name, waits: absent.length ? absent : needs, fiber })
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
    const at = hooks.findIndex(other => !other.prepend || compareRows(other.ctx, hook.ctx) <= 0)
    return at < 0 ? hooks.length : at
  }
  for (let at = hooks.length; at > 0; at--) {
    const other = hooks[at - 1]!
    if (other.prepend || compareRows(other.ctx, hook.ctx) <= 0) return at
  }
  return 0
}
