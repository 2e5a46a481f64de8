/** The strict provider on the schemas of tools. */

import { isObject, type Json, refuse } from './refusal.ts'

const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

/** Refuses what is no schema of an object, or holds what providers do not take. */
export function checkParameters(schema: unknown, at: string) {
  if (!isObject(schema) || schema['type'] !== 'object') refuse(`${at}: schema must be of type "object"`)
  for (const key of ['oneOf', 'anyOf', 'allOf', 'enum', 'not']) {
    if (key in schema) refuse(`${at}: "${key}" is not allowed at the top level`)
  }
  checkSchema(schema, at, schema)
}

function checkSchema(schema: unknown, at: string, root: Json): void {
  if (schema === true || schema === false) return
  if (!isObject(schema)) refuse(`${at} is not a schema`)
  const types = schema['type'] === undefined ? [] : [schema['type']].flat()
  for (const type of types) if (!TYPES.includes(String(type))) refuse(`${at}.type cannot be ${JSON.stringify(type)}`)
  if (types.includes('array') && schema['items'] === undefined && schema['prefixItems'] === undefined) {
    refuse(`${at}: array schema missing items`)
  }
  const { enum: values, required } = schema
  if (values !== undefined) {
    if (!Array.isArray(values) || values.length === 0) refuse(`${at}.enum is not a list with at least one value`)
    const odd = values.find(value => types.length > 0 && !types.some(type => fits(value, type)))
    if (odd !== undefined) refuse(`${at}.enum value ${JSON.stringify(odd)} does not fit its type`)
  }
  if (required !== undefined && !(Array.isArray(required) && required.every(key => typeof key === 'string'))) {
    refuse(`${at}.required is not a list of names`)
  }
  checkReference(schema, at, root)
  for (const key of ['properties', '$defs', 'definitions', 'patternProperties']) {
    if (schema[key] === undefined) continue
    if (!isObject(schema[key])) refuse(`${at}.${key} is not an object`)
    for (const [name, item] of Object.entries(schema[key])) checkSchema(item, `${at}.${key}.${name}`, root)
  }
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
    const list = schema[key]
    if (list === undefined) continue
    if (!Array.isArray(list) || list.length === 0) refuse(`${at}.${key} is not a list with at least one schema`)
    for (const [index, item] of list.entries()) checkSchema(item, `${at}.${key}[${index}]`, root)
  }
  for (const key of ['items', 'additionalProperties', 'not']) {
    if (schema[key] !== undefined) checkSchema(schema[key], `${at}.${key}`, root)
  }
}

function fits(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

/** Follows a local reference; a chain of references that leads nowhere or round in a circle is refused. */
function checkReference(schema: Json, at: string, root: Json) {
  const seen = new Set<unknown>()
  let here: unknown = schema
  while (isObject(here) && here['$ref'] !== undefined) {
    const reference = here['$ref']
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) refuse(`${at}.$ref is not a local reference`)
    if (seen.has(reference)) refuse(`${at}.$ref leads round in a circle`)
    seen.add(reference)
    here = reference
      .split('/')
      .slice(1)
      .map(part => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>((value, part) => (value as Json | undefined)?.[part], root)
    if (here === undefined) refuse(`${at}.$ref names ${JSON.stringify(reference)}, which is not there`)
  }
}
