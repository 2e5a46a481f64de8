/** Stores one live session: batches what is appended, journals the answer that is being streamed, holds the lease. */

import { readFileSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { HarnessError, parsedProblem } from '@cambium/core'
import { diskError, ensureFolder, type Holder, type Lease, takeLease, writeAtomic } from '@cambium/store'
import { problemOf } from '../core-types.ts'
import type { EventType, LiveEvent, SessionEvent, SessionHeader, SessionId } from '../event.ts'
import type { PartialMessage, Session } from '../session.ts'
import { LogFile } from './file.ts'
import { encodeHeader, encodeLine } from './format.ts'
import { NOTE_BYTES, NOTE_EVERY_BYTES, type Note, writeNote } from './note.ts'
import { lockOf, type Places, partialOf } from './places.ts'
import { type LogContent, readLog } from './reader.ts'
import type { Rounds } from './rounds.ts'
import { beginSegment, setAside } from './segments.ts'
import type { SyncQueue } from './sync.ts'
import { setTitle, TITLE_EVENT, titleOf } from './titles.ts'

export interface WriterOptions {
  readonly partialMs: number
  readonly sync: 'flush' | 'turn' | 'never'
  readonly staleMs: number
  readonly maxLineBytes: number
  /** A larger file is closed as a segment; 0 for never. */
  readonly rotateBytes: number
  /** What all writers of the store share. */
  readonly rounds: Rounds
  readonly syncs: SyncQueue
  /** A segment was closed and is written no more. */
  readonly segmentClosed: (log: string, number: number) => void
  /** Takes a failure that no caller waits for. */
  readonly report: (error: unknown) => void
}

/** Written at once at most; a seed may be larger than one buffer should be. */
const SLICE_CHARS = 4 << 20

export class SessionWriter {
  readonly id: SessionId
  private readonly places: Places
  private readonly options: WriterOptions
  private session: Session | undefined
  private lease: Lease | undefined
  private file: LogFile | undefined
  /** How many events are in the file. The session itself is the queue: what follows is pending, in order. */
  private stored = 0
  /** The file's number, and those before it that a power loss could still harm. */
  private segment = 1
  private retired: LogFile[] = []
  private rotateFailed = false
  private noted: Note | undefined
  private titled = true
  private firstWords: string | undefined
  private journal: NodeJS.Timeout | undefined
  private journalled = false
  private failing = false
  private unsynced = false
  private turnEnded = false
  private syncing: Promise<void> = Promise.resolve()
  private ready: Promise<void> | undefined
  private broken: unknown

  constructor(id: SessionId, places: Places, options: WriterOptions) {
    this.id = id
    this.places = places
    this.options = options
  }

  /** Takes the lease and reads the log, leaving the file fit for appending. @throws see `SessionPersistence.acquire` */
  async acquire(path: string): Promise<LogContent & { partial: PartialMessage | undefined }> {
    this.takeLease(path)
    try {
      const content = await readLog(path, this.options.maxLineBytes)
      const { tail, header, events, unread } = content
      if (unread) {
        // Writing would cut off, or number anew, what is there and could not be read just now.
        const fix = 'try again, or fork the session to go on with what can be read'
        throw diskError(unread, 'cannot read the whole of a session', path, fix)
      }
      this.stored = events.length
      this.segment = tail.segment
      if (!tail.packed) setAside(path, tail.segment)
      if (tail.closed) this.file = this.nextFile(path, header, titleOf(events), tail.packed)
      else {
        this.file = LogFile.open(path, tail.end)
        if (!tail.terminated) this.file.append('\n')
      }
      const partial = readPartial(partialOf(path))
      this.journalled = partial !== undefined
      const { notices, cut } = content
      return { ...content, notices: cut ? [...notices, cut] : notices, partial }
    } catch (error) {
      await this.release()
      throw error
    }
  }

  /** From now on the session's events are stored here. */
  attach(session: Session): void {
    this.session = session
  }

  /** Goes on with a session whose log a former store of this process wrote. Flushing waits for it and tells its failure. */
  adopt(session: Session, path: string): Promise<void> {
    this.ready = this.acquire(path).then(
      async ({ header, events }) => {
        if (header.createdAt === session.header.createdAt && events.length <= session.seq) this.attach(session)
        else await this.fail(exists(this.id, path))
      },
      error => this.fail(error),
    )
    return this.ready.then(() => this.hear())
  }

  hear(event?: SessionEvent | LiveEvent): void {
    if (event && event.seq === undefined) {
      if (event.type !== 'assistant/chunk' || this.journal) return
      this.journal = setTimeout(() => this.writePartial(), this.options.partialMs)
    } else {
      this.options.rounds.add(this)
    }
  }

  /** Writes what is pending. Cheap when nothing is. @throws as `LogFile`, `SESSION_BUSY`, `SESSION_EXISTS`, `SESSION_LEASE_LOST` */
  commit(): void {
    this.options.rounds.drop(this)
    if (this.broken) throw this.broken
    const { session } = this
    while (session && this.stored < session.seq) {
      const { text, count, turnEnded, titled } = this.slice(session)
      this.write(session, text)
      this.stored += count
      this.unsynced = true
      this.turnEnded ||= turnEnded
      this.titled ||= titled
    }
    this.failing = false
    if (session) this.note(session, NOTE_EVERY_BYTES)
    if (this.journalled && session && !session.partial) this.dropPartial()
  }

  async flush(): Promise<void> {
    await this.ready
    this.commit()
    const { sync } = this.options
    if (sync === 'flush' || (sync === 'turn' && this.turnEnded)) await this.sync()
  }

  beat(): void {
    this.lease?.beat()
  }

  /** Stores what is pending and gives the lease back, also when storing failed. */
  async release(): Promise<void> {
    try {
      this.commit()
      if (this.session) this.note(this.session, NOTE_BYTES)
      if (this.options.sync !== 'never') await this.sync()
    } finally {
      this.options.rounds.drop(this)
      clearTimeout(this.journal)
      this.session = undefined
      await this.syncing.catch(() => {})
      for (const file of this.retired) await file.close()
      this.retired = []
      await this.file?.close()
      this.file = undefined
      this.lease?.release()
      this.lease = undefined
    }
  }

  /** The process ends now: what can be done without waiting. */
  abandon(): void {
    try {
      this.commit()
    } catch (error) {
      this.options.report(error)
    }
    this.lease?.release()
  }

  /** A round of the store: see `Rounds`. */
  commitInBackground(): void {
    try {
      this.commit()
      if (this.options.sync !== 'never' && this.turnEnded) this.sync().catch(this.options.report)
    } catch (error) {
      // Said once; everything stays pending, and each further event and each flush tries again.
      if (!this.failing) this.options.report(error)
      this.failing = true
    }
  }

  private slice(session: Session) {
    let text = ''
    let count = 0
    let turnEnded = false
    let titled = false
    for (const event of session.events(this.stored)) {
      if (text.length > SLICE_CHARS) break
      text += `${encodeLine(event)}\n`
      count++
      turnEnded ||= event.type === 'turn/end'
      titled ||= (event.type as string) === TITLE_EVENT
    }
    return { text, count, turnEnded, titled }
  }

  private write(session: Session, text: string): void {
    this.assertHeld()
    if (this.file) {
      this.append(session, this.file, text)
      return
    }
    const other = this.places.find(this.id)
    if (other) throw exists(this.id, other)
    const path = this.places.log(session.header.cwd, this.id)
    ensureFolder(dirname(path))
    if (!this.lease) this.takeLease(path)
    this.file = LogFile.create(path, `${encodeHeader(session.header)}\n${text}`)
    if (this.file) return
    this.lease?.release()
    this.lease = undefined
    throw exists(this.id, path)
  }

  private append(session: Session, file: LogFile, text: string): void {
    const { rotateBytes } = this.options
    try {
      if (rotateBytes && file.size >= rotateBytes) this.rotate(session, file)
      this.file?.append(text)
    } catch (error) {
      // Whoever took the lease over writes at once; why is the better thing to say.
      this.lease?.beat()
      this.assertHeld()
      throw error
    }
  }

  /** Goes on in a new file. When that cannot be done now, the old one simply grows until it can. */
  private rotate(session: Session, file: LogFile): void {
    file.assertOurs()
    try {
      this.file = this.nextFile(file.path, session.header, this.titleOf(session), false)
      this.retired.push(file)
      this.rotateFailed = false
      this.noted = undefined
    } catch (error) {
      if (!this.rotateFailed) this.options.report(error)
      this.rotateFailed = true
    }
  }

  private nextFile(path: string, header: SessionHeader, title: string | undefined, packed: boolean): LogFile {
    const closing = { number: this.segment, packed, durable: this.options.sync !== 'never' }
    const start = { segment: this.segment + 1, from: this.stored, title }
    const file = beginSegment(path, closing, encodeHeader(header, start))
    this.options.segmentClosed(path, this.segment++)
    return file
  }

  /** Leaves word for lists, where looking through the log would cost more. Nothing depends on it. */
  private note(session: Session, everyBytes: number): void {
    const { file } = this
    if (!file || file.size < NOTE_BYTES) return
    if (this.noted && !this.titled && file.size - this.noted.upTo < everyBytes) return
    this.titled = false
    try {
      this.noted = { title: this.titleOf(session), upTo: file.size }
      writeNote(file.path, this.noted)
    } catch {
      // Lists look through the log instead.
    }
  }

  private titleOf(session: Session): string | undefined {
    const last = session.last(TITLE_EVENT as EventType)
    if (last) return setTitle(last.data) ?? titleOf(session.events())
    this.firstWords ??= titleOf(session.events())
    return this.firstWords
  }

  private assertHeld(): void {
    if (!this.lease?.lost) return
    throw new HarnessError('SESSION_LEASE_LOST', `another process has taken session ${this.id} over`, {
      where: this.lease.path,
      fix: 'fork the session to go on here',
    })
  }

  private async fail(error: unknown): Promise<void> {
    this.options.report(error)
    await this.release().catch(() => {})
    this.broken = error
  }

  private takeLease(path: string): void {
    const lock = lockOf(path)
    let taking: ReturnType<typeof takeLease>
    try {
      taking = takeLease(lock, this.options)
    } catch (error) {
      throw diskError(error, 'cannot lock a session', lock)
    }
    if (taking.kind === 'busy') throw busy(this.id, taking.holder, lock)
    this.lease = taking.lease
  }

  private sync(): Promise<void> {
    if (!this.unsynced || !this.file) return this.syncing
    this.unsynced = false
    this.turnEnded = false
    const done = this.syncing.catch(() => {}).then(() => this.options.syncs.run(() => this.syncFiles()))
    // A failed one counts as not done, and is done again by the next.
    done.catch(() => {
      this.unsynced = true
      this.turnEnded = true
    })
    this.syncing = done
    return done
  }

  private async syncFiles(): Promise<void> {
    for (const file of [...this.retired]) {
      await file.sync()
      this.retired = this.retired.filter(other => other !== file)
      await file.close()
    }
    await this.file?.sync()
  }

  private writePartial(): void {
    this.journal = undefined
    const partial = this.session?.partial
    if (!partial?.content.length) return
    try {
      this.commit()
      if (!this.file) return
      writeAtomic(partialOf(this.file.path), encodeLine(partial))
      this.journalled = true
    } catch (error) {
      if (!this.failing) this.options.report(error)
      this.failing = true
    }
  }

  private dropPartial(): void {
    try {
      if (this.file) rmSync(partialOf(this.file.path), { force: true })
      this.journalled = false
    } catch {
      // It says which step it belongs to, and that one is answered. The next commit tries again.
    }
  }
}

function readPartial(path: string): PartialMessage | undefined {
  try {
    const partial = JSON.parse(readFileSync(path, 'utf8')) as PartialMessage
    const { turn, step, attempt, content } = partial
    const message = { id: 'partial', role: 'assistant', content, source: {} }
    const sound = Number.isInteger(attempt) && !problemOf('assistant/message', { turn, step, message })
    return sound && !parsedProblem(partial) ? partial : undefined
  } catch {
    // None was written, or it is of no use: the log itself is what counts.
    return undefined
  }
}

export function busy(id: SessionId, holder: Holder | 'unknown' | undefined, where: string): HarnessError {
  const who =
    !holder || holder === 'unknown'
      ? 'another process'
      : holder.pid === process.pid
        ? 'this process'
        : `process ${holder.pid} on ${holder.host}, since ${new Date(holder.since).toLocaleString()}`
  return new HarnessError('SESSION_BUSY', `session ${id} is being written by ${who}`, {
    where,
    fix: 'wait until it has ended, or fork the session; reading it is possible meanwhile',
  })
}

function exists(id: SessionId, path: string): HarnessError {
  return new HarnessError('SESSION_EXISTS', `another session ${id} is stored already`, {
    where: path,
    fix: 'resume it, or choose another id',
  })
}
