/** From checked arguments to what a tool's code gets. */

import type { JsonValue } from '@cambium/core'
import { check, isAbsent, isObject } from './validate.ts'

/**
 * The value as a tool's code gets it: defaults filled in, nulls that count as absent left out. Shares what it does not
 * change with `value`, which must be valid.
 */
export function fill(schema: JsonValue | undefined, value: JsonValue): JsonValue {
  if (!isObject(schema)) return value
  const forms = schema['oneOf']
  if (Array.isArray(forms)) {
    const form = forms.find(candidate => !check(candidate, value, { root: '', nullIsAbsent: true }).length)
    return form === undefined ? value : fill(form, value)
  }
  if (Array.isArray(value)) {
    const items = value.map(item => fill(schema['items'], item))
    return items.some((item, i) => item !== value[i]) ? items : value
  }
  if (!isObject(value) || !isObject(schema['properties'])) return value
  let copy: Record<string, JsonValue | undefined> | undefined
  for (const [key, property] of Object.entries(schema['properties'])) {
    const given = value[key]
    const absent = given === undefined || isAbsent(schema, key, given)
    const fallback = isObject(property) ? property['default'] : undefined
    const now = absent ? fallback : fill(property, given)
    if (now === given) continue
    copy ??= { ...value }
    if (now === undefined) delete copy[key]
    else copy[key] = now
  }
  return copy ?? value
}
