/** Reads a log file as a stream, and sets right what a crash or a second writer left in it. */

import { type FileHandle, open } from 'node:fs/promises'
import { diskError } from '@cambium/store'
import type { SessionEvent, SessionHeader } from '../event.ts'
import { deepFreeze } from '../freeze.ts'
import { damaged, parseEvent, parseHeader, type StoredLine } from './format.ts'

export interface LogContent {
  readonly header: SessionHeader
  readonly events: SessionEvent[]
  readonly notices: string[]
  /** Set when the log ends in half a line: what to say of it once it is sure that nobody is writing it. */
  readonly cut: string | undefined
  /** Where the next event belongs: what follows is not a whole line and not an event. */
  readonly end: number
  /** False when the last event's line lacks its end. */
  readonly terminated: boolean
}

interface Line {
  /** Undefined for a line that is too long to be kept. */
  readonly bytes: Buffer | undefined
  readonly end: number
  readonly terminated: boolean
}

const CHUNK_BYTES = 1 << 20
const LINE_FEED = 0x0a

/** @throws `SESSION_DAMAGED`, `SESSION_VERSION`, as `diskError` */
export async function readLog(path: string, maxLineBytes: number): Promise<LogContent> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    if (!(await file.stat()).isFile()) throw damaged(path, 'it is not a file')
    return await collect(readLines(file, maxLineBytes), path, maxLineBytes)
  } catch (error) {
    throw diskError(error, 'cannot read a session', path)
  } finally {
    await file?.close()
  }
}

async function collect(lines: AsyncIterable<Line>, path: string, maxLineBytes: number): Promise<LogContent> {
  let header: SessionHeader | undefined
  let number = 0
  let end = 0
  let terminated = true
  let cut: string | undefined
  const log = new Renumbering()
  const skipped: number[] = []
  const tooLong: number[] = []
  for await (const line of lines) {
    number++
    if (number === 1) {
      header = parseHeader(line.bytes?.toString('utf8').trim(), path)
      if (!line.terminated) throw damaged(path, 'its first line is cut off')
      end = line.end
      continue
    }
    // Bytes become text only as whole lines, so that no character is ever cut in two.
    const text = line.bytes?.toString('utf8').trim()
    // Blank lines at the end are cut off in silence: nothing is lost with them.
    if (text === '') continue
    const event = text === undefined ? undefined : parseEvent(text)
    if (event) {
      log.add(event)
      end = line.end
      terminated = line.terminated
    } else if (line.terminated) {
      ;(line.bytes ? skipped : tooLong).push(number)
      end = line.end
      terminated = true
    } else {
      cut = `the last ${line.end - end} bytes of the log are not a whole event and were dropped`
    }
  }
  if (!header) throw damaged(path, 'it is empty')
  const notices = [
    ...(skipped.length ? [`${linesOf(skipped)} of the log could not be read and ${was(skipped)} left out`] : []),
    ...(tooLong.length
      ? [`${linesOf(tooLong)} of the log ${is(tooLong)} longer than ${maxLineBytes} bytes and ${was(tooLong)} left out`]
      : []),
    ...(log.moved ? [`${log.moved} events had gapped or repeated numbers and were numbered anew`] : []),
  ]
  return { header, events: log.events, notices, cut, end, terminated }
}

/**
 * An event's place is its number, whatever the line says. References to other events follow as far as can be told: a
 * line whose number is its place was written by somebody who saw the numbering we give.
 */
class Renumbering {
  readonly events: SessionEvent[] = []
  moved = 0
  private readonly places = new Map<number, number>()

  add({ seq: written, time, type, data, ignorable }: StoredLine): void {
    const seq = this.events.length
    if (written !== seq) this.moved++
    if (written !== undefined) this.places.set(written, seq)
    const event = {
      seq,
      time: time ?? this.events.at(-1)?.time ?? 0,
      type,
      data: type === 'context/replaced' && written !== seq ? this.follow(data) : data,
      ...(ignorable === false ? { ignorable } : {}),
    }
    this.events.push(deepFreeze(event) as SessionEvent)
  }

  private follow(data: unknown): unknown {
    if (typeof data !== 'object' || data === null) return data
    const { from, to, ...rest } = data as Record<string, unknown>
    const place = (seq: unknown) => (typeof seq === 'number' ? (this.places.get(seq) ?? seq) : seq)
    return { from: place(from), to: place(to), ...rest }
  }
}

/**
 * Frames on 0x0A only. A line over the limit is passed over without being kept. A line's bytes are good until the next
 * one is asked for: all of the file goes through one buffer, whatever its size.
 */
async function* readLines(file: FileHandle, maxLineBytes: number): AsyncGenerator<Line> {
  let parts: Buffer[] = []
  let length = 0
  let position = 0
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, position)
    if (!bytesRead) break
    const chunk = buffer.subarray(0, bytesRead)
    let start = 0
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, start)) {
      length += at - start
      const bytes = length > maxLineBytes ? undefined : join(parts, chunk.subarray(start, at))
      yield { bytes, end: position + at + 1, terminated: true }
      parts = []
      length = 0
      start = at + 1
    }
    length += bytesRead - start
    if (length > maxLineBytes) parts = []
    else if (start < bytesRead) parts.push(Buffer.from(chunk.subarray(start)))
    position += bytesRead
  }
  if (length) yield { bytes: length > maxLineBytes ? undefined : join(parts), end: position, terminated: false }
}

function join(parts: Buffer[], last?: Buffer): Buffer {
  if (!parts.length) return last ?? Buffer.alloc(0)
  return Buffer.concat(last ? [...parts, last] : parts)
}

function linesOf(numbers: readonly number[]): string {
  const shown = numbers.slice(0, 10).join(', ')
  return `line${numbers.length > 1 ? 's' : ''} ${shown}${numbers.length > 10 ? ` and ${numbers.length - 10} more` : ''}`
}

const is = (numbers: readonly number[]) => (numbers.length > 1 ? 'are' : 'is')
const was = (numbers: readonly number[]) => (numbers.length > 1 ? 'were' : 'was')
