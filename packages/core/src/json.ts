/** JSON values, and the one check that a value is one. */

import { HarnessError } from './error.ts'

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue | undefined
}

/**
 * A deep copy that shares nothing with `value`, read once. Properties that are `undefined` are left out.
 *
 * @throws `JSON_UNSUPPORTED` for what JSON cannot hold: functions, symbols, bigints, NaN, infinities, cycles,
 * and instances of classes (a `Date`, a `Map`), which would silently become something else.
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
