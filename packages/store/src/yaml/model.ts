/** What a YAML text says, apart from how it is written: aliases followed, merges done, tags kept, places known. */

import { HarnessError, MAX_JSON_DEPTH } from '@cambium/core'
import { type Alias, type Document, isAlias, isMap, isScalar, isSeq, type Node, type Pair } from 'yaml'

export interface ModelEntry {
  /** Offset of the key. */
  readonly at: number
  readonly value: Model
}

export type Model = { readonly at: number; readonly tag: string | undefined } & (
  | { readonly kind: 'scalar'; readonly value: unknown }
  | { readonly kind: 'map'; readonly entries: ReadonlyMap<string, ModelEntry> }
  | { readonly kind: 'list'; readonly items: readonly Model[] }
)

/** A value with a tag of its own, to be written: `new Tagged('!env', 'NAME')`, or with a list. */
export class Tagged {
  readonly tag: string
  readonly value: unknown
  constructor(tag: string, value: unknown) {
    this.tag = tag
    this.value = value
  }
}

/** Tags that say no more than what the value shows. */
const PLAIN_TAGS = new Set([
  '!',
  ...['str', 'int', 'float', 'bool', 'null', 'map', 'seq'].map(core => `tag:yaml.org,2002:${core}`),
])

export const tagOf = ({ tag }: { tag?: string }) => (tag && !PLAIN_TAGS.has(tag) ? tag : undefined)

const NOWHERE = { at: 0, tag: undefined }
export const scalarOf = (value: unknown): Model => ({ ...NOWHERE, kind: 'scalar', value })
export const listOf = (items: readonly Model[]): Model => ({ ...NOWHERE, kind: 'list', items })
export const mapOf = (entries: Iterable<readonly [string, Model]>): Model => ({
  ...NOWHERE,
  kind: 'map',
  entries: new Map([...entries].map(([key, value]) => [key, { at: 0, value }])),
})
export const NOTHING = scalarOf(null)

/** @throws HarnessError without a place for what is no data: cycles, keys that are no text; `at` is its offset */
export function modelOf(doc: Document): Model {
  return doc.contents ? new Modeller(doc).model(doc.contents as Node, 0) : NOTHING
}

/** A mistake at an offset; whoever knows the file says where that is. */
export class Misplaced extends Error {
  readonly at: number
  readonly fix: string
  constructor(problem: string, fix: string, at: number) {
    super(problem)
    this.fix = fix
    this.at = at
  }
}

class Modeller {
  private readonly doc: Document
  /** Of anchored nodes, so that an alias shares its model instead of multiplying it. */
  private readonly known = new Map<Node, Model>()
  private readonly open = new Set<Node>()

  constructor(doc: Document) {
    this.doc = doc
  }

  model(node: Node, depth: number): Model {
    if (isAlias(node)) return this.alias(node, depth)
    const at = node.range?.[0] ?? 0
    if (depth > MAX_JSON_DEPTH) throw new Misplaced('it is nested too deeply', 'flatten it', at)
    this.open.add(node)
    const model = this.read(node, at, depth)
    this.open.delete(node)
    this.known.set(node, model)
    return model
  }

  private read(node: Node, at: number, depth: number): Model {
    const tag = tagOf(node as { tag?: string })
    if (isSeq(node))
      return { kind: 'list', at, tag, items: node.items.map(item => this.model(item as Node, depth + 1)) }
    if (isMap(node))
      return { kind: 'map', at, tag, entries: this.entries(node.items as Pair<Node, Node | null>[], depth) }
    if (!isScalar(node)) throw new Misplaced('this is neither a map, a list nor a scalar', 'write one of these', at)
    return { kind: 'scalar', at, tag, value: node.value }
  }

  private alias(node: Alias, depth: number): Model {
    const at = node.range?.[0] ?? 0
    const target = node.resolve(this.doc) as Node | undefined
    if (!target) throw new Misplaced(`no anchor stands before *${node.source}`, 'define it first', at)
    if (this.open.has(target)) {
      throw new Misplaced(`the anchor &${node.source} contains itself`, 'refer to it from outside', at)
    }
    return this.known.get(target) ?? this.model(target, depth)
  }

  private entries(pairs: readonly Pair<Node, Node | null>[], depth: number): Map<string, ModelEntry> {
    const entries = new Map<string, ModelEntry>()
    const merged: Model[] = []
    for (const pair of pairs) {
      const at = pair.key?.range?.[0] ?? 0
      const value = pair.value ? this.model(pair.value, depth + 1) : { ...NOTHING, at }
      const key = keyOf(pair, this.doc)
      if (key === undefined) throw new Misplaced('a key is plain text', 'write the key as one word or quoted text', at)
      if (typeof key === 'string') entries.set(key, { at, value })
      else merged.push(value)
    }
    for (const source of merged) merge(entries, source)
    return entries
  }
}

/** The key as text, `MERGE` for `<<`, undefined for one that is no text. */
export function keyOf(pair: Pair, doc: Document): string | typeof MERGE | undefined {
  const key = isAlias(pair.key) ? pair.key.resolve(doc) : pair.key
  if (!isScalar(key) || tagOf(key) !== undefined) return undefined
  if (typeof key.value === 'symbol') return MERGE
  return key.source ?? String(key.value)
}

export const MERGE = Symbol('<<')

/** Keys of the map itself win, then those of the map merged first. */
function merge(entries: Map<string, ModelEntry>, from: Model) {
  if (from.kind === 'list') {
    for (const item of from.items) merge(entries, item)
  } else if (from.kind === 'map') {
    for (const [key, entry] of from.entries) if (!entries.has(key)) entries.set(key, entry)
  } else {
    throw new Misplaced('`<<` merges maps only', 'write `<<: *anchor` with a map', from.at)
  }
}

/** The model of data that is to be written; properties that are `undefined` are left out. @throws `JSON_UNSUPPORTED` */
export function modelFrom(value: unknown, above: readonly unknown[] = []): Model {
  if (above.includes(value) || above.length > MAX_JSON_DEPTH) throw unsupported('a cycle, or nested too deeply')
  const inside = [...above, value]
  if (value instanceof Tagged) return { ...modelFrom(value.value, inside), tag: value.tag }
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return scalarOf(value)
  if (Array.isArray(value)) return listOf(value.map(item => modelFrom(item ?? null, inside)))
  const prototype = typeof value === 'object' ? Object.getPrototypeOf(value) : undefined
  if (prototype !== null && (prototype === undefined || Object.getPrototypeOf(prototype) !== null)) {
    throw unsupported(typeof value === 'object' ? 'an instance of a class' : `a ${typeof value}`)
  }
  const entries = Object.entries(value as object).filter(([, item]) => item !== undefined)
  return mapOf(entries.map(([key, item]) => [key, modelFrom(item, inside)]))
}

function unsupported(what: string) {
  return new HarnessError('JSON_UNSUPPORTED', `a value to be written is ${what}`, {
    fix: 'give plain objects, lists, strings, numbers, booleans and null',
  })
}

/** Whether both say the same; the order of keys says nothing. What both share by anchors is compared once. */
export function sameModel(a: Model, b: Model, known = new Map<Model, Set<Model>>()): boolean {
  if (a === b) return true
  if (a.tag !== b.tag) return false
  if (a.kind === 'scalar') return b.kind === 'scalar' && (a.value === b.value || Object.is(a.value, b.value))
  if (known.get(a)?.has(b)) return true
  if (a.kind === 'list') {
    if (b.kind !== 'list' || a.items.length !== b.items.length) return false
    if (!a.items.every((item, index) => sameModel(item, b.items[index]!, known))) return false
  } else {
    if (b.kind !== 'map' || a.entries.size !== b.entries.size) return false
    for (const [key, entry] of a.entries) {
      const other = b.entries.get(key)
      if (!other || !sameModel(entry.value, other.value, known)) return false
    }
  }
  known.set(a, (known.get(a) ?? new Set()).add(b))
  return true
}
