/** Brings the index up to date and asks it; loaded with the first search. */

import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deadline, errorMessage, HarnessError, isHarnessError, Pace } from '@cambium/core'
import { diskError } from '@cambium/store'
import type { SessionId } from '../event.ts'
import type { SessionPersistence, Sessions } from '../service.ts'
import type { Session } from '../session.ts'
import type { SessionSearchOptions, SessionSearchResult } from './contract.ts'
import { findHits } from './find.ts'
import { IndexDamage } from './format.ts'
import { IndexFolder, type IndexState } from './index-folder.ts'
import { parseQuery } from './query.ts'
import { IndexUpdate, type Sources, staleSessions, wornSegments } from './update.ts'

export interface EngineOptions {
  readonly folder: string
  readonly lockMs: number
  readonly maxResultChars: number
}

const LIMIT = 20
const PER_SESSION = 3
/** Longest wait for a live session to be stored. */
const FLUSH_MS = 3_000
const MAX_NOTICES = 10
/** How often a search begins again because the index was damaged or replaced under it. */
const ATTEMPTS = 3
/** Of a folder that cannot be written, as far as it goes. */
const UNWRITABLE = new Set(['STORE_READ_ONLY', 'STORE_PATH'])

type Search = Omit<SessionSearchOptions, 'limit' | 'perSession'>

export class SearchEngine {
  private readonly sessions: Sessions
  private readonly store: SessionPersistence
  private readonly options: EngineOptions
  private folder: IndexFolder
  /** Why the index is not where it belongs, and where it is instead. */
  private temporary: { readonly path: string; readonly why: string } | undefined
  private before: Promise<unknown> = Promise.resolve()

  constructor(sessions: Sessions, store: SessionPersistence, options: EngineOptions) {
    this.sessions = sessions
    this.store = store
    this.options = options
    this.folder = new IndexFolder(options.folder)
  }

  async search(query: string, options: SessionSearchOptions): Promise<SessionSearchResult> {
    const { limit = LIMIT, perSession = PER_SESSION, signal } = options
    const words = parseQuery(query)
    const pace = new Pace(signal)
    await pace.rest()
    const notices = new Set<string>()
    for (let attempt = 1; ; attempt++) {
      try {
        const sources = await this.sources(options.cwd, notices)
        const state = await this.upToDate(sources, options, notices)
        const hits = await findHits(state, words, sources.stored, {
          limit: Math.max(1, limit),
          perSession: Math.max(1, perSession),
          pace,
        })
        const indexed = sources.stored.filter(({ id }) => state.sessions.has(id))
        for (const { id } of indexed) {
          for (const notice of state.sessions.get(id)?.at(-1)?.coverage.notices ?? [])
            notices.add(`session ${id}: ${notice}`)
        }
        return { hits, indexed: indexed.length, notices: bounded(notices) }
      } catch (error) {
        if (attempt === ATTEMPTS || !(error instanceof IndexDamage || isMissing(error))) throw error
        if (error instanceof IndexDamage) await this.startAnew(error, options, notices)
      }
    }
  }

  async rebuild(options: Search): Promise<{ sessions: number }> {
    const notices = new Set<string>()
    const sources = await this.sources(undefined, notices)
    return this.alone(async () => {
      const pace = new Pace(options.signal)
      await this.change(sources, options, true)
      await pace.rest()
      return { sessions: (await this.folder.load()).sessions.size }
    })
  }

  /** Takes deleted sessions out of the index; what else is new waits for the next search. */
  async forget(ids: ReadonlySet<SessionId>, signal: AbortSignal): Promise<void> {
    const sources = { store: this.store, stored: [], live: new Map(), gone: (id: SessionId) => ids.has(id) }
    await this.alone(async () => {
      if (wornSegments(await this.folder.load(), sources).length) {
        await this.change({ ...sources, maxResultChars: this.options.maxResultChars }, { signal }, false)
      }
    })
  }

  async dispose(): Promise<void> {
    await this.before.catch(() => {})
    if (this.temporary) await rm(this.temporary.path, { recursive: true, force: true })
  }

  private async sources(cwd: string | undefined, notices: Set<string>): Promise<Sources> {
    const live = new Map<SessionId, Session>()
    const flushes = this.sessions.list().map(async session => {
      if (!session.seq || (cwd !== undefined && session.header.cwd !== cwd)) return
      try {
        await within(FLUSH_MS, this.sessions.flush(session))
        live.set(session.id, session)
      } catch (error) {
        notices.add(`the end of session ${session.id} is not stored yet and not searched: ${errorMessage(error)}`)
      }
    })
    await Promise.all(flushes)
    const stored = await this.store.list(cwd === undefined ? {} : { cwd })
    for (const { id, damaged } of stored) {
      if (damaged) notices.add(`session ${id} cannot be read and is not searched: ${damaged}`)
    }
    const known = new Set<string>([...stored.map(({ id }) => id), ...this.sessions.list().map(({ id }) => id)])
    return {
      store: this.store,
      stored: stored.filter(({ damaged }) => !damaged),
      live,
      gone: id => cwd === undefined && !known.has(id),
      maxResultChars: this.options.maxResultChars,
    }
  }

  /** The index with all that there is, or what there is of it and a notice. */
  private async upToDate(sources: Sources, options: Search, notices: Set<string>): Promise<IndexState> {
    return this.alone(async () => {
      const state = await this.folder.load()
      if (staleSessions(state, sources).length || wornSegments(state, sources).length) {
        try {
          for (const notice of await this.change(sources, options, false)) notices.add(notice)
        } catch (error) {
          options.signal?.throwIfAborted()
          if (error instanceof IndexDamage) throw error
          notices.add(`the search index is not up to date: ${explained(error, this.folder.path)}`)
        }
      }
      if (this.temporary) {
        notices.add(`the search index cannot be kept: ${this.temporary.why}. One was made for this process only`)
      }
      return this.folder.load()
    })
  }

  /** The index is not worth reading: what is left of it goes, and the next attempt makes it. */
  private async startAnew(damage: IndexDamage, options: Search, notices: Set<string>): Promise<void> {
    notices.add(`the search index was made anew, since ${damage.message}`)
    await this.alone(() =>
      this.writable(() =>
        this.folder.locked(this.options.lockMs, options.signal, async lock => this.folder.commit(lock, [])),
      ),
    )
  }

  private change(sources: Sources, options: Search, anew: boolean): Promise<readonly string[]> {
    return this.writable(() =>
      this.folder.locked(this.options.lockMs, options.signal, async lock => {
        if (anew) await this.folder.commit(lock, [])
        const update = new IndexUpdate(this.folder, lock, sources, new Pace(options.signal))
        await update.run(options.onProgress ?? (() => {}))
        return update.notices
      }),
    )
  }

  /** Where the folder cannot be written, one of this process's own takes its place, with what could be read. */
  private async writable<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (this.temporary || !isHarnessError(error) || !UNWRITABLE.has(error.code)) throw error
      const path = await mkdtemp(join(tmpdir(), 'cambium-search-'))
      this.temporary = { path, why: explained(error, this.folder.path) }
      await cp(this.folder.path, path, { recursive: true }).catch(() => {})
      this.folder = new IndexFolder(path)
      await this.folder.load().catch(() => this.folder.locked(0, undefined, lock => this.folder.commit(lock, [])))
      return work()
    }
  }

  /** One at a time: the second finds done what the first did. */
  private alone<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.before.then(work, work)
    this.before = mine.catch(() => {})
    return mine
  }
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  const limit = deadline(ms)
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) =>
        limit.signal.addEventListener('abort', () => reject(limit.signal.reason), { once: true }),
      ),
    ])
  } finally {
    limit.clear()
  }
}

function explained(error: unknown, path: string): string {
  const { code } = error as NodeJS.ErrnoException
  if (!isHarnessError(error) && code === undefined) return errorMessage(error)
  const { problem, where } = isHarnessError(error) ? error : diskError(error, 'it cannot be written', path)
  return where ? `${problem} (${where})` : problem
}

const isMissing = (error: unknown) =>
  !(error instanceof HarnessError) && (error as NodeJS.ErrnoException).code === 'ENOENT'

function bounded(notices: ReadonlySet<string>): string[] {
  const all = [...notices]
  const more = all.length - MAX_NOTICES
  return more > 0 ? [...all.slice(0, MAX_NOTICES), `and ${more} more notices`] : all
}
