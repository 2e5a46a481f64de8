/** What schemastery does not do for us: it keeps keys that a schema does not know, and writes into what it checks. */

/** As much of a schema of schemastery as is needed to walk it. */
export interface SchemaNode {
  readonly type: string
  readonly meta?: { readonly loose?: boolean; readonly role?: string; readonly default?: unknown }
  readonly inner?: SchemaNode
  readonly list?: readonly SchemaNode[]
  readonly dict?: Readonly<Record<string, SchemaNode>>
  readonly builder?: (...args: never[]) => unknown
  readonly '~standard': { validate(value: unknown): unknown }
}

export interface UnknownKey {
  readonly path: readonly PropertyKey[]
  /** The keys that the schema has at that place. */
  readonly known: readonly string[]
}

export function isSchemastery(schema: unknown): schema is SchemaNode {
  return (schema as Record<symbol, unknown> | null)?.[Symbol.for('schemastery')] === true
}

/** The keys in `data` that a schema would silently keep. */
export function unknownKeys(schema: SchemaNode, data: unknown): UnknownKey[] {
  const found: UnknownKey[] = []
  walk(schema, data, [], found)
  return found
}

function walk(schema: SchemaNode, data: unknown, path: readonly PropertyKey[], found: UnknownKey[]): void {
  if (typeof data !== 'object' || data === null || schema.meta?.loose) return
  const inner = innerOf(schema)
  if (inner) {
    walk(inner, data, path, found)
  } else if (schema.type === 'union') {
    walkUnion(schema, data, path, found)
  } else if (schema.type === 'array' || schema.type === 'dict') {
    for (const [key, item] of entriesOf(data)) walk(schema.inner!, item, [...path, key], found)
  } else if (schema.type === 'tuple') {
    for (const [key, item] of entriesOf(data)) {
      const member = schema.list![key as number]
      if (member) walk(member, item, [...path, key], found)
    }
  } else {
    const known = knownKeys(schema)
    if (known) walkObject(known, data, path, found)
  }
}

function walkObject(known: Map<string, SchemaNode>, data: object, path: readonly PropertyKey[], found: UnknownKey[]) {
  for (const [key, item] of Object.entries(data)) {
    const inner = known.get(key)
    if (inner) walk(inner, item, [...path, key], found)
    else found.push({ path: [...path, key], known: [...known.keys()] })
  }
}

/** A union is judged by that of its members which the data fits best. */
function walkUnion(schema: SchemaNode, data: object, path: readonly PropertyKey[], found: UnknownKey[]) {
  const attempts = schema
    .list!.filter(member => !('issues' in (member['~standard'].validate(copyData(data)) as object)))
    .map(member => {
      const misses: UnknownKey[] = []
      walk(member, data, path, misses)
      return misses
    })
  found.push(...(attempts.sort((a, b) => a.length - b.length)[0] ?? []))
}

function entriesOf(data: object): [PropertyKey, unknown][] {
  return Array.isArray(data) ? data.map((item, index) => [index, item]) : Object.entries(data)
}

/** The keys of an object schema, or of an intersection of such; undefined when the schema does not name its keys. */
function knownKeys(schema: SchemaNode, nested = false): Map<string, SchemaNode> | undefined {
  if (schema.meta?.loose) return undefined
  if (schema.type === 'object') return new Map(Object.entries(schema.dict!) as [string, SchemaNode][])
  const wrapped = innerOf(schema)
  if (wrapped) return knownKeys(wrapped, nested)
  if (schema.type !== 'intersect' && !(schema.type === 'union' && nested)) return undefined
  const keys = new Map<string, SchemaNode>()
  for (const member of schema.list!) {
    const own = knownKeys(member, true)
    if (!own) return undefined
    for (const [key, inner] of own) keys.set(key, inner)
  }
  return keys
}

/** What a lazy schema or a transformation wraps. */
export function innerOf(schema: SchemaNode): SchemaNode | undefined {
  if (schema.type === 'lazy') return schema.builder?.() as SchemaNode | undefined
  return schema.type === 'transform' ? schema.inner : undefined
}

/** A copy of maps and lists; whatever else an expression may have answered is shared. */
export function copyData<T>(data: T): T {
  if (Array.isArray(data)) return data.map(copyData) as T
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype) return data
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, copyData(value)])) as T
}
