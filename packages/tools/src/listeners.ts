/** The listeners of an event, each with its plugin's name: where an answer must be traced to who gave it. */

import { Context, type Events, type ScopeKey, scopeChain, scopeOf } from '@cambium/core'

export interface NamedListener {
  readonly plugin: string
  readonly run: (...args: unknown[]) => unknown
}

/** Outermost first; who hears is decided as by `waterfall` of core. */
export function listenersOf(ctx: Context, scope: ScopeKey | undefined, name: keyof Events): NamedListener[] {
  const chain = scopeChain(scope)
  const heard: Context[] = []
  const target = {
    [Context.filter](listener: Context) {
      const of = scopeOf(listener)
      const hears = of === undefined || chain.includes(of)
      if (hears) heard.push(listener)
      return hears
    },
  }
  const found = ctx.events.dispatch('waterfall', [target, name]) as NamedListener['run'][]
  // A listener that asked to hear everything is not shown to the filter, and then the two lists cannot be matched.
  const matched = heard.length === found.length
  return found.map((run, i) => ({ plugin: matched ? heard[i]!.fiber.name : `a listener of ${name}`, run }))
}
