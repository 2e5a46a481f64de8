/** A value as plain data, so that a text known beforehand need not be parsed at every start. */

import type { Source } from './source.ts'
import { type Entry, type Expression, mapOf, type Value } from './value.ts'

/** Each part begins with where it stands in the text. */
export type Parsed =
  | readonly [offset: number, kind: 'map', entries: readonly (readonly [key: string, offset: number, value: Parsed])[]]
  | readonly [offset: number, kind: 'list', items: readonly Parsed[]]
  | readonly [offset: number, kind: 'scalar', value: unknown]
  | readonly [offset: number, kind: 'expression', Pick<Expression, 'tag' | 'text' | 'fallback'>]

export function pack(value: Value): Parsed {
  const { offset } = value.spot
  if (value.kind === 'scalar') return [offset, 'scalar', value.value]
  if (value.kind === 'list') return [offset, 'list', value.items.map(pack)]
  if (value.kind === 'map') {
    const entries = [...value.entries].map(([key, entry]) => [key, entry.spot.offset, pack(entry.value)] as const)
    return [offset, 'map', entries]
  }
  const { tag, text, fallback } = value
  return [offset, 'expression', fallback ? { tag, text, fallback } : { tag, text }]
}

export function unpack(parsed: Parsed, source: Source): Value {
  const spot = { source, offset: parsed[0] }
  if (parsed[1] === 'scalar') return { kind: 'scalar', spot, value: parsed[2] }
  if (parsed[1] === 'list') return { kind: 'list', spot, items: parsed[2].map(item => unpack(item, source)) }
  if (parsed[1] === 'expression') return { kind: 'expression', spot, ...parsed[2] }
  const entries = parsed[2].map(([key, offset, value]): [string, Entry] => [
    key,
    { spot: { source, offset }, value: unpack(value, source) },
  ])
  return mapOf(spot, entries)
}
