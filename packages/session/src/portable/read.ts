/** An exported session, or a log file, judged as a whole before anything of it is used. */

import { isAbsolute } from 'node:path'
import { HarnessError, parsedProblem } from '@cambium/core'
import { isIntact } from '../core-types.ts'
import type { SessionEvent, SessionHeader } from '../event.ts'
import { isSessionId } from '../session-id.ts'
import { EXPORT_FORMAT, EXPORT_VERSION } from './write.ts'

export interface ImportedSession {
  readonly header: SessionHeader
  /** As they were, those of plugins that nobody here knows too. */
  readonly events: readonly SessionEvent[]
  readonly redacted: boolean
  /** What a person should know, in words. */
  readonly notices: readonly string[]
}

/**
 * Takes what `exportSession` made, also when somebody has formatted it anew, and the lines of a log file.
 * @throws `SESSION_IMPORT_INVALID` with the line or the path in the JSON, `SESSION_VERSION`
 */
export function readSession(text: string): ImportedSession {
  const source = text.replace(/^\uFEFF/, '')
  return isLog(source) ? readLines(source) : readEnvelope(source)
}

type Fields = Record<string, unknown>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function isLog(text: string): boolean {
  const first = text.slice(0, text.indexOf('\n') < 0 ? text.length : text.indexOf('\n'))
  try {
    const value: unknown = JSON.parse(first)
    return isFields(value) && value['type'] === 'session'
  } catch {
    return false
  }
}

function readEnvelope(text: string): ImportedSession {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw invalid(
      placeIn(text, error),
      'the file is not JSON',
      'take a file of cambium sessions export --format json, or of a log',
    )
  }
  if (!isFields(value) || value['format'] !== EXPORT_FORMAT) {
    throw invalid(
      'format',
      `its format is not "${EXPORT_FORMAT}"`,
      'take a file of cambium sessions export --format json, or of a log',
    )
  }
  const { version, header, events, redacted } = value
  if (typeof version !== 'number' || version > EXPORT_VERSION) {
    throw new HarnessError(
      'SESSION_VERSION',
      `the export has format ${String(version)}; this version reads ${EXPORT_VERSION}`,
      {
        where: 'version',
        fix: 'update, or export it with the version that wrote it',
      },
    )
  }
  if (!Array.isArray(events)) throw invalid('events', 'it is not a list')
  const head = readHeader(header, key => `header.${key}`)
  const list = events.map((event, index) => readEvent(event, index, `events[${index}]`))
  return judged(head, list, redacted === true, [])
}

/** The last line may be cut off: that is how a process leaves it that is killed. */
function readLines(text: string): ImportedSession {
  const lines = text.split('\n')
  const events: SessionEvent[] = []
  const notices: string[] = []
  const whole = lines.at(-1) === ''
  if (whole) lines.pop()
  const head = readHeader(parsed(lines[0]!, 1), key => `line 1, ${key}`)
  for (const [index, line] of lines.entries()) {
    if (!index || !line.trim()) continue
    const last = index === lines.length - 1 && !whole
    let value: unknown
    try {
      value = parsed(line, index + 1)
    } catch (error) {
      if (!last) throw error
      notices.push('the last line is cut off and was left out')
      break
    }
    events.push(readEvent(value, events.length, `line ${index + 1}`))
  }
  return judged(head, events, false, notices)
}

function parsed(line: string, number: number): unknown {
  try {
    return JSON.parse(line)
  } catch {
    throw invalid(`line ${number}`, 'it is not JSON', 'take the line out of the file, and number the ones below anew')
  }
}

function readHeader(value: unknown, at: (key: string) => string): SessionHeader {
  if (!isFields(value)) throw invalid(at('').replace(/\W+$/, ''), 'the header is missing')
  const { id, createdAt, cwd, version, parent, origin, depth } = value
  if (typeof version !== 'number' || version > 1) {
    throw new HarnessError('SESSION_VERSION', `the log has format ${String(version)}; this version reads 1`, {
      where: at('version'),
    })
  }
  if (typeof id !== 'string' || !isSessionId(id)) throw invalid(at('id'), 'it cannot be the id of a session')
  if (typeof createdAt !== 'number' || !(createdAt >= 0)) throw invalid(at('createdAt'), 'it is not a time')
  if (typeof cwd !== 'string' || !isAbsolute(cwd)) throw invalid(at('cwd'), 'it is not an absolute path')
  const isCount = (count: unknown): count is number => Number.isInteger(count) && (count as number) >= 0
  if (parent !== undefined && !(isFields(parent) && typeof parent['id'] === 'string' && isCount(parent['events']))) {
    throw invalid(at('parent'), 'it does not name a session and a number of events')
  }
  if (origin !== undefined && origin !== 'user' && origin !== 'subagent') throw invalid(at('origin'), 'it is not known')
  if (depth !== undefined && !isCount(depth)) throw invalid(at('depth'), 'it is not a whole number')
  return {
    version: 1,
    id,
    createdAt,
    cwd,
    ...(parent ? { parent: { id: parent['id'] as string, events: parent['events'] as number } } : {}),
    ...(origin ? { origin } : {}),
    ...(depth === undefined ? {} : { depth }),
  }
}

const KEYS = new Set(['seq', 'time', 'type', 'data', 'ignorable'])

function readEvent(value: unknown, index: number, at: string): SessionEvent {
  if (!isFields(value)) throw invalid(at, 'it is not an event')
  const { seq, time, type, data, ignorable } = value
  if (typeof type !== 'string' || !type || type.length > 200)
    throw invalid(`${at}.type`, 'it is not the type of an event')
  if (seq !== index) {
    throw invalid(
      `${at}.seq`,
      `it is ${JSON.stringify(seq)} where ${index} has to follow`,
      'events are numbered from 0 without a gap',
    )
  }
  if (typeof time !== 'number' || !Number.isFinite(time)) throw invalid(`${at}.time`, 'it is not a time')
  if (data === undefined) throw invalid(`${at}.data`, 'it is missing')
  if (ignorable !== undefined && ignorable !== false) throw invalid(`${at}.ignorable`, 'it can only be false')
  const strange = Object.keys(value).find(key => !KEYS.has(key))
  if (strange) throw invalid(`${at}.${strange}`, 'an event has no such field, and it would be lost')
  const problem = parsedProblem(data)
  if (problem) throw invalid(`${at}.data`, problem)
  return value as unknown as SessionEvent
}

const NAMED = 5

/** What is broken in the data of single events is as it was in the log: readers pass it over, and it is kept. */
function judged(
  header: SessionHeader,
  events: readonly SessionEvent[],
  redacted: boolean,
  notices: readonly string[],
): ImportedSession {
  if (!events.length) throw invalid('events', 'there are none, and a session without events is not kept')
  const broken = events.filter(event => !isIntact(event))
  const lines = broken
    .slice(0, NAMED)
    .map(({ seq, type }) => `event ${seq} (${type}) is broken, and is kept but not read`)
  const more = broken.length > NAMED ? [`${broken.length - NAMED} more events are broken`] : []
  return { header, events, redacted, notices: [...notices, ...lines, ...more] }
}

function invalid(where: string, problem: string, fix = 'nothing was stored') {
  return new HarnessError('SESSION_IMPORT_INVALID', `the session cannot be imported: ${problem}`, { where, fix })
}

/** As a line and a column, where the parser tells a position. */
function placeIn(text: string, error: unknown): string {
  const position = /position (\d+)/.exec(String(error))?.[1]
  if (position === undefined) return `line ${text.trimEnd().split('\n').length}, at its end`
  const before = text.slice(0, Number(position))
  return `line ${before.split('\n').length}, column ${before.length - before.lastIndexOf('\n')}`
}
