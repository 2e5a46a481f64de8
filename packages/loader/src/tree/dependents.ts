/** Which rows stop and start again when others are mounted anew, because they inject what those provide. */

import { Context, rowOf } from '@cambium/core'

/** The ids of such rows, those of `dropped` aside: directly, or through what another of them provides. */
export function dependentsOf(ctx: Context, dropped: ReadonlySet<string>): Set<string> {
  const provided = providersOf(ctx)
  const needs = needsOf(ctx)
  const gone = new Set(dropped)
  for (let grown = true; grown; ) {
    grown = false
    for (const [row, keys] of needs) {
      if (gone.has(row) || !keys.some(key => gone.has(provided.get(key) ?? ''))) continue
      gone.add(row)
      grown = true
    }
  }
  return new Set([...gone].filter(id => !dropped.has(id)))
}

/** The row that provides each service that is there, by the realm's key. */
function providersOf(ctx: Context): Map<symbol, string> {
  const { store } = ctx.reflect
  const providers = new Map<symbol, string>()
  for (const key of Reflect.ownKeys(store) as symbol[]) {
    const id = rowOf(store[key]!.fiber.ctx)?.id
    if (id !== undefined) providers.set(key, id)
  }
  return providers
}

/** The services that each row and its inner plugins wait for, by their realms' keys. */
function needsOf(ctx: Context): Map<string, symbol[]> {
  const needs = new Map<string, symbol[]>()
  for (const { fibers } of ctx.registry.values()) {
    for (const fiber of fibers) {
      const names = Object.keys(fiber.inject)
      const id = names.length ? rowOf(fiber.ctx)?.id : undefined
      if (id === undefined) continue
      const realms = fiber.ctx[Context.isolate]
      const keys = names.flatMap(name => realms[name] ?? [])
      needs.set(id, [...(needs.get(id) ?? []), ...keys])
    }
  }
  return needs
}
