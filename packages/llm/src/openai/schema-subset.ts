/**
 * A tool's schema in the part of OpenAPI 3.0 that Gemini knows: no references, one type a node, no keyword beyond the
 * list. What cannot be said is loosened, never tightened; the tool itself checks its arguments in full.
 *
 * @see https://ai.google.dev/api/caching#Schema
 */

import type { JsonObject, JsonValue } from '@cambium/core'

type Node = JsonObject

const KEPT = [
  'title',
  'description',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'pattern',
  'minItems',
  'maxItems',
  'minProperties',
  'maxProperties',
]
const FORMATS = ['date-time', 'enum', 'int32', 'int64', 'float', 'double']
/** A recursive schema is unfolded that far. */
const MAX_DEPTH = 12
/** Unfolding must not blow a schema up that refers to itself in many places. */
const MAX_NODES = 5_000

const isNode = (value: JsonValue | undefined): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const nodesIn = (value: JsonValue | undefined): Node[] => (Array.isArray(value) ? value.filter(isNode) : [])

/** Undefined for a tool without parameters: an object without properties is refused. */
export function subsetSchema(schema: JsonObject): JsonObject | undefined {
  const subset = new Subset(schema).node(schema, [])
  return isNode(subset['properties']) && Object.keys(subset['properties']).length ? subset : undefined
}

class Subset {
  private readonly root: Node
  private nodes = 0

  constructor(root: Node) {
    this.root = root
  }

  /** `above`: the references that led here. */
  node(given: Node, above: readonly string[]): Node {
    const { node, path } = this.resolve(given, above)
    if (path.length > MAX_DEPTH || ++this.nodes > MAX_NODES) return { type: 'object' }
    const merged = this.merge(node, path)
    const alternatives = [...nodesIn(merged['anyOf']), ...nodesIn(merged['oneOf'])]
    const types = typesOf(merged)
    const nullable = types.includes('null') || merged['nullable'] === true || alternatives.some(isNull)
    const out: Record<string, JsonValue | undefined> = {}
    for (const key of KEPT) if (merged[key] !== undefined && merged[key] !== null) out[key] = merged[key]
    if (FORMATS.includes(String(merged['format']))) out['format'] = merged['format']
    if (nullable) out['nullable'] = true
    const solid = types.filter(type => type !== 'null')
    const choices = alternatives.filter(choice => !isNull(choice)).map(choice => this.node(choice, path))
    if (choices.length === 1 && solid.length === 0) return { ...choices[0], ...out }
    if (choices.length && solid.length === 0) return { ...described(out), anyOf: choices }
    if (solid.length > 1) {
      return { ...described(out), anyOf: solid.map(type => this.typed(type, merged, path, {})) }
    }
    return solid[0] ? this.typed(solid[0], merged, path, out) : { ...described(out), anyOf: anything() }
  }

  private typed(type: string, node: Node, path: readonly string[], more: Node): Node {
    const out: Record<string, JsonValue | undefined> = { type, ...more }
    const values = valuesOf(node)
    // Only texts may be listed.
    if (type === 'string' && values?.length && values.every(value => typeof value === 'string')) {
      out['enum'] = values
    }
    if (type === 'array') {
      const listed = isNode(node['items']) && Object.keys(node['items']).length ? [node['items']] : []
      const items = [...nodesIn(node['prefixItems']), ...listed]
      out['items'] = items.length ? this.oneOf(items, path) : { anyOf: anything() }
    }
    if (type === 'object' && isNode(node['properties'])) {
      const properties = Object.entries(node['properties']).flatMap(([name, value]) =>
        isNode(value) || value === true ? [[name, this.node(isNode(value) ? value : {}, path)] as const] : [],
      )
      const names = properties.map(([name]) => name)
      if (names.length) out['properties'] = Object.fromEntries(properties)
      const required = Array.isArray(node['required']) ? node['required'].filter(name => names.includes(`${name}`)) : []
      if (required.length) out['required'] = required
    }
    return out
  }

  private oneOf(nodes: readonly Node[], path: readonly string[]): Node {
    const choices = nodes.map(node => this.node(node, path))
    return choices.length === 1 ? choices[0]! : { anyOf: choices }
  }

  /** Follows references; what stands beside one stays. A circle ends in an object of any kind. */
  private resolve(node: Node, above: readonly string[]): { node: Node; path: readonly string[] } {
    let here = node
    let path = above
    while (typeof here['$ref'] === 'string') {
      const { $ref: reference, ...beside } = here
      if (path.includes(reference as string)) return { node: { type: 'object' }, path }
      const target = this.pointed(reference as string)
      if (!target) return { node: beside, path }
      path = [...path, reference as string]
      here = { ...target, ...beside }
    }
    return { node: here, path }
  }

  private pointed(reference: string): Node | undefined {
    let here: JsonValue | undefined = this.root
    for (const part of reference.split('/').slice(1)) {
      const name = decodeURIComponent(part.replace(/%(?![0-9a-f]{2})/gi, '%25'))
      here = isNode(here) ? here[name.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined
    }
    return isNode(here) ? here : undefined
  }

  /** All parts of an `allOf` as one node. */
  private merge(node: Node, path: readonly string[]): Node {
    const { allOf, ...own } = node
    let merged: Node = own
    if (++this.nodes > MAX_NODES) return own
    for (const part of nodesIn(allOf)) {
      const { node: resolved, path: further } = this.resolve(part, path)
      const other = this.merge(resolved, further)
      const properties = { ...asNode(other['properties']), ...asNode(merged['properties']) }
      const required = [...new Set([...listOf(merged['required']), ...listOf(other['required'])])]
      const named = Object.keys(properties).length ? { properties } : {}
      merged = { ...other, ...merged, ...named, ...(required.length ? { required } : {}) }
    }
    return merged
  }
}

const asNode = (value: JsonValue | undefined): Node => (isNode(value) ? value : {})
const listOf = (value: JsonValue | undefined): JsonValue[] => (Array.isArray(value) ? [...value] : [])
const isNull = (node: Node) => node['type'] === 'null' || (node['const'] === null && 'const' in node)

/** What a node says about itself, without the bounds of one type. */
function described({ title, description, nullable }: Node): Node {
  return {
    ...(title === undefined ? {} : { title }),
    ...(description === undefined ? {} : { description }),
    ...(nullable === undefined ? {} : { nullable }),
  }
}

/** The listed types, or what the rest of the node tells. */
function typesOf(node: Node): string[] {
  const listed = [node['type']].flat().filter(type => typeof type === 'string')
  if (listed.length) return listed
  if (isNode(node['properties'])) return ['object']
  if (isNode(node['items']) || Array.isArray(node['prefixItems'])) return ['array']
  const values = valuesOf(node) ?? []
  return [...new Set(values.map(value => (value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value)))]
}

function valuesOf(node: Node): readonly JsonValue[] | undefined {
  if (Array.isArray(node['enum'])) return node['enum'].filter(value => value !== null)
  return node['const'] === undefined ? undefined : [node['const']]
}

const anything = (): Node[] => [
  { type: 'string' },
  { type: 'number' },
  { type: 'boolean' },
  { type: 'object' },
  { type: 'array', items: { type: 'string' } },
]
