/** A plugin's config as rows of a table: each setting with its type and its default. */

import { homedir, tmpdir } from 'node:os'
import { MAX_TIMER_MS } from '@cambium/core'

/** The part of a schemastery schema that says what it takes. */
export interface SchemaNode {
  readonly type: string
  readonly dict?: Readonly<Record<string, SchemaNode>>
  readonly list?: readonly SchemaNode[]
  readonly inner?: SchemaNode
  readonly value?: unknown
  readonly builder?: () => SchemaNode
  readonly meta?: {
    readonly description?: unknown
    readonly default?: unknown
    readonly required?: boolean
    readonly min?: number
    readonly max?: number
    readonly step?: number
  }
}

interface Fallback {
  /** Undefined when nothing above has a default for this place. */
  readonly value: unknown
}

/** One row for each setting; those of a map or a list stand below it: `providers.<name>.apiKey`, `rules[].tool`. */
export function configRows(schema: SchemaNode): string[] {
  return rows(schema, '', { value: schema.meta?.default })
}

function rows(schema: SchemaNode, prefix: string, above: Fallback): string[] {
  return Object.entries(fieldsOf(schema)).flatMap(([key, field]) => {
    const name = prefix ? `${prefix}.${key}` : key
    const given = isMap(above.value) && key in above.value ? above.value[key] : field.meta?.default
    const inner = rows(field, name, { value: given })
    // The fields of an object say all of it, unless somebody wrote what the whole is for.
    if (inner.length && field.meta?.description === undefined) return inner
    const whole = inner.length ? '' : shown(given, field)
    const row = `| \`${name}\` | ${cell(typeText(field))} | ${cell(whole)} | ${cell(String(field.meta?.description ?? ''))} |`
    return [row, ...inner, ...nested(field, name)]
  })
}

/** What stands in the values of a map and in the items of a list. */
function nested(field: SchemaNode, name: string): string[] {
  const { inner } = field
  if (!inner || (field.type !== 'dict' && field.type !== 'array')) return []
  const place = field.type === 'dict' ? `${name}.<name>` : `${name}[]`
  const members = inner.type === 'union' ? (inner.list ?? []) : [inner]
  return members.flatMap(member => [...rows(member, place, { value: undefined }), ...nested(member, place)])
}

function fieldsOf(schema: SchemaNode): Readonly<Record<string, SchemaNode>> {
  if (schema.type === 'object') return schema.dict ?? {}
  if (schema.type === 'intersect') return Object.assign({}, ...(schema.list ?? []).map(fieldsOf))
  const inner = wrapped(schema)
  return inner ? fieldsOf(inner) : {}
}

/** What a lazy schema or a transformation stands around. */
function wrapped(schema: SchemaNode): SchemaNode | undefined {
  if (schema.type === 'lazy') return schema.builder?.()
  return schema.type === 'transform' ? schema.inner : undefined
}

/** `integer ≥ 1`, `'text' | 'json'`, `list of string`, `map of object`. */
export function typeText(schema: SchemaNode): string {
  const inner = wrapped(schema)
  if (inner) return typeText(inner)
  switch (schema.type) {
    case 'string':
      return 'string'
    case 'number':
      return numberText(schema)
    case 'const':
      return `\`${JSON.stringify(schema.value)}\``
    case 'union':
      return [...new Set((schema.list ?? []).map(typeText))].join(' or ')
    case 'array':
      return `list of ${schema.inner ? typeText(schema.inner) : 'anything'}`
    case 'dict':
      return `map of ${schema.inner ? typeText(schema.inner) : 'anything'}`
    case 'tuple':
      return `[${(schema.list ?? []).map(typeText).join(', ')}]`
    case 'intersect':
      return 'object'
    case 'any':
      return 'anything'
    default:
      return schema.type
  }
}

function numberText({ meta }: SchemaNode): string {
  const { min, step } = meta ?? {}
  // The longest that a timer runs is no limit of anybody's choice.
  const max = meta?.max === MAX_TIMER_MS ? undefined : meta?.max
  const kind = step === 1 ? 'integer' : 'number'
  if (min !== undefined && max !== undefined) return `${kind}, ${min} to ${max}`
  if (min !== undefined) return `${kind} ≥ ${min}`
  return max === undefined ? kind : `${kind} ≤ ${max}`
}

/** A default that depends on where this runs is no fact of the code. */
function shown(fallback: unknown, { meta }: SchemaNode): string {
  const text = JSON.stringify(fallback)
  if (text === undefined) return meta?.required ? 'required' : ''
  if ([process.cwd(), homedir(), tmpdir()].some(folder => text.includes(JSON.stringify(folder).slice(1, -1)))) return ''
  return `\`${text.length > 60 ? `${text.slice(0, 57)}…` : text}\``
}

/** Text that may stand in a cell of a table. */
export const cell = (text: string) => text.replaceAll('|', '\\|').replace(/\s+/g, ' ').trim()

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
