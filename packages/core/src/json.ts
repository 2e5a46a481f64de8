/** JSON values, and the one check that a value is one. */

import { HarnessError } from './error.ts'

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined
}

/** Far deeper than data that anybody means, far less deep than what overflows a stack on its way through all readers. */
export const MAX_JSON_DEPTH = 512

/**
 * Why a value that `JSON.parse` gave is none that {@link toJson} takes, in words, or undefined: JSON text may nest
 * without end, and may hold numbers that become infinite.
 */
export function parsedProblem(value: unknown, maxDepth = MAX_JSON_DEPTH): string | undefined {
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : 'it holds a number out of range'
  if (typeof value !== 'object' || value === null) return undefined
  if (maxDepth === 0) return 'it is nested too deeply'
  for (const item of Object.values(value)) {
    const problem = parsedProblem(item, maxDepth - 1)
    if (problem) return problem
  }
  return undefined
}

/**
 * A deep copy that shares nothing with `value`, read once. Properties that are `undefined` are left out.
 *
 * @throws `JSON_UNSUPPORTED` for what JSON cannot hold: functions, symbols, bigints, NaN, infinities, cycles, more than
 * 512 levels, and instances of classes (a `Date`, a `Map`), which would silently become something else.
 */
export function toJson(value: unknown, what = 'value'): JsonValue {
  return copy(value, what, new Set())
}

function copy(value: unknown, at: string, above: Set<object>): JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  // JSON has no negative zero.
  if (typeof value === 'number' && Number.isFinite(value)) return value === 0 ? 0 : value
  if (typeof value !== 'object') throw unsupported(at, typeof value === 'number' ? String(value) : typeof value)
  if (above.has(value)) throw unsupported(at, 'a cycle')
  if (above.size === MAX_JSON_DEPTH) throw unsupported(`${at.slice(0, 60)}…`, `more than ${MAX_JSON_DEPTH} levels deep`)
  above.add(value)
  let out: JsonValue
  if (Array.isArray(value)) {
    // Not `map`, which passes over holes: they are refused as the `undefined` that they read as.
    out = Array.from(value, (item, index) => copy(item, `${at}[${index}]`, above))
  } else {
    const prototype = Object.getPrototypeOf(value)
    if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
      throw unsupported(at, `an instance of ${prototype.constructor?.name ?? 'a class'}`)
    }
    const entries: [string, JsonValue][] = []
    for (const key of Object.keys(value)) {
      const item = (value as Record<string, unknown>)[key]
      if (item !== undefined) entries.push([key, copy(item, `${at}.${key}`, above)])
    }
    // Not by assignment, to which a key `__proto__` is no key.
    out = Object.fromEntries(entries)
  }
  above.delete(value)
  return out
}

function unsupported(at: string, what: string) {
  return new HarnessError('JSON_UNSUPPORTED', `${at} is ${what}, which JSON cannot hold`, {
    fix: 'return or log plain objects, arrays, strings, finite numbers, booleans and null',
  })
}
