/** Makes any tool's parameter schema one that providers accept: what they refuse is loosened, never tightened. */

import type { JsonObject } from '@cambium/core'
import { wellFormedDeep } from './unicode.ts'

type Node = Record<string, unknown>

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']
/** Deeper than any hand-written schema; what lies below accepts anything. */
const MAX_DEPTH = 40

const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * The schema as a provider takes it: type `object`, no alternatives at the top, every array with `items`, every `$ref`
 * local and leading somewhere. What the tool itself demands is still checked when it runs.
 */
export function repairSchema(schema: unknown): JsonObject {
  if (!isNode(schema)) return { type: 'object', properties: {} }
  const root = wellFormedDeep(schema)
  const top = walk(flatten(root, root), root, 0) as Node
  for (const key of ['enum', 'not', 'const']) delete top[key]
  top['type'] = 'object'
  if (!isNode(top['properties'])) top['properties'] = {}
  return top as JsonObject
}

/** Alternatives at the top become one object with the properties of all of them. */
function flatten(top: Node, root: Node): Node {
  const { anyOf, oneOf, allOf, $ref, ...rest } = top
  if (!anyOf && !oneOf && !allOf && $ref === undefined) return top
  const out: Node = { ...rest, properties: isNode(rest['properties']) ? { ...rest['properties'] } : {} }
  const required = new Set(namesIn(rest['required']))
  // A branch may refer back to the whole: each node is taken once.
  const seen = new Set<unknown>([root])
  const add = (branch: unknown, binding: boolean) => {
    const resolved = resolve(branch, root)
    if (!isNode(resolved) || seen.has(resolved)) return
    seen.add(resolved)
    if (isNode(resolved['properties'])) {
      for (const [name, value] of Object.entries(resolved['properties'])) (out['properties'] as Node)[name] ??= value
    }
    if (binding) for (const name of namesIn(resolved['required'])) required.add(name)
    for (const key of ['anyOf', 'oneOf', 'allOf']) {
      for (const inner of listOf(resolved[key])) add(inner, binding && key === 'allOf')
    }
  }
  if ($ref !== undefined) add({ $ref }, true)
  for (const branch of listOf(allOf)) add(branch, true)
  for (const branch of [...listOf(anyOf), ...listOf(oneOf)]) add(branch, false)
  if (required.size) out['required'] = [...required]
  else delete out['required']
  return out
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const namesIn = (value: unknown): string[] => listOf(value).filter(name => typeof name === 'string')

function walk(value: unknown, root: Node, depth: number): Node | boolean {
  if (value === false) return false
  if (!isNode(value) || depth > MAX_DEPTH) return {}
  const out: Node = { ...value }
  const types = [out['type']].flat().filter(type => TYPES.includes(String(type)))
  if (types.length === 0) delete out['type']
  else out['type'] = Array.isArray(value['type']) ? [...new Set(types)] : types[0]
  if ('$ref' in out && resolve(out, root) === undefined) delete out['$ref']
  repairEnum(out, types)
  if ('required' in out) {
    const names = [...new Set(namesIn(out['required']))]
    if (names.length) out['required'] = names
    else delete out['required']
  }
  for (const key of ['properties', '$defs', 'definitions', 'patternProperties']) {
    if (!(key in out)) continue
    const members = out[key]
    if (isNode(members)) {
      out[key] = Object.fromEntries(Object.entries(members).map(([name, item]) => [name, walk(item, root, depth + 1)]))
    } else {
      delete out[key]
    }
  }
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
    if (!(key in out)) continue
    const list = listOf(out[key])
    if (list.length) out[key] = list.map(item => walk(item, root, depth + 1))
    else delete out[key]
  }
  for (const key of ['items', 'additionalProperties', 'not']) {
    if (out[key] !== undefined) out[key] = walk(out[key], root, depth + 1)
  }
  if (types.includes('array') && (out['items'] === undefined || out['items'] === false)) out['items'] = {}
  return out
}

function repairEnum(out: Node, types: unknown[]) {
  if (!('enum' in out)) return
  const values = listOf(out['enum']).filter(item => types.length === 0 || types.some(type => fits(item, type)))
  if (values.length) out['enum'] = values
  else delete out['enum']
}

function fits(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isNode(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

/** What a node's chain of local references leads to; undefined for one that leaves the document, is broken or circular. */
function resolve(value: unknown, root: Node): unknown {
  const seen = new Set<unknown>()
  let here = value
  while (isNode(here) && here['$ref'] !== undefined) {
    const reference = here['$ref']
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference) || seen.has(reference)) return undefined
    seen.add(reference)
    here = pointed(reference, root)
  }
  return here
}

function pointed(reference: string, root: Node): unknown {
  let here: unknown = root
  for (const part of reference.split('/').slice(1)) {
    let name = part
    try {
      name = decodeURIComponent(part)
    } catch {
      // A stray percent sign: the name as it is written is the best reading.
    }
    here = isNode(here) ? here[name.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined
  }
  return here
}
