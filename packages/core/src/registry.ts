/** Named, ordered entries per scope: tools, prompt sections, adapters, commands and pages are all instances of it. */

import type { Context } from 'cordis'
import { report } from './behaviour.ts'
import { HarnessError } from './error.ts'
import { compareRows, rowOf } from './row.ts'
import { type ScopeKey, scopeChain, scopeOf } from './scope.ts'

export interface ScopedRegistryOptions<V> {
  /** What an entry is called in messages: `tool`, `section`. */
  readonly noun: string
  /** The code of the error for a second entry of the same name in one scope. */
  readonly duplicateCode: string
  /** Called after an entry has come or gone. What it throws is reported and goes no further. */
  readonly changed?: (name: string, scope: ScopeKey | undefined, entry: V) => void
}

interface Entry<V> {
  readonly name: string
  readonly value: V
  readonly ctx: Context
  readonly number: number
}

/**
 * An entry belongs to the scope of the context that registers it and leaves with that context's plugin. A look-up
 * walks from the asked scope to the global one; the nearest entry of a name shadows the others.
 */
export class ScopedRegistry<V> {
  readonly options: ScopedRegistryOptions<V>
  private readonly global = new Map<string, Entry<V>>()
  private readonly layers = new WeakMap<ScopeKey, Map<string, Entry<V>>>()
  private count = 0

  constructor(options: ScopedRegistryOptions<V>) {
    this.options = options
  }

  /**
   * Adds an entry for as long as `ctx`'s plugin lives; returns its undo.
   *
   * @throws the `duplicateCode` when the scope already has an entry of that name.
   */
  register(ctx: Context, name: string, value: V): () => void {
    const { noun, duplicateCode } = this.options
    const scope = scopeOf(ctx)
    const layer = this.layer(scope)
    const taken = layer.get(name)
    if (taken) {
      const holder = taken.ctx.fiber.name
      throw new HarnessError(duplicateCode, `${noun} "${name}" is already offered by ${holder}`, {
        where: describe(ctx),
        fix: `rename one of the two, or disable ${holder}${rowOf(taken.ctx) ? ` (${rowOf(taken.ctx)?.at})` : ''}`,
      })
    }
    const entry = { name, value, ctx, number: this.count++ }
    return ctx.effect(() => {
      layer.set(name, entry)
      this.tell(entry, scope)
      return () => {
        layer.delete(name)
        this.tell(entry, scope)
      }
    }, `${noun} ${name}`) as unknown as () => void
  }

  /** The entry of that name as `scope` sees it. */
  get(name: string, scope?: ScopeKey): V | undefined {
    for (const key of scopeChain(scope)) {
      const entry = this.layers.get(key)?.get(name)
      if (entry) return entry.value
    }
    return this.global.get(name)?.value
  }

  /** The name of the plugin that offers the entry which `scope` sees. */
  owner(name: string, scope?: ScopeKey): string | undefined {
    for (const key of scopeChain(scope)) {
      const entry = this.layers.get(key)?.get(name)
      if (entry) return entry.ctx.fiber.name
    }
    return this.global.get(name)?.ctx.fiber.name
  }

  /** What `scope` sees, by name: in row order, then in order of registration. A fresh map. */
  entries(scope?: ScopeKey): Map<string, V> {
    const found = new Map<string, Entry<V>>(this.global)
    for (const key of [...scopeChain(scope)].reverse()) {
      for (const [name, entry] of this.layers.get(key) ?? []) found.set(name, entry)
    }
    const sorted = [...found.values()].sort((a, b) => compareRows(a.ctx, b.ctx) || a.number - b.number)
    return new Map(sorted.map(entry => [entry.name, entry.value]))
  }

  /** What `scope` sees, in the order of {@link entries}. A fresh array. */
  list(scope?: ScopeKey): V[] {
    return [...this.entries(scope).values()]
  }

  /** Names registered in exactly that scope, not in its ancestors. */
  own(scope?: ScopeKey): string[] {
    return [...((scope ? this.layers.get(scope) : this.global)?.keys() ?? [])]
  }

  private tell({ name, value, ctx }: Entry<V>, scope: ScopeKey | undefined) {
    try {
      this.options.changed?.(name, scope, value)
    } catch (error) {
      report(ctx, `what follows a change of ${this.options.noun} ${name}`, error)
    }
  }

  private layer(scope: ScopeKey | undefined): Map<string, Entry<V>> {
    if (!scope) return this.global
    const layer = this.layers.get(scope) ?? new Map<string, Entry<V>>()
    this.layers.set(scope, layer)
    return layer
  }
}

function describe(ctx: Context): string {
  const row = rowOf(ctx)
  return row ? `${ctx.fiber.name} (${row.at})` : ctx.fiber.name
}
