/** What stands in a log file: a header line, then one event a line. */

import { HarnessError, type JsonObject } from '@cambium/core'
import type { SessionEvent, SessionHeader, SessionId } from '../event.ts'
import { freezeParsed } from '../freeze.ts'
import { canMigrate, migrate } from './migrations.ts'

export const FORMAT_VERSION = 1

/**
 * One line, without its end. U+2028 and U+2029 are line ends to weak readers, so they are escaped; lone surrogates are
 * escaped by JSON.stringify itself.
 */
export function encodeLine(value: object): string {
  return JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}

/** What a segment's header says beside the session's. */
export interface SegmentStart {
  /** From 1, which a log that was never divided leaves out. */
  readonly segment: number
  /** The seq of its first event. */
  readonly from: number
  /** What lists call the session, as far as it was known. */
  readonly title?: string | undefined
}

export function encodeHeader(header: SessionHeader, start?: SegmentStart): string {
  return encodeLine({ type: 'session', ...header, version: FORMAT_VERSION, ...start })
}

export interface Head extends SegmentStart {
  readonly header: SessionHeader
  /** The format that the file's lines are in. */
  readonly version: number
  /** The line as it stands. */
  readonly line: JsonObject
}

/** @throws `SESSION_DAMAGED`, `SESSION_VERSION` */
export function parseHeader(line: string | undefined, path: string): Head {
  const value = parseObject(line?.replace(/^\uFEFF/, ''))
  const version = value?.['version']
  if (value?.['type'] !== 'session' || !Number.isInteger(version)) {
    throw damaged(
      path,
      line === undefined || line === '' ? 'it is empty' : 'its first line is not the header of a session',
    )
  }
  const format = version as number
  if (format > FORMAT_VERSION) {
    throw new HarnessError(
      'SESSION_VERSION',
      `the session was written in format ${format} by a newer version; this one reads up to ${FORMAT_VERSION}`,
      { where: path, fix: 'update, or go on with the version that wrote it' },
    )
  }
  if (!canMigrate(format, FORMAT_VERSION)) {
    throw new HarnessError('SESSION_VERSION', `the session was written in format ${format}, which is no longer read`, {
      where: path,
      fix: 'open it once with a version that reads both formats',
    })
  }
  const [current = value] = migrate(value, format, FORMAT_VERSION, { header: value, line: 1 })
  const { type: _, segment = 1, from = 0, title, ...header } = current
  if (
    typeof header['id'] !== 'string' ||
    typeof header['createdAt'] !== 'number' ||
    typeof header['cwd'] !== 'string' ||
    !freezeParsed(header)
  ) {
    throw damaged(path, 'its header lacks id, createdAt or cwd')
  }
  return {
    header: { ...header, version: FORMAT_VERSION } as unknown as SessionHeader,
    version: format,
    line: value,
    segment: Number.isInteger(segment) && (segment as number) > 0 ? (segment as number) : 1,
    from: Number.isInteger(from) ? (from as number) : 0,
    ...(typeof title === 'string' ? { title } : {}),
  }
}

export function damaged(path: string, why: string): HarnessError {
  return new HarnessError('SESSION_DAMAGED', `the log cannot be read: ${why}`, {
    where: path,
    fix: 'nothing was changed; look at the file, or move it away',
  })
}

/** An event as the file has it; its data is frozen. */
export type StoredLine = Pick<SessionEvent, 'type' | 'data' | 'ignorable'> & { seq?: number; time?: number }

/** The events of a line, one unless it is of an older format; undefined for a line that is none. */
export function parseEvents(line: string, head: Head | undefined, number: number): readonly StoredLine[] | undefined {
  const value = parseObject(line)
  if (!value) return undefined
  if (!head || head.version === FORMAT_VERSION) {
    const event = storedLine(value)
    return event && [event]
  }
  try {
    const events = migrate(value, head.version, FORMAT_VERSION, { header: head.line, line: number }).map(storedLine)
    return events.includes(undefined) ? undefined : (events as StoredLine[])
  } catch {
    // A step that stumbles over a damaged line: it is left out as any other that cannot be read.
    return undefined
  }
}

/** As {@link parseEvents} for a line of the current format. */
export const parseEvent = (line: string): StoredLine | undefined => parseEvents(line, undefined, 0)?.[0]

function storedLine(value: JsonObject): StoredLine | undefined {
  const { type, data, seq, time, ignorable } = value
  if (typeof type !== 'string' || data === undefined || !freezeParsed(data)) return undefined
  return {
    type,
    data,
    ...(typeof seq === 'number' ? { seq } : {}),
    ...(typeof time === 'number' && Number.isFinite(time) ? { time } : {}),
    ...(ignorable === false ? { ignorable } : {}),
  } as unknown as StoredLine
}

function parseObject(line: string | undefined): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(line ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : undefined
  } catch {
    return undefined
  }
}

export function notFound(id: SessionId): HarnessError {
  return new HarnessError('SESSION_NOT_FOUND', `there is no stored session ${id}`, {
    fix: 'list the stored sessions and take one of their ids',
  })
}
