/**
 * The five ways an event is dispatched, one implementation each. `scope` is the key of the scope that the event
 * belongs to; undefined means none, which untagged listeners hear.
 */

import { type Context, type Events, type EventsService, symbols } from 'cordis'
import { listenersOf, report } from './behaviour.ts'
import { carrier, type ScopeKey, unscoped } from './scope.ts'

type Args<K extends keyof Events> = Events[K] extends (...args: infer A) => unknown ? A : never
type Result<K extends keyof Events> = Events[K] extends (...args: never[]) => infer R ? R : never
type Loose = (...args: unknown[]) => unknown
type WithoutNext<A extends unknown[]> = A extends [...infer Rest, unknown] ? Rest : never

const target = (scope: ScopeKey | undefined) => (scope ? carrier(scope) : unscoped)

const buses = new WeakMap<Context, EventsService>()

/**
 * The bus of a context, without the proxy that cordis hands out and found once for each context: either costs as much
 * as a whole dispatch to one listener, and dispatching needs no caller.
 */
function busOf(ctx: Context): EventsService {
  let bus = buses.get(ctx)
  if (!bus) {
    const { events } = ctx
    bus = (events as unknown as Record<symbol, EventsService | undefined>)[symbols.original] ?? events
    buses.set(ctx, bus)
  }
  return bus
}

function call(
  ctx: Context,
  mode: 'emit' | 'waterfall' | 'serial' | 'parallel',
  scope: ScopeKey | undefined,
  args: unknown[],
) {
  const bus = busOf(ctx)
  return (bus[mode] as Loose).call(bus, target(scope), ...args)
}

/** Tells every listener; a throwing or rejecting one is reported with its plugin's name and the rest still run. */
export function notify<K extends keyof Events>(
  ctx: Context,
  scope: ScopeKey | undefined,
  name: K,
  ...args: Args<K>
): void {
  call(ctx, 'emit', scope, [name, ...args])
}

/** Asks every listener for leave, in order and synchronously. The first throw is the veto and reaches the caller. */
export function gate<K extends keyof Events>(
  ctx: Context,
  scope: ScopeKey | undefined,
  name: K,
  ...args: Args<K>
): void {
  const { target: self, hooks } = listenersOf(busOf(ctx), 'emit', [target(scope), name, ...args])
  for (const hook of hooks) {
    const answer: unknown = hook.callback.apply(self, args)
    // A gate is synchronous: a promise cannot veto any more, so its failure is only reported.
    if (answer instanceof Promise) answer.catch(error => report(hook.ctx, `listener of ${String(name)}`, error))
  }
}

/**
 * Runs listeners around `inner`, the first in row order outermost. Each gets `next` as its last argument; `next` is
 * bound to its position, so that calling it twice runs the same inner chain twice. Not calling it skips the rest.
 */
export function waterfall<K extends keyof Events>(
  ctx: Context,
  scope: ScopeKey | undefined,
  name: K,
  ...args: [...WithoutNext<Args<K>>, () => Result<K>]
): Result<K> {
  return call(ctx, 'waterfall', scope, [name, ...args]) as Result<K>
}

/** Awaits listeners in order; the first answer other than null, undefined or false wins and ends the round. */
export function serial<K extends keyof Events>(
  ctx: Context,
  scope: ScopeKey | undefined,
  name: K,
  ...args: Args<K>
): Promise<Awaited<Result<K>> | undefined> {
  return call(ctx, 'serial', scope, [name, ...args]) as never
}

/** Awaits all listeners together. @throws AggregateError with every failure, after all have settled. */
export function parallel<K extends keyof Events>(
  ctx: Context,
  scope: ScopeKey | undefined,
  name: K,
  ...args: Args<K>
): Promise<void> {
  return call(ctx, 'parallel', scope, [name, ...args]) as Promise<void>
}
