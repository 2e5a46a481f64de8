/** Scopes: what is registered for one agent (or anything else that can be a key), and who hears its events. */

import { Context, type Fiber } from 'cordis'
import { HarnessError } from './error.ts'

const kScope = Symbol.for('cambium.scope')

/** Any object, by identity; the live agent, say. */
export type ScopeKey = object

interface Scope {
  readonly key: ScopeKey
  readonly parent: Scope | undefined
  readonly members: Set<() => Promise<void>>
}

export interface ScopeHandle {
  /** What is registered through it is visible to the scope and its descendants, and dies with the scope. */
  readonly ctx: Context
  /** Resolves when everything of the scope is gone. Idempotent. */
  dispose(): Promise<void>
}

const scopes = new WeakMap<ScopeKey, Scope>()
const chains = new WeakMap<ScopeKey, readonly ScopeKey[]>()
const carriers = new WeakMap<ScopeKey, object>()
const listening = new WeakMap<Context, ScopeKey | undefined>()
const plugin = { name: 'scope', apply() {} }

/**
 * Opens the scope `key` under `ctx`, or joins it when it is open already. A joined part dies with the scope or with
 * the plugin that `ctx` belongs to, whichever ends first; the scope itself dies with the context that opened it.
 * `parent` counts only for the call that opens.
 *
 * @throws `SCOPE_PARENT_UNKNOWN` when `parent` is not an open scope.
 */
export function createScope(ctx: Context, key: ScopeKey, parent?: ScopeKey): ScopeHandle {
  const open = scopes.get(key)
  const above = parent && scopes.get(parent)
  if (parent && !above && !open) {
    throw new HarnessError('SCOPE_PARENT_UNKNOWN', 'the parent of the new scope is not open', {
      fix: 'open the parent with createScope first, and keep it open longer than the child',
    })
  }
  const scope = open ?? { key, parent: above, members: new Set<() => Promise<void>>() }
  const fiber = ctx.extend({ [kScope]: scope }).plugin(plugin)
  let disposal: Promise<void> | undefined
  const dispose = () => {
    disposal ??= ended(fiber)
    return disposal
  }
  if (open) {
    fiber.ctx.effect(() => {
      scope.members.add(dispose)
      return () => void scope.members.delete(dispose)
    }, 'scope member')
  } else {
    fiber.ctx.effect(() => {
      scopes.set(key, scope)
      return async () => {
        scopes.delete(key)
        chains.delete(key)
        carriers.delete(key)
        await Promise.allSettled([...scope.members].map(member => member()))
      }
    }, 'scope')
  }
  return { ctx: fiber.ctx, dispose }
}

/** A disposer answers only its first caller; the plugin above may have been that one. */
async function ended(fiber: Fiber): Promise<void> {
  await fiber.dispose()
  while (fiber.inertia) await fiber.inertia
}

/** The key of the scope that `ctx` registers into, or undefined for the global one. */
export function scopeOf(ctx: Context): ScopeKey | undefined {
  return (ctx as unknown as Record<symbol, Scope | undefined>)[kScope]?.key
}

/** `key` and its ancestors, nearest first; empty for no key or one that is not open. */
export function scopeChain(key: ScopeKey | undefined): readonly ScopeKey[] {
  if (!key) return []
  const known = chains.get(key)
  if (known) return known
  const chain: ScopeKey[] = []
  for (let scope = scopes.get(key); scope; scope = scope.parent) chain.push(scope.key)
  if (chain.length) chains.set(key, chain)
  return chain
}

/**
 * A dispatch `this` that lets through listeners of `key`'s chain and untagged ones. An event of a scope is heard
 * by that scope and its ancestors, never by a sibling or a child. A key that is not open is heard by untagged
 * listeners only.
 */
export function carrier(key: ScopeKey): object {
  const known = carriers.get(key)
  if (known) return known
  const chain = scopeChain(key)
  const made = {
    [Context.filter]: (ctx: Context) => {
      const heard = heardScope(ctx)
      return heard === undefined || chain.includes(heard)
    },
  }
  if (chain.length) carriers.set(key, made)
  return made
}

/** As {@link scopeOf}, for a context that listens: it is asked at each dispatch, and its scope never changes. */
function heardScope(ctx: Context): ScopeKey | undefined {
  if (!listening.has(ctx)) listening.set(ctx, scopeOf(ctx))
  return listening.get(ctx)
}

/** As {@link carrier}, for an event that belongs to no scope: only untagged listeners hear it. */
export const unscoped = { [Context.filter]: (ctx: Context) => heardScope(ctx) === undefined }
