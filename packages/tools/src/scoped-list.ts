/** Entries without names, per scope: what guards and restrictions are kept in. */

import { type Context, type ScopeKey, scopeChain, scopeOf } from '@cambium/core'

export class ScopedList<V> {
  private readonly global = new Set<{ readonly value: V }>()
  private readonly layers = new WeakMap<ScopeKey, Set<{ readonly value: V }>>()
  private size = 0
  private readonly changed: (() => void) | undefined

  constructor(changed?: () => void) {
    this.changed = changed
  }

  /** Adds to the scope of `ctx` for as long as `ctx`'s plugin lives; returns the undo. */
  add(ctx: Context, value: V, label: string): () => void {
    const layer = this.layer(scopeOf(ctx))
    const entry = { value }
    return ctx.effect(() => {
      layer.add(entry)
      this.size++
      this.changed?.()
      return () => {
        if (!layer.delete(entry)) return
        this.size--
        this.changed?.()
      }
    }, label) as unknown as () => void
  }

  /** Those of exactly that scope, in the order they came. */
  own(scope: ScopeKey | undefined): V[] {
    const layer = scope ? this.layers.get(scope) : this.global
    return layer ? [...layer].map(entry => entry.value) : []
  }

  /** Those that `scope` is under: global ones first, its own last. */
  chain(scope: ScopeKey | undefined): V[] {
    if (!this.size) return []
    const keys = [undefined, ...[...scopeChain(scope)].reverse()]
    return keys.flatMap(key => this.own(key))
  }

  private layer(scope: ScopeKey | undefined) {
    if (!scope) return this.global
    const layer = this.layers.get(scope) ?? new Set<{ readonly value: V }>()
    this.layers.set(scope, layer)
    return layer
  }
}
