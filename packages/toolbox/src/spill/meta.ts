/** Presentation data of a result within bounds: the log keeps it beside the content. */

import type { JsonObject, JsonValue } from '@cambium/core'

/** The same when it fits and nothing was spilled; else its small fields, the names of those left out, and the file. */
export function slimMeta(
  meta: JsonValue | undefined,
  maxBytes: number,
  path: string | undefined,
): JsonValue | undefined {
  if (meta === undefined) return path === undefined ? undefined : { kind: 'spilled', spill: path }
  const fits = sizeOf(meta) <= maxBytes
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) return fits ? meta : { omitted: true }
  const place = path === undefined ? {} : { spill: path }
  if (fits) return path === undefined ? meta : { ...meta, ...place }
  let room = maxBytes
  const omitted: string[] = []
  const kept: Record<string, JsonValue> = {}
  // The smallest first: what tells the result apart is small, what fills it is not.
  const fields = Object.entries(meta as JsonObject).map(([key, value]) => ({
    key,
    value: value!,
    size: sizeOf({ [key]: value! }),
  }))
  for (const { key, value, size } of fields.sort((a, b) => a.size - b.size)) {
    if (size <= room / 2) {
      kept[key] = value
      room -= size
    } else if (omitted.length < 20) omitted.push(key.slice(0, 100))
  }
  return { ...kept, ...place, omitted }
}

const sizeOf = (value: JsonValue) => Buffer.byteLength(JSON.stringify(value))
