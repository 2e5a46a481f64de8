/** Stores one live session: batches what is appended, journals the answer that is being streamed, holds the lease. */

import { dirname } from 'node:path'
import { diskError, ensureFolder, type Lease, takeLease } from '@cambium/store'
import type { LiveEvent, SessionEvent, SessionHeader, SessionId } from '../event.ts'
import type { PartialMessage, Session } from '../session.ts'
import { LogFile } from './file.ts'
import { encodeHeader, encodeLine } from './format.ts'
import { Journal } from './journal.ts'
import { NOTE_BYTES, NOTE_EVERY_BYTES, NoteKeeper } from './note.ts'
import { lockOf, type Places } from './places.ts'
import { type LogContent, readLog } from './reader.ts'
import { busy, exists, leaseLost } from './refusals.ts'
import type { Rounds } from './rounds.ts'
import { beginSegment, setAside } from './segments.ts'
import type { SyncQueue } from './sync.ts'
import { TITLE_EVENT, titleOf } from './titles.ts'
import { Unsynced } from './unsynced.ts'

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
  /** The file's number. */
  private segment = 1
  private rotateFailed = false
  private readonly notes = new NoteKeeper()
  private readonly journal: Journal
  private readonly unsynced: Unsynced
  private failing = false
  private ready: Promise<void> | undefined
  private broken: unknown

  constructor(id: SessionId, places: Places, options: WriterOptions) {
    this.id = id
    this.places = places
    this.options = options
    this.journal = new Journal(options.partialMs, () => this.writePartial())
    this.unsynced = new Unsynced(options.syncs, () => this.file)
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
      const partial = this.journal.read(path)
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
      if (event.type === 'assistant/chunk') this.journal.hear()
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
      this.unsynced.add(turnEnded)
      if (titled) this.notes.outdated()
    }
    this.failing = false
    if (session && this.file) this.notes.keep(session, this.file, NOTE_EVERY_BYTES)
    if (session && !session.partial) this.journal.drop(this.file?.path)
  }

  async flush(): Promise<void> {
    await this.ready
    this.commit()
    const { sync } = this.options
    if (sync === 'flush' || (sync === 'turn' && this.unsynced.turnEnded)) await this.unsynced.sync()
  }

  beat(): void {
    this.lease?.beat()
  }

  /** Stores what is pending and gives the lease back, also when storing failed. */
  async release(): Promise<void> {
    try {
      this.commit()
      if (this.session && this.file) this.notes.keep(this.session, this.file, NOTE_BYTES)
      if (this.options.sync !== 'never') await this.unsynced.sync()
    } finally {
      this.options.rounds.drop(this)
      this.journal.stop()
      this.session = undefined
      await this.unsynced.end()
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
      const due = this.options.sync !== 'never' && this.unsynced.turnEnded
      if (due) this.unsynced.sync().catch(this.options.report)
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
      this.assertHeld()
      throw error
    }
  }

  /** Goes on in a new file. When that cannot be done now, the old one simply grows until it can. */
  private rotate(session: Session, file: LogFile): void {
    file.assertOurs()
    try {
      this.file = this.nextFile(file.path, session.header, this.notes.titleOf(session), false)
      if (this.options.sync === 'never') void file.close()
      else this.unsynced.retire(file)
      this.rotateFailed = false
      this.notes.outdated()
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

  private assertHeld(): void {
    this.lease?.check()
    if (this.lease?.lost) throw leaseLost(this.id, this.lease)
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

  private writePartial(): void {
    const partial = this.session?.partial
    if (!partial?.content.length) return
    try {
      this.commit()
      if (this.file) this.journal.keep(this.file.path, partial)
    } catch (error) {
      if (!this.failing) this.options.report(error)
      this.failing = true
    }
  }
}
