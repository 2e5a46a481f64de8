/** Keeps sessions as files of JSON lines: one a session, readable with `tail -f` and `grep`. Provides `ctx.sessionPersistence`. */

import { join } from 'node:path'
import { type Context, errorMessage, isHarnessError, MAX_TIMER_MS, notify, Service } from '@cambium/core'
import { diskError, homeFolder, liveHolder, takeLease } from '@cambium/store'
import Schema from 'schemastery'
import type { SessionHeader, SessionId } from './event.ts'
import { notFound } from './jsonl/format.ts'
import { listLogs } from './jsonl/listing.ts'
import { filesOf, lockOf, Places, plainName } from './jsonl/places.ts'
import { beyond, type Limits } from './jsonl/prune.ts'
import { readLog } from './jsonl/reader.ts'
import { busy } from './jsonl/refusals.ts'
import { bytesOfFiles, removeLog } from './jsonl/removal.ts'
import { Rounds } from './jsonl/rounds.ts'
import { SyncQueue } from './jsonl/sync.ts'
import { Upkeep } from './jsonl/upkeep.ts'
import { SessionWriter, type WriterOptions } from './jsonl/writer.ts'
import type { PruneOptions, PruneReport, SessionPersistence, SessionSummary, StoredSession } from './service.ts'
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
  compress: boolean
  compressAfterDays: number
  retention: Retention
}

export interface Retention {
  maxAgeDays?: number
  maxSessions?: number
  maxTotalBytes?: number
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
  compress: Schema.boolean()
    .default(false)
    .description('Compress what is written no more with gzip, in the background; zgrep reads it'),
  compressAfterDays: Schema.natural().default(7).description('Days after which a session that rests is compressed'),
  retention: Schema.object({
    maxAgeDays: Schema.natural().min(1).description('Sessions in which nothing happened for longer are deleted'),
    maxSessions: Schema.natural().min(1).description('Of more sessions, the oldest are deleted'),
    maxTotalBytes: Schema.natural().min(1).description('When all logs take more, the oldest are deleted'),
  }).description('What is deleted by itself, once a day; nothing by default'),
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
      await store.upkeep.end()
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
  private readonly retention: Limits
  readonly upkeep: Upkeep

  constructor(ctx: Context, config: Config) {
    super(ctx, 'sessionPersistence')
    const report = (error: unknown) => ctx.logger.error(errorMessage(error))
    this.places = new Places(config.folder ?? join(homeFolder(), 'sessions'))
    const { maxAgeDays, maxSessions, maxTotalBytes } = config.retention
    this.retention = { olderThanMs: maxAgeDays && maxAgeDays * 86_400_000, maxSessions, maxTotalBytes }
    const retains = Object.values(this.retention).some(limit => limit !== undefined)
    this.upkeep = new Upkeep({
      ...config,
      places: this.places,
      list: () => this.list(),
      prune: retains ? signal => this.pruneTo(this.retention, {}, signal) : undefined,
      report,
    })
    this.options = {
      ...config,
      rounds: new Rounds(config.batchMs),
      syncs: new SyncQueue(),
      segmentClosed: (log, number) => this.upkeep.segmentClosed(log, number),
      report,
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
    await this.upkeep.leave(path)
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
    await this.upkeep.leave(path)
    this.deleteAt(path, id)
  }

  async prune({ dryRun = false, cwd, ...asked }: PruneOptions = {}): Promise<PruneReport> {
    const given = (limits: Limits) => Object.values(limits).some(limit => limit !== undefined)
    const limits = given(asked) ? asked : this.retention
    const report = await this.pruneTo(limits, { dryRun, cwd })
    return given(limits) ? report : { ...report, unlimited: true }
  }

  private async pruneTo(
    limits: Limits,
    { dryRun = false, cwd }: { dryRun?: boolean; cwd?: string | undefined },
    signal?: AbortSignal,
  ): Promise<PruneReport> {
    const list = await this.list(cwd === undefined ? {} : { cwd })
    const removed: SessionSummary[] = []
    const skipped = list.flatMap(({ id, damaged }) =>
      damaged === undefined ? [] : [{ id, why: `it is damaged: ${damaged}` }],
    )
    let freedBytes = 0
    for (const summary of beyond(list, limits, Date.now())) {
      if (signal?.aborted) break
      const { id, holder } = summary
      const path = plainName(summary.path)
      if (holder || this.writers.has(id)) {
        skipped.push({ id, why: `it is being written by ${holder ?? 'this process'}` })
        continue
      }
      const bytes = summary.bytes + (await bytesOfFiles(path))
      try {
        if (!dryRun) this.deleteAt(path, id)
        removed.push(summary)
        freedBytes += bytes
      } catch (error) {
        skipped.push({ id, why: isHarnessError(error) ? error.problem : errorMessage(error) })
      }
    }
    return { removed, kept: list.length - removed.length, freedBytes, skipped }
  }

  private deleteAt(path: string, id: SessionId): void {
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
    // Another copy, in another folder, is the session still.
    if (!this.places.find(id)) notify(this.ctx, undefined, 'session/deleted', id)
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
