/**
 * Checks a value against the part of JSON Schema that tools use in practice, in words that tell a model what to change.
 * What needs more goes to `foreign-schema.ts`.
 */

import { isDeepStrictEqual } from 'node:util'
import { type JsonObject, type JsonValue, nearest } from '@cambium/core'

export interface CheckOptions {
  /** What the value as a whole is called: `arguments`. */
  readonly root: string
  /** A null for an optional property that does not admit null counts as left out. */
  readonly nullIsAbsent?: boolean
}

/** Keywords that {@link check} does not know and that change what is valid. */
const BEYOND = new Set(
  (
    '$ref $dynamicRef allOf not if then else patternProperties propertyNames dependentRequired dependentSchemas ' +
    'dependencies prefixItems additionalItems contains minContains maxContains multipleOf uniqueItems minProperties ' +
    'maxProperties unevaluatedItems unevaluatedProperties'
  ).split(' '),
)

/** True when {@link check} understands all of the schema. */
export function isPlainSchema(schema: JsonValue | undefined): boolean {
  if (schema === undefined || typeof schema === 'boolean') return true
  if (!isObject(schema)) return false
  for (const key of Object.keys(schema)) if (BEYOND.has(key)) return false
  if (schema['pattern'] !== undefined && !compilePattern(schema['pattern'])) return false
  const forms = [schema['oneOf'], schema['anyOf']].flatMap(list => (Array.isArray(list) ? list : []))
  const properties = isObject(schema['properties']) ? Object.values(schema['properties']) : []
  return [...forms, ...properties, schema['items'], schema['additionalProperties']].every(isPlainSchema)
}

/** What is wrong with `value`, a sentence each; empty when nothing is. */
export function check(schema: JsonValue | undefined, value: JsonValue, options: CheckOptions): string[] {
  const problems: string[] = []
  walk(schema, value, '', options, problems)
  return problems
}

function walk(
  schema: JsonValue | undefined,
  value: JsonValue,
  path: string,
  options: CheckOptions,
  problems: string[],
): void {
  if (schema === undefined || schema === true) return
  const at = label(path, options)
  if (schema === false) return void problems.push(`${at} is not allowed`)
  if (!isObject(schema)) return
  const types = typesOf(schema)
  if (types && !types.some(type => hasType(type, value))) {
    return void problems.push(
      `${at} must be ${types.map(article).join(' or ')}, got ${show(value)}${hint(types, value)}`,
    )
  }
  const allowed = schema['enum']
  if (Array.isArray(allowed) && !allowed.some(option => isDeepStrictEqual(option, value))) {
    const few = allowed.slice(0, 20).map(option => show(option))
    problems.push(`${at} must be ${few.length === 1 ? few[0] : `one of ${few.join(', ')}`}, got ${show(value)}`)
  }
  if (schema['const'] !== undefined && !isDeepStrictEqual(schema['const'], value)) {
    problems.push(`${at} must be ${show(schema['const'])}, got ${show(value)}`)
  }
  if (typeof value === 'string') checkString(schema, value, at, problems)
  else if (typeof value === 'number') checkNumber(schema, value, at, problems)
  else if (Array.isArray(value)) {
    checkCount(schema, 'minItems', 'maxItems', value.length, 'item', at, problems)
    value.forEach((item, i) => void walk(schema['items'], item, `${path}[${i}]`, options, problems))
  } else if (isObject(value)) checkObject(schema, value, path, options, problems)
  checkForms(schema, value, path, options, problems)
}

function checkString(schema: JsonObject, value: string, at: string, problems: string[]) {
  if (schema['minLength'] === 1 && value === '') return void problems.push(`${at} must not be empty`)
  if (schema['minLength'] !== undefined || schema['maxLength'] !== undefined) {
    // JSON Schema counts code points.
    checkCount(schema, 'minLength', 'maxLength', [...value].length, 'character', at, problems)
  }
  const pattern = schema['pattern']
  if (typeof pattern === 'string' && compilePattern(pattern)?.test(value) === false) {
    problems.push(`${at} must match ${pattern}, got ${show(value)}`)
  }
}

function checkNumber(schema: JsonObject, value: number, at: string, problems: string[]) {
  const bounds: [string, string, (bound: number) => boolean][] = [
    ['minimum', 'at least', bound => value >= bound],
    ['maximum', 'at most', bound => value <= bound],
    ['exclusiveMinimum', 'greater than', bound => value > bound],
    ['exclusiveMaximum', 'less than', bound => value < bound],
  ]
  for (const [keyword, words, holds] of bounds) {
    const bound = schema[keyword]
    if (typeof bound === 'number' && !holds(bound)) problems.push(`${at} must be ${words} ${bound}, got ${value}`)
  }
}

function checkCount(
  schema: JsonObject,
  least: string,
  most: string,
  count: number,
  noun: string,
  at: string,
  problems: string[],
) {
  const words = (n: number) => `${n} ${noun}${n === 1 ? '' : 's'}`
  const min = schema[least]
  const max = schema[most]
  if (typeof min === 'number' && count < min) problems.push(`${at} must have at least ${words(min)}, got ${count}`)
  if (typeof max === 'number' && count > max) problems.push(`${at} must have at most ${words(max)}, got ${count}`)
}

function checkObject(schema: JsonObject, value: JsonObject, path: string, options: CheckOptions, problems: string[]) {
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const known = Object.keys(properties)
  const rest = schema['additionalProperties']
  const unknown = Object.keys(value).filter(key => !Object.hasOwn(properties, key))
  for (const key of requiredOf(schema)) {
    if (value[key] !== undefined) continue
    const meant = nearest(key, unknown)
    problems.push(
      `${label(join(path, key), options)} is required${meant ? ` (you gave ${JSON.stringify(meant)})` : ''}`,
    )
  }
  for (const key of known) {
    const item = value[key]
    if (item === undefined || (options.nullIsAbsent && isAbsent(schema, key, item))) continue
    const before = problems.length
    walk(properties[key], item, join(path, key), options, problems)
    if (item === null && problems.length > before && !requiredOf(schema).includes(key)) {
      problems[before] += ' (leave it out instead)'
    }
  }
  if (rest === undefined || rest === true) return
  for (const key of unknown) {
    if (rest !== false) {
      walk(rest, value[key] as JsonValue, join(path, key), options, problems)
      continue
    }
    const meant = nearest(key, known)
    const help = meant ? `did you mean ${JSON.stringify(meant)}?` : `known: ${known.join(', ') || 'none'}`
    problems.push(`${label(join(path, key), options)} is not a known parameter, ${help}`)
  }
}

function checkForms(schema: JsonObject, value: JsonValue, path: string, options: CheckOptions, problems: string[]) {
  for (const keyword of ['oneOf', 'anyOf']) {
    const forms = schema[keyword]
    if (!Array.isArray(forms)) continue
    const failures = forms.map(form => {
      const found: string[] = []
      walk(form, value, path, options, found)
      return found
    })
    const matches = failures.filter(found => !found.length).length
    if (matches === 1 || (matches > 1 && keyword === 'anyOf')) continue
    const at = label(path, options)
    if (matches > 1) problems.push(`${at} fits ${matches} of the allowed forms and must fit exactly one`)
    else
      problems.push(
        `${at} fits none of the ${forms.length} allowed forms; of the nearest, ${closest(forms, value, failures)}`,
      )
  }
}

/** The problems of the form that was probably meant: one whose fixed properties agree, else one with the fewest problems. */
function closest(forms: readonly JsonValue[], value: JsonValue, failures: readonly string[][]): string {
  const cost = (i: number) => failures[i]!.length + (tagsAgree(forms[i], value) ? 0 : 1000)
  const best = failures.map((_, i) => i).sort((a, b) => cost(a) - cost(b))[0]
  return best === undefined ? 'none' : failures[best]!.join('; ')
}

function tagsAgree(form: JsonValue | undefined, value: JsonValue): boolean {
  if (!isObject(form) || !isObject(value) || !isObject(form['properties'])) return true
  return Object.entries(form['properties']).every(
    ([key, spec]) => !isObject(spec) || spec['const'] === undefined || spec['const'] === value[key],
  )
}

/** True for a null that stands for leaving an optional property out. */
export function isAbsent(schema: JsonObject, key: string, value: JsonValue): boolean {
  if (value !== null || requiredOf(schema).includes(key)) return false
  const property = (schema['properties'] as JsonObject)[key]
  return check(property, null, { root: '' }).length > 0
}

function requiredOf(schema: JsonObject): readonly string[] {
  const required = schema['required']
  return Array.isArray(required) ? required : []
}

function typesOf(schema: JsonObject): readonly string[] | undefined {
  const type = schema['type']
  if (typeof type === 'string') return [type]
  return Array.isArray(type) ? (type as readonly string[]) : undefined
}

function hasType(type: string, value: JsonValue): boolean {
  switch (type) {
    case 'integer':
      return Number.isInteger(value)
    case 'null':
      return value === null
    case 'array':
      return Array.isArray(value)
    case 'object':
      return isObject(value)
    default:
      // A type that no schema dialect knows cannot be judged here.
      return !['string', 'number', 'boolean'].includes(type) || typeof value === type
  }
}

/** What to write in place of a value that is right but for its quotes. */
function hint(types: readonly string[], value: JsonValue): string {
  if (typeof value !== 'string') return ''
  if (types.includes('array') || types.includes('object')) {
    return /^\s*[[{]/.test(value) ? ' (write the value itself, not JSON text in a string)' : ''
  }
  let meant: unknown
  try {
    meant = JSON.parse(value)
  } catch {
    // No JSON text: nothing that could have been meant.
    return ''
  }
  const bare = typeof meant === 'number' || typeof meant === 'boolean'
  return bare && types.some(type => hasType(type, meant as JsonValue)) ? ` (write ${value.trim()} without quotes)` : ''
}

function article(type: string): string {
  if (type === 'null') return 'null'
  return `${/^[aio]/.test(type) ? 'an' : 'a'} ${type}`
}

function show(value: JsonValue): string {
  const text = JSON.stringify(value)
  return text.length > 60 ? `${text.slice(0, 57)}…` : text
}

function join(path: string, key: string): string {
  return path ? `${path}.${key}` : key
}

function label(path: string, options: CheckOptions): string {
  return path ? `"${path}"` : options.root
}

const patterns = new Map<string, RegExp | undefined>()

function compilePattern(pattern: JsonValue): RegExp | undefined {
  if (typeof pattern !== 'string') return undefined
  if (!patterns.has(pattern)) {
    // Schemas come and go with servers; what is cached stays bounded.
    if (patterns.size >= 1000) patterns.clear()
    patterns.set(pattern, tryPattern(pattern, 'u') ?? tryPattern(pattern, ''))
  }
  return patterns.get(pattern)
}

function tryPattern(pattern: string, flags: string): RegExp | undefined {
  try {
    return new RegExp(pattern, flags)
  } catch {
    // Not in this dialect of regular expressions; the caller tries another or leaves the schema to a full validator.
    return undefined
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
