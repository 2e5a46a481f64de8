/** How the lines of older formats are read: one step from each format to the next. */

import type { JsonObject } from '@cambium/core'

/** What a step may know beside the line. */
export interface MigrationContext {
  /** The file's first line, as it was written. */
  readonly header: JsonObject
  /** The line's number in its file; the header's is 1. */
  readonly line: number
}

/** Makes of a line those that say the same in the next format: mostly one, none to drop it. Pure. */
export type Migration = (line: JsonObject, context: MigrationContext) => readonly JsonObject[]

/**
 * By the format that a step reads. A log that an older version wrote goes through all of them while it is read; its bytes
 * stay as they are, and the current format goes on in a new segment. There has been one format so far.
 */
export const migrations = new Map<number, Migration>()

/** False for a format from which no steps lead to `current`. */
export function canMigrate(version: number, current: number): boolean {
  for (let at = version; at < current; at++) if (!migrations.has(at)) return false
  return true
}

export function migrate(line: JsonObject, version: number, current: number, context: MigrationContext): JsonObject[] {
  let lines = [line]
  for (let at = version; at < current; at++) lines = lines.flatMap(each => migrations.get(at)?.(each, context) ?? [])
  return lines
}
