/** Reads a log as a stream, file by file, and sets right what a crash or a second writer left in it. */

import { isHarnessError } from '@cambium/core'
import { diskError } from '@cambium/store'
import type { SessionEvent, SessionHeader } from '../event.ts'
import { damaged, FORMAT_VERSION, type Head, parseEvents, parseHeader } from './format.ts'
import { type Line, readLines } from './lines.ts'
import { chunksOf, firstLine, type OpenPart, openParts, openSegment } from './parts.ts'
import { Renumbering } from './renumbering.ts'

/** Where the next event belongs. */
export interface Tail {
  /** Number of the file that is written. */
  readonly segment: number
  /** Length of its lines: what follows is not a whole line and not an event. */
  readonly end: number
  /** False when the last event's line lacks its end. */
  readonly terminated: boolean
  /** Set when it takes no more: it is compressed, damaged, lost, or of an older format. The next segment follows then. */
  readonly closed: boolean
  readonly packed: boolean
}

export interface LogContent {
  readonly header: SessionHeader
  readonly events: SessionEvent[]
  readonly notices: string[]
  /** Set when the log ends in half a line: what to say of it once it is sure that nobody is writing it. */
  readonly cut: string | undefined
  /** The disk's own error, when a part could not be read to its end for it: there is more than these events. */
  readonly unread: unknown
  readonly tail: Tail
}

/** @throws `SESSION_DAMAGED`, `SESSION_VERSION`, as `diskError` */
export async function readLog(path: string, maxLineBytes: number): Promise<LogContent> {
  let active: OpenPart | undefined
  try {
    const parts = await openParts(path)
    active = parts.active
    if (active && !(await active.file.stat()).isFile()) throw damaged(path, 'it is not a file')
    const log = new LogReader(path, maxLineBytes, [...parts.notices])
    if (!parts.closed.size) return log.finish(await log.part(active!, 'only'), 1)
    const last = (active && (await numberOf(active))) ?? Math.max(...parts.closed) + 1
    for (let number = 1; number < last; number++) {
      if (parts.closed.has(number)) await log.segment(number)
      else log.missing.push(number)
    }
    return log.finish(active && (await log.part(active, 'active')), last)
  } catch (error) {
    throw diskError(error, 'cannot read a session', path)
  } finally {
    await active?.file.close()
  }
}

/** A closed segment of this number or a later one is the open file itself, under the name that it was just getting. */
async function numberOf(active: OpenPart): Promise<number | undefined> {
  try {
    return parseHeader(await firstLine(active), active.path).segment
  } catch (error) {
    if (isHarnessError(error) && error.code === 'SESSION_VERSION') throw error
    return undefined
  }
}

interface PartEnd {
  readonly head: Head | undefined
  readonly end: number
  readonly terminated: boolean
  readonly cut: string | undefined
  readonly packed: boolean
}

class LogReader {
  readonly missing: number[] = []
  private readonly path: string
  private readonly maxLineBytes: number
  private readonly notices: string[]
  private readonly log = new Renumbering()
  private header: SessionHeader | undefined
  private unread: unknown

  constructor(path: string, maxLineBytes: number, notices: string[]) {
    this.path = path
    this.maxLineBytes = maxLineBytes
    this.notices = notices
  }

  /** Reads a closed one. That it is damaged or has just gone is no reason to lose the others. */
  async segment(number: number): Promise<void> {
    let part: OpenPart | undefined
    try {
      part = await openSegment(this.path, number, this.notices)
      const { cut } = await this.part(part, 'closed')
      if (cut) this.notices.push(cut)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') this.missing.push(number)
      else if (!this.isDamage(error)) throw error
      else this.notices.push(`segment ${number} of the log could not be read and is left out`)
    } finally {
      await part?.file.close()
    }
  }

  async part(part: OpenPart, role: 'only' | 'closed' | 'active'): Promise<PartEnd> {
    const what =
      role === 'only'
        ? 'the log'
        : role === 'active'
          ? 'the newest file of the log'
          : `segment ${part.number} of the log`
    const skipped: number[] = []
    const tooLong: number[] = []
    let head: Head | undefined
    let count = 0
    let end = 0
    let terminated = true
    let cut: string | undefined
    const take = (line: Line) => {
      count++
      // Bytes become text only as whole lines, so that no character is ever cut in two.
      const text = line.bytes?.toString('utf8').trim()
      if (count === 1) {
        head = this.begin(text, role)
        if (role === 'only' && !line.terminated) throw damaged(this.path, 'its first line is cut off')
        if (head) end = line.end
        if (head) return
      }
      // Blank lines at the end are cut off in silence: nothing is lost with them.
      if (text === '') return
      const events = text === undefined ? undefined : parseEvents(text, head, count)
      if (events) {
        for (const event of events) this.log.add(event)
        end = line.end
        terminated = line.terminated
      } else if (line.terminated) {
        ;(line.bytes ? skipped : tooLong).push(count)
        end = line.end
        terminated = true
      } else {
        cut = `the last ${line.end - end} bytes of ${what} are not a whole event and were dropped`
      }
    }
    try {
      await readLines(chunksOf(part), this.maxLineBytes, take)
    } catch (error) {
      if (!this.isDamage(error) || (role === 'only' && !head)) throw error
      this.notices.push(`${what} is damaged: it could be read up to its line ${count}`)
    }
    if (role === 'only' && !head) throw damaged(this.path, 'it is empty')
    if (role !== 'only' && !head) this.notices.push(`${what} has no header`)
    if (skipped.length)
      this.notices.push(`${linesOf(skipped)} of ${what} could not be read and ${was(skipped)} left out`)
    if (tooLong.length) {
      this.notices.push(
        `${linesOf(tooLong)} of ${what} ${is(tooLong)} longer than ${this.maxLineBytes} bytes and ${was(tooLong)} left out`,
      )
    }
    return { head, end, terminated, cut, packed: part.packed }
  }

  finish(last: PartEnd | undefined, number: number): LogContent {
    if (!this.header) throw damaged(this.path, 'none of its files begins with the header of a session')
    const { missing, notices, log } = this
    for (let lost = 1; !missing.length && number === 1 && lost < (last?.head?.segment ?? 1); lost++) missing.push(lost)
    const segment = last?.head?.segment ?? number
    if (!last) notices.push('the newest file of the log is missing; what its segments hold is here')
    if (missing.length) notices.push(`${listed('segment', missing)} of the log ${is(missing)} missing`)
    if (log.lost) notices.push(`${log.lost} events are lost with what is missing`)
    if (log.moved) notices.push(`${log.moved} events had gapped or repeated numbers and were numbered anew`)
    return {
      header: this.header,
      events: log.events,
      notices,
      cut: last?.cut,
      unread: this.unread,
      tail: {
        segment,
        end: last?.end ?? 0,
        terminated: last?.terminated ?? true,
        packed: last?.packed ?? false,
        closed: !last?.head || last.packed || last.head.version !== FORMAT_VERSION,
      },
    }
  }

  /** What the content of a file or its disk is to blame for, and neither its permissions nor our own limits. */
  private isDamage(error: unknown): boolean {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'EIO') this.unread ??= error
    return code.startsWith('Z_') || code === 'EIO' || code === 'EISDIR'
  }

  private begin(text: string | undefined, role: 'only' | 'closed' | 'active'): Head | undefined {
    try {
      const head = parseHeader(text, this.path)
      this.header ??= head.header
      this.log.expect(head.from)
      return head
    } catch (error) {
      if (role === 'only' || !isHarnessError(error) || error.code !== 'SESSION_DAMAGED') throw error
      return undefined
    }
  }
}

function listed(noun: string, numbers: readonly number[]): string {
  const shown = numbers.slice(0, 10).join(', ')
  return `${noun}${numbers.length > 1 ? 's' : ''} ${shown}${numbers.length > 10 ? ` and ${numbers.length - 10} more` : ''}`
}

const linesOf = (numbers: readonly number[]) => listed('line', numbers)
const is = (numbers: readonly number[]) => (numbers.length > 1 ? 'are' : 'is')
const was = (numbers: readonly number[]) => (numbers.length > 1 ? 'were' : 'was')
