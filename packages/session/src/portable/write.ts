/** A stored session as the text of a JSON file. */

import type { JsonValue } from '@cambium/core'
import type { StoredSession } from '../service.ts'

export const EXPORT_FORMAT = 'cambium-session'
export const EXPORT_VERSION = 1

export interface ExportOptions {
  /** Takes out what nobody else may see; the export says that it was redacted. */
  readonly redact?: <T extends JsonValue>(value: T) => T
  /** Milliseconds since the epoch. */
  readonly now?: number
}

/** One JSON object, in parts: an event a line, whatever its type. */
export function* exportSession({ header, events }: StoredSession, options: ExportOptions = {}): Generator<string> {
  const { redact, now = Date.now() } = options
  const clean = (value: unknown) => (redact ? redact(value as JsonValue) : value)
  const head = {
    format: EXPORT_FORMAT,
    version: EXPORT_VERSION,
    exportedAt: now,
    redacted: redact !== undefined,
    header: clean(header),
  }
  yield `${line(head).slice(0, -1)},"events":[`
  let first = true
  for (const event of events) {
    yield `${first ? '' : ','}\n${line({ ...event, data: clean(event.data) })}`
    first = false
  }
  yield '\n]}\n'
}

/** Weak readers break lines at the last two, and a terminal obeys the others. */
const line = (value: object) =>
  JSON.stringify(value).replace(
    /[\x7f-\x9f\u2028\u2029]/g,
    char => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
