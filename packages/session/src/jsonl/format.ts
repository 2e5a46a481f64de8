/** What stands in a log file: a header line, then one event a line. */

import { HarnessError, parsedProblem } from '@cambium/core'
import type { SessionEvent, SessionHeader, SessionId } from '../event.ts'

export const FORMAT_VERSION = 1

/**
 * One line, without its end. U+2028 and U+2029 are line ends to weak readers, so they are escaped; lone surrogates are
 * escaped by JSON.stringify itself.
 */
export function encodeLine(value: object): string {
  return JSON.stringify(value).replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}

export function encodeHeader(header: SessionHeader): string {
  return encodeLine({ type: 'session', ...header })
}

/** @throws `SESSION_DAMAGED`, `SESSION_VERSION` */
export function parseHeader(line: string | undefined, path: string): SessionHeader {
  const value = parseObject(line?.replace(/^\uFEFF/, ''))
  if (value?.['type'] !== 'session' || typeof value['version'] !== 'number') {
    throw damaged(
      path,
      line === undefined || line === '' ? 'it is empty' : 'its first line is not the header of a session',
    )
  }
  const { type, ...header } = value
  if (value['version'] > FORMAT_VERSION) {
    throw new HarnessError(
      'SESSION_VERSION',
      `the session was written in format ${value['version']} by a newer version; this one reads up to ${FORMAT_VERSION}`,
      { where: path, fix: 'update, or go on with the version that wrote it' },
    )
  }
  if (
    typeof header['id'] !== 'string' ||
    typeof header['createdAt'] !== 'number' ||
    typeof header['cwd'] !== 'string'
  ) {
    throw damaged(path, 'its header lacks id, createdAt or cwd')
  }
  return header as unknown as SessionHeader
}

export function damaged(path: string, why: string): HarnessError {
  return new HarnessError('SESSION_DAMAGED', `the log cannot be read: ${why}`, {
    where: path,
    fix: 'nothing was changed; look at the file, or move it away',
  })
}

/** An event as the file has it, or undefined for a line that is none. */
export type StoredLine = Pick<SessionEvent, 'type' | 'data' | 'ignorable'> & { seq?: number; time?: number }

export function parseEvent(line: string): StoredLine | undefined {
  const value = parseObject(line)
  if (!value || typeof value['type'] !== 'string' || !('data' in value)) return undefined
  const { seq, time, ignorable } = value
  return {
    type: value['type'],
    data: value['data'],
    ...(typeof seq === 'number' ? { seq } : {}),
    ...(typeof time === 'number' ? { time } : {}),
    ...(ignorable === false ? { ignorable } : {}),
  } as StoredLine
}

function parseObject(line: string | undefined): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value) && !parsedProblem(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

export function notFound(id: SessionId): HarnessError {
  return new HarnessError('SESSION_NOT_FOUND', `there is no stored session ${id}`, {
    fix: 'list the stored sessions and take one of their ids',
  })
}
