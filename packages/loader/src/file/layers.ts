/** Layers over a tree: patch files, then `--set id.path=value`. A later layer sees what the earlier ones made. */

import { HarnessError, nearest } from '@cambium/core'
import { listing } from '../listing.ts'
import { optionSource, placeOf, type Spot } from './source.ts'
import { describe, type Entry, type ListValue, type MapValue, mapOf, type Value } from './value.ts'
import { scalarOf } from './yaml.ts'

export interface Override {
  readonly kind: 'override'
  readonly id: string
  readonly spot: Spot
  /** The row with the change made. @throws HarnessError when it cannot be made. */
  readonly change: (row: MapValue) => MapValue
  readonly fleeting?: true
  used: boolean
}

export interface Insertion {
  readonly kind: 'insert'
  readonly spot: Spot
  readonly rows: ListValue
  /** The id that `into`, `before` or `after` names; none means the end of the tree. */
  readonly anchor: { readonly relation: 'into' | 'before' | 'after'; readonly id: string } | undefined
  /** Once the row that it stands by is gone, its rows stand at the end of this group, `''` for the tree. */
  readonly otherwise?: string
  readonly fleeting?: true
  used: boolean
}

export interface Removal {
  readonly kind: 'remove'
  readonly id: string
  readonly spot: Spot
  readonly fleeting: true
  used: boolean
}

/** One that is `fleeting` may find nothing any more to change: that is no mistake. */
export type Layer = Override | Insertion | Removal

const RELATIONS = ['into', 'before', 'after'] as const

/** The layers of one patch file: a list of overrides (`id` and what to change) and insertions. */
export function patchLayers(list: Value | undefined, mistakes: HarnessError[]): Layer[] {
  if (!list || (list.kind === 'scalar' && list.value === null)) return []
  if (list.kind !== 'list') {
    mistakes.push(invalid(list.spot, `a patch file is a list, not ${describe(list)}`))
    return []
  }
  return list.items.flatMap(item => {
    try {
      return [item.kind === 'map' ? patchLayer(item) : fail(item.spot, `a patch is a map, not ${describe(item)}`)]
    } catch (error) {
      if (!(error instanceof HarnessError)) throw error
      mistakes.push(error)
      return []
    }
  })
}

function patchLayer(item: MapValue): Layer {
  const rows = item.entries.get('insert')
  if (!rows) {
    const id = name(item, 'id') ?? fail(item.spot, 'a patch needs an `id`, or rows to `insert`')
    return { kind: 'override', id, spot: item.spot, change: row => patchRow(row, item), used: false }
  }
  const extra = [...item.entries.keys()].find(key => key !== 'insert' && !RELATIONS.includes(key as never))
  if (extra) fail(item.entries.get(extra)!.spot, `an insertion has no key \`${extra}\``)
  const relations = RELATIONS.filter(relation => item.entries.has(relation))
  if (relations.length > 1) fail(item.spot, `an insertion has one of \`${relations.join('` and `')}\`, not both`)
  const [relation] = relations
  if (rows.value.kind !== 'list') fail(rows.spot, `\`insert\` is a list of rows, not ${describe(rows.value)}`)
  return {
    kind: 'insert',
    spot: item.spot,
    rows: rows.value as ListValue,
    anchor: relation && { relation, id: name(item, relation) ?? fail(item.spot, `\`${relation}\` names a row's id`) },
    used: false,
  }
}

function name(item: MapValue, key: string): string | undefined {
  const value = item.entries.get(key)?.value
  return value?.kind === 'scalar' && typeof value.value === 'string' ? value.value : undefined
}

/** `config` is merged deeply, every other key replaced. */
function patchRow(row: MapValue, patch: MapValue): MapValue {
  const entries = new Map(row.entries)
  for (const [key, entry] of patch.entries) {
    if (key === 'id') continue
    const value = key === 'config' ? merge(entries.get(key)?.value, entry.value) : entry.value
    entries.set(key, { spot: entry.spot, value })
  }
  return mapOf(row.spot, entries)
}

/** Maps are merged key by key; anything else, and what stands under `$replace`, takes the former value's place. */
function merge(base: Value | undefined, patch: Value): Value {
  if (patch.kind !== 'map') return patch
  const whole = patch.entries.get('$replace')
  if (whole) {
    if (patch.entries.size > 1) fail(whole.spot, '`$replace` stands beside other keys, which it would replace')
    return whole.value
  }
  const under = base?.kind === 'map' ? base : undefined
  const entries = new Map(under?.entries)
  for (const [key, { spot, value }] of patch.entries) {
    entries.set(key, { spot, value: merge(entries.get(key)?.value, value) })
  }
  return mapOf(under?.spot ?? patch.spot, entries)
}

/**
 * The layer of one `--set id.path=value`. Row ids may hold dots themselves, so `ids` decides where the id ends: the
 * longest one that fits.
 */
export function setLayer(option: string, ids: Iterable<string>, cwd: string): Override {
  const spot: Spot = { source: optionSource(`--set ${option.split('=', 1)[0]}`, cwd), offset: 0 }
  const equals = option.indexOf('=')
  if (equals < 0) fail(spot, `"${option}" has no \`=\``, 'write --set id.path=value, where path leads into the config')
  const target = option.slice(0, equals)
  const known = [...ids]
  const id = known.filter(id => target.startsWith(`${id}.`)).sort((a, b) => b.length - a.length)[0]
  if (id === undefined) {
    if (known.includes(target)) fail(spot, `"${target}" names a row, not a value`, `write --set ${target}.path=value`)
    throw unknownTarget(target.split('.')[0]!, known, spot)
  }
  const path = target.slice(id.length + 1).split('.')
  const value: Value = { kind: 'scalar', spot, value: optionValue(option.slice(equals + 1)) }
  const change = (row: MapValue) => setIn(row, ['config', ...path], { spot, value }, id) as MapValue
  return { kind: 'override', id, spot, change, used: false }
}

/** A JSON string keeps what looks like a number as text: `--set 'a.b="5"'`. */
function optionValue(text: string): unknown {
  if (text.startsWith('"') && text.endsWith('"')) {
    try {
      return JSON.parse(text)
    } catch {
      // Not one JSON string, so the quotes belong to the text.
    }
  }
  return scalarOf(text)
}

function setIn(base: Value | undefined, path: readonly string[], entry: Entry, id: string): Value {
  const [key, ...rest] = path
  if (key === undefined) return entry.value
  if (base?.kind === 'list') {
    const index = Number(key)
    if (!(Number.isInteger(index) && index >= 0 && index <= base.items.length)) {
      fail(entry.spot, `"${key}" is no position of that list`, `use 0 to ${base.items.length}`)
    }
    const items = [...base.items]
    items[index] = setIn(base.items[index], rest, entry, id)
    return { ...base, items }
  }
  const empty = base === undefined || (base.kind === 'scalar' && base.value === null)
  if (base?.kind !== 'map' && !empty) {
    fail(entry.spot, `in row ${id}, "${key}" would lie inside ${describe(base!)}`, `correct the path`)
  }
  const entries = new Map(base?.kind === 'map' ? base.entries : [])
  const former = entries.get(key)
  const spot = rest.length && former ? former.spot : entry.spot
  entries.set(key, { spot, value: setIn(former?.value, rest, entry, id) })
  return mapOf(base?.kind === 'map' ? base.spot : entry.spot, entries)
}

export function unknownTarget(id: string, ids: readonly string[], spot: Spot): HarnessError {
  const nested = ids.find(known => known.endsWith(`:${id}`))
  const meant = nested ?? nearest(id, ids)
  return new HarnessError('TREE_TARGET_UNKNOWN', `no row has the id "${id}"`, {
    where: placeOf(spot),
    fix: meant ? `did you mean "${meant}"?` : `the ids are ${listing(ids, 30) || 'none: the tree is empty'}`,
  })
}

/** A setting or patch may concern one tree of several; one that concerns none is a mistake. */
export function strayLayers(
  trees: readonly { readonly unmatched: ReadonlyMap<string, HarnessError> }[],
): HarnessError[] {
  const [first, ...others] = trees.map(({ unmatched }) => unmatched)
  return [...(first ?? [])].filter(([place]) => others.every(other => other.has(place))).map(([, mistake]) => mistake)
}

function invalid(spot: Spot, problem: string, fix = 'write `- { id: row, config: … }` or `- insert: [rows]`') {
  return new HarnessError('TREE_PATCH_INVALID', problem, { where: placeOf(spot), fix })
}

function fail(spot: Spot, problem: string, fix?: string): never {
  throw invalid(spot, problem, fix)
}
