/** Schemas from outside that say more than `validate.ts` knows. The library that checks them is loaded for the first. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type { ErrorObject } from 'ajv'
import { isObject } from './validate.ts'

export type ForeignCheck = (value: JsonValue, root: string) => string[]

/** @throws when the schema is no schema, or names one that is not part of it. */
export async function compileForeign(schema: JsonObject): Promise<ForeignCheck> {
  const { $schema, ...rest } = schema
  // Tuples are spelt differently in the older drafts. An `$id` would be taken as a name that may be used only once.
  const old = typeof $schema === 'string' && /draft-0[4-7]/.test($schema)
  const { Ajv } = old ? await import('ajv') : { Ajv: (await import('ajv/dist/2020.js')).Ajv2020 }
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false, verbose: true, logger: false })
  const validate = ajv.compile(rest)
  return (value, root) => {
    if (validate(value)) return []
    const problems = (validate.errors ?? []).map(error => describe(error, root))
    return [...new Set(problems)]
  }
}

function describe(error: ErrorObject, root: string): string {
  const path = error.instancePath
    .split('/')
    .slice(1)
    .map(part => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((at, part) => (/^\d+$/.test(part) ? `${at}[${part}]` : at ? `${at}.${part}` : part), '')
  const name = (key?: string) => {
    const full = key === undefined ? path : path ? `${path}.${key}` : key
    return full ? `"${full}"` : root
  }
  const params = error.params as Record<string, unknown>
  if (error.keyword === 'required') return `${name(String(params['missingProperty']))} is required`
  if (error.keyword === 'additionalProperties' || error.keyword === 'unevaluatedProperties') {
    const key = String(params['additionalProperty'] ?? params['unevaluatedProperty'])
    const known = isObject(error.parentSchema?.['properties']) ? Object.keys(error.parentSchema['properties']) : []
    return `${name(key)} is not a known parameter${known.length ? `, known: ${known.join(', ')}` : ''}`
  }
  if (error.keyword === 'enum' && Array.isArray(params['allowedValues'])) {
    const few = params['allowedValues'].slice(0, 20).map(value => JSON.stringify(value))
    return `${name()} must be one of ${few.join(', ')}`
  }
  const shown = JSON.stringify(error.data) ?? ''
  return `${name()} ${error.message}, got ${shown.length > 60 ? `${shown.slice(0, 57)}…` : shown}`
}
