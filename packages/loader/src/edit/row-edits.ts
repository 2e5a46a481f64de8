/** Changes of one row: found by comparing what it says with what is wanted, and made on what a later reading says. */

import { isDeepStrictEqual } from 'node:util'
import type { Source, Spot } from '../file/source.ts'
import { ABSENT, type Entry, type Expression, type MapValue, mapOf, toData, type Value } from '../file/value.ts'

/** What the keys of `path` lead to in the row's map, or that it goes. */
export interface RowEdit {
  readonly path: readonly string[]
  readonly value: Value | undefined
}

export interface Comparison {
  readonly evaluate: (expression: Expression) => unknown
  /** Whose values the new ones are. */
  readonly source: Source
}

/**
 * The edits that `changes` come to. `config` is merged deeply, `{ $replace: … }` and lists take the place of what was
 * there; every other key is replaced, and one that is undefined goes. What is equal to what the row says stays as it is
 * written, an expression too.
 */
export function editsOf(row: MapValue, changes: Readonly<Record<string, unknown>>, comparison: Comparison): RowEdit[] {
  const edits: RowEdit[] = []
  const compare = new Comparer(comparison, edits)
  for (const [key, wanted] of Object.entries(changes)) {
    const value = row.entries.get(key)?.value
    if (key === 'config') compare.merge(value, wanted, [key])
    else compare.replace(value, wanted, [key])
  }
  return edits
}

class Comparer {
  private readonly comparison: Comparison
  private readonly edits: RowEdit[]

  constructor(comparison: Comparison, edits: RowEdit[]) {
    this.comparison = comparison
    this.edits = edits
  }

  merge(value: Value | undefined, wanted: unknown, path: readonly string[]): void {
    if (!isMap(wanted)) {
      this.replace(value, wanted, path)
    } else if (Object.hasOwn(wanted, '$replace')) {
      this.exact(value, wanted['$replace'], path)
    } else if (value?.kind !== 'map') {
      this.replace(value, withoutUndefined(wanted), path)
    } else {
      for (const [key, item] of Object.entries(wanted)) this.merge(value.entries.get(key)?.value, item, [...path, key])
    }
  }

  /** As {@link replace}, key by key, so that what stays is not said anew. */
  private exact(value: Value | undefined, wanted: unknown, path: readonly string[]): void {
    if (value?.kind !== 'map' || !isMap(wanted)) {
      this.replace(value, wanted, path)
      return
    }
    for (const key of value.entries.keys()) {
      if (!Object.hasOwn(wanted, key)) this.edits.push({ path: [...path, key], value: undefined })
    }
    for (const [key, item] of Object.entries(wanted)) this.exact(value.entries.get(key)?.value, item, [...path, key])
  }

  replace(value: Value | undefined, wanted: unknown, path: readonly string[]): void {
    if (wanted === undefined) {
      if (value) this.edits.push({ path, value: undefined })
    } else if (!value || !this.says(value, wanted)) {
      this.edits.push({ path, value: this.revised(value, wanted) })
    }
  }

  /** `wanted`, with the parts that are there already as they are written. */
  private revised(value: Value | undefined, wanted: unknown): Value {
    if (value && this.says(value, wanted)) return value
    const { source } = this.comparison
    const spot: Spot = { source, offset: 0 }
    if (Array.isArray(wanted)) {
      const items = value?.kind === 'list' ? this.alignedItems(value.items, wanted) : wanted.map(() => undefined)
      return { kind: 'list', spot, items: wanted.map((item, at) => this.revised(items[at], item)) }
    }
    // Whatever is no data stays the program's own.
    if (!isMap(wanted)) return { kind: 'scalar', spot, value: wanted }
    const entries = value?.kind === 'map' ? value.entries : new Map<string, Entry>()
    const given = Object.entries(wanted).filter(([, item]) => item !== undefined)
    return mapOf(
      spot,
      given.map(([key, item]) => [key, { spot, value: this.revised(entries.get(key)?.value, item) }]),
    )
  }

  /** For each wanted item, the one that it was: the same at the head and at the tail, and by place between them. */
  private alignedItems(items: readonly Value[], wanted: readonly unknown[]): (Value | undefined)[] {
    const most = Math.min(items.length, wanted.length)
    let head = 0
    while (head < most && this.says(items[head]!, wanted[head])) head++
    let tail = 0
    while (tail < most - head && this.says(items.at(-1 - tail)!, wanted.at(-1 - tail))) tail++
    const shift = items.length - wanted.length
    return wanted.map((_, at) => {
      if (at < wanted.length - tail) return at < items.length - tail ? items[at] : undefined
      return items[at + shift]
    })
  }

  private says(value: Value, wanted: unknown): boolean {
    try {
      const data = toData(value, this.comparison.evaluate)
      return data !== ABSENT && isDeepStrictEqual(data, wanted)
    } catch {
      // An expression that fails, as in a row that is disabled, says nothing that could be equal.
      return false
    }
  }
}

/** The row with the edits made. What is in the way of a path gives way: the edits were right when they were made. */
export function applyEdits(row: MapValue, edits: readonly RowEdit[], spot: Spot): MapValue {
  return edits.reduce((changed, { path, value }) => edited(changed, path, value, spot), row)
}

function edited(map: MapValue, [key, ...rest]: readonly string[], value: Value | undefined, spot: Spot): MapValue {
  const entries = new Map(map.entries)
  const former = entries.get(key!)
  if (rest.length) {
    if (former?.value.kind !== 'map' && value === undefined) return map
    const inner = former?.value.kind === 'map' ? former.value : mapOf(spot)
    entries.set(key!, { spot: former?.spot ?? spot, value: edited(inner, rest, value, spot) })
  } else if (value === undefined) {
    entries.delete(key!)
  } else {
    entries.set(key!, { spot, value })
  }
  return { ...map, entries }
}

/** Same text for a person who reads both: data by value, expressions by what they say. */
export function sameValue(a: Value | undefined, b: Value | undefined): boolean {
  if (a === b || !a || !b || a.kind !== b.kind) return a === b
  if (a.kind === 'scalar') return isDeepStrictEqual(a.value, (b as typeof a).value)
  if (a.kind === 'expression') {
    const other = b as Expression
    return a.tag === other.tag && a.text === other.text && isDeepStrictEqual(a.fallback, other.fallback)
  }
  if (a.kind === 'list') {
    const { items } = b as typeof a
    return a.items.length === items.length && a.items.every((item, at) => sameValue(item, items[at]))
  }
  const { entries } = b as typeof a
  if (a.entries.size !== entries.size) return false
  return [...a.entries].every(([key, { value }]) => sameValue(value, entries.get(key)?.value))
}

function isMap(data: unknown): data is Record<string, unknown> {
  if (typeof data !== 'object' || data === null) return false
  const prototype = Object.getPrototypeOf(data)
  return prototype === Object.prototype || prototype === null
}

function withoutUndefined(data: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(data).filter(([, value]) => value !== undefined))
}
