/** A YAML value that still knows where each part was written and which parts are expressions. */

import { placeOf, type Source, type Spot } from './source.ts'

export interface Entry {
  /** Where the key stands. */
  readonly spot: Spot
  readonly value: Value
}

export interface MapValue {
  readonly kind: 'map'
  readonly spot: Spot
  readonly entries: ReadonlyMap<string, Entry>
}

export interface ListValue {
  readonly kind: 'list'
  readonly spot: Spot
  readonly items: readonly Value[]
}

export interface ScalarValue {
  readonly kind: 'scalar'
  readonly spot: Spot
  readonly value: unknown
}

/** `!env` or `!js`: a value that is computed once, when the tree is read. */
export interface Expression {
  readonly kind: 'expression'
  readonly spot: Spot
  readonly tag: '!env' | '!env:string' | '!js'
  /** The tag as YAML knows it, where that is not what stands above: `!!js`. */
  readonly spelt?: string
  /** The variable's name, or the JavaScript expression. */
  readonly text: string
  /** The second item of `!env [NAME, default]`. */
  readonly fallback?: { readonly value: unknown }
}

export type Value = MapValue | ListValue | ScalarValue | Expression

export const mapOf = (spot: Spot, entries: Iterable<readonly [string, Entry]> = []): MapValue => ({
  kind: 'map',
  spot,
  entries: new Map(entries),
})

/** Plain data as a value; all of it was written at the same place. */
export function fromData(data: unknown, source: Source): Value {
  const spot = { source, offset: 0 }
  const convert = (part: unknown): Value => {
    if (Array.isArray(part)) return { kind: 'list', spot, items: part.map(convert) }
    if (typeof part !== 'object' || part === null) return { kind: 'scalar', spot, value: part }
    const given = Object.entries(part).filter(([, value]) => value !== undefined)
    return mapOf(
      spot,
      given.map(([key, value]) => [key, { spot, value: convert(value) }]),
    )
  }
  return convert(data)
}

/** What a value is called in a message. */
export function describe(value: Value): string {
  if (value.kind === 'expression') return `\`${value.tag}\``
  if (value.kind !== 'scalar') return `a ${value.kind}`
  if (value.value === null) return 'nothing'
  return typeof value.value === 'string' ? JSON.stringify(value.value) : String(value.value)
}

/** The result of an expression that has none: its key, or its list item, is left out. */
export const ABSENT = Symbol('absent')

/** Anchors that repeat each other can describe more values than memory holds. */
const MAX_VALUES = 1_000_000

/**
 * The plain data of a value, a fresh copy each time. `evaluate` answers for expressions.
 *
 * @throws RangeError when aliases expand to more than a million values.
 */
export function toData(value: Value, evaluate: (expression: Expression) => unknown): unknown {
  let count = 0
  const copy = (part: Value): unknown => {
    if (++count > MAX_VALUES) throw new RangeError(`its aliases expand to more than ${MAX_VALUES} values`)
    if (part.kind === 'scalar') return part.value
    if (part.kind === 'expression') return evaluate(part)
    if (part.kind === 'list') return part.items.map(copy).filter(item => item !== ABSENT)
    const data: Record<string, unknown> = {}
    for (const [key, entry] of part.entries) {
      const item = copy(entry.value)
      if (item === ABSENT) continue
      if (key === '__proto__') Object.defineProperty(data, key, { value: item, enumerable: true, writable: true })
      else data[key] = item
    }
    return data
  }
  return copy(value)
}

export interface Located {
  readonly place: string
  /** The expression that stands at the asked path. */
  readonly expression?: Expression
}

/** The place of what `path` leads to, or of its nearest ancestor that was written down. */
export function locate(value: Value, path: readonly PropertyKey[], fallback: Spot = value.spot): Located {
  let part = value
  let spot = fallback
  for (const key of path) {
    if (part.kind === 'map') {
      const entry = part.entries.get(String(key))
      if (!entry) return { place: placeOf(spot) }
      part = entry.value
      spot = entry.spot
    } else if (part.kind === 'list') {
      const item = part.items[Number(key)]
      if (!item) return { place: placeOf(spot) }
      part = item
      spot = item.spot
    } else {
      return { place: placeOf(spot) }
    }
  }
  return part.kind === 'expression' ? { place: placeOf(spot), expression: part } : { place: placeOf(spot) }
}
