/** Keeps sessions as files of JSON lines: one a session, readable with `tail -f` and `grep`. Provides `ctx.sessionPersistence`. */

import { join } from 'node:path'
import { type Context, errorMessage, MAX_TIMER_MS, notify, Service } from '@cambium/core'
import { diskError, homeFolder, liveHolder, takeLease } from '@cambium/store'
import Schema from 'schemastery'
import type { SessionHeader, SessionId } from './event.ts'
import { notFound } from './jsonl/format.ts'
import { listLogs } from './jsonl/listing.ts'
import { filesOf, lockOf, Places } from './jsonl/places.ts'
import { readLog } from './jsonl/reader.ts'
import { removeLog } from './jsonl/removal.ts'
import { Rounds } from './jsonl/rounds.ts'
import { SyncQueue } from './jsonl/sync.ts'
import { busy, SessionWriter, type WriterOptions } from './jsonl/writer.ts'
import type { SessionPersistence, SessionSummary, StoredSession } from './service.ts'
import type { Session } from './session.ts'
import { assertSessionId } from './session-id.ts'

export { FORMAT_VERSION } from './jsonl/format.ts'
export { type Migration, type MigrationContext, migrations } from './jsonl/migrations.ts'

export const name = 'session-jsonl'
export const inject = ['sessions']
export const provide = ['sessionPersistence']

export interface Config {
  folder?: string
  batchMs: number
  sync: 'flush' | 'turn' | 'never'
  partialMs: number
  heartbeatMs: number
  staleMs: number
  maxLineBytes: number
  rotateBytes: number
}

export const Config: Schema<Config> = Schema.object({
  folder: Schema.string().description('Where the logs are kept; sessions in the home folder by default'),
  batchMs: Schema.natural().min(1).max(1_000).default(25).description('Longest wait of an event before it is written'),
  sync: Schema.union(['flush', 'turn', 'never'] as const)
    .default('turn')
    .description(
      'When what was written is forced to the disk (fsync), against power loss: at each flush, at the end of each turn, or never. Against a killed process writing is enough',
    ),
  partialMs: Schema.natural()
    .min(50)
    .max(MAX_TIMER_MS)
    .default(1_000)
    .description('How often a streamed answer is journalled'),
  heartbeatMs: Schema.natural().min(100).max(MAX_TIMER_MS).default(5_000).description('How often a lease is renewed'),
  staleMs: Schema.natural()
    .min(1_000)
    .default(30_000)
    .description('Age of a heartbeat at which a writer on another host counts as gone'),
  maxLineBytes: Schema.natural()
    .min(1_024)
    .default(64 << 20)
    .description('Longer lines of a log are skipped when it is read'),
  rotateBytes: Schema.natural()
    .default(64 << 20)
    .description('A log of this size is closed as a segment and goes on in a new file; 0 for never'),
})

export async function apply(ctx: Context, config: Config): Promise<void> {
  const store = new JsonlStore(ctx, config)
  const { sessions } = ctx
  // Undone last: what the listeners below have heard until they went is still written.
  ctx.effect(() => {
    const timer = setInterval(() => store.beat(), config.heartbeatMs).unref()
    const forget = atExit(() => store.abandon())
    return async () => {
      clearInterval(timer)
      await store.releaseAll()
      forget()
    }
  }, 'session logs')
  ctx.on('session/event', (session, event) => store.writerOf(session).hear(event))
  ctx.on('session/flush', session => (session.seq ? store.writerOf(session).flush() : undefined))
  ctx.on('session/created', session => store.attach(session))
  // A store that was reloaded goes on with the sessions that are live.
  await Promise.all(sessions.list().map(session => store.adopt(session)))
}

const leaving = new Set<() => void>()
const leave = () => {
  for (const run of leaving) run()
}

/** One listener for the whole process, however many stores there are. `run` must not throw and cannot wait. */
function atExit(run: () => void): () => void {
  if (!leaving.size) process.on('exit', leave)
  leaving.add(run)
  return () => {
    leaving.delete(run)
    if (!leaving.size) process.off('exit', leave)
  }
}

class JsonlStore extends Service implements SessionPersistence {
  private readonly places: Places
  private readonly options: WriterOptions
  private readonly writers = new Map<SessionId, SessionWriter>()

  constructor(ctx: Context, config: Config) {
    super(ctx, 'sessionPersistence')
    this.places = new Places(config.folder ?? join(homeFolder(), 'sessions'))
    this.options = {
      ...config,
      rounds: new Rounds(config.batchMs),
      syncs: new SyncQueue(),
      segmentClosed: () => {},
      report: error => ctx.logger.error(errorMessage(error)),
    }
  }

  async list(options: { cwd?: string; limit?: number } = {}): Promise<SessionSummary[]> {
    const folders = options.cwd === undefined ? this.places.folders() : [this.places.folder(options.cwd)]
    return listLogs(folders, { limit: options.limit, staleMs: this.options.staleMs })
  }

  async read(id: SessionId): Promise<StoredSession> {
    const path = this.find(id)
    await this.writers
      .get(id)
      ?.flush()
      .catch(() => {})
    const { header, events, notices, cut } = await readLog(path, this.options.maxLineBytes)
    // What follows the last whole line may be just on its way there.
    const lost = cut !== undefined && !liveHolder(lockOf(path), this.options)
    return { header: { ...header, id }, events, notices: lost ? [...notices, cut] : notices }
  }

  async acquire(id: SessionId): Promise<StoredSession> {
    const path = this.find(id)
    if (this.writers.has(id)) throw busy(id, liveHolder(lockOf(path), this.options), lockOf(path))
    const writer = new SessionWriter(id, this.places, this.options)
    this.writers.set(id, writer)
    try {
      const { header, events, notices, partial } = await writer.acquire(path)
      return { header: { ...header, id }, events, notices, ...(partial ? { partial } : {}) }
    } catch (error) {
      this.writers.delete(id)
      throw error
    }
  }

  async release(id: SessionId): Promise<void> {
    const writer = this.writers.get(id)
    try {
      await writer?.release()
    } finally {
      if (this.writers.get(id) === writer) this.writers.delete(id)
    }
  }

  async delete(id: SessionId): Promise<void> {
    const path = this.find(id)
    const lock = lockOf(path)
    try {
      const taking = takeLease(lock, this.options)
      if (taking.kind === 'busy') throw busy(id, taking.holder, lock)
      try {
        removeLog(path)
      } finally {
        taking.lease.release()
      }
    } catch (error) {
      throw diskError(error, 'cannot delete a session', path)
    }
    notify(this.ctx, undefined, 'session/deleted', id)
  }

  folder({ id, cwd }: SessionHeader): string {
    return filesOf(this.places.find(id) ?? this.places.log(cwd, id))
  }

  writerOf(session: Session): SessionWriter {
    const known = this.writers.get(session.id)
    if (known) return known
    const writer = new SessionWriter(session.id, this.places, this.options)
    writer.attach(session)
    this.writers.set(session.id, writer)
    return writer
  }

  /** A resumed session's writer waits for it already; a new one's comes with its first event. */
  attach(session: Session): void {
    this.writers.get(session.id)?.attach(session)
  }

  async adopt(session: Session): Promise<void> {
    const path = this.places.find(session.id)
    if (!path) return this.writerOf(session).hear()
    const writer = new SessionWriter(session.id, this.places, this.options)
    this.writers.set(session.id, writer)
    await writer.adopt(session, path)
  }

  beat(): void {
    for (const writer of this.writers.values()) writer.beat()
  }

  abandon(): void {
    for (const writer of this.writers.values()) writer.abandon()
  }

  async releaseAll(): Promise<void> {
    const results = await Promise.allSettled([...this.writers.keys()].map(id => this.release(id)))
    for (const result of results) if (result.status === 'rejected') this.options.report(result.reason)
  }

  private find(id: SessionId): string {
    assertSessionId(id)
    const path = this.places.find(id)
    if (!path) throw notFound(id)
    return path
  }
}
