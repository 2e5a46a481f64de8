/** Full-text search over all sessions, through an index that can be deleted at any time. Provides `ctx.sessionSearch`. */

import { join } from 'node:path'
import { type Context, deadline, MAX_TIMER_MS, report, Service } from '@cambium/core'
import { homeFolder } from '@cambium/store'
import Schema from 'schemastery'
import type { SessionId } from './event.ts'
import type { SessionSearch, SessionSearchOptions, SessionSearchResult } from './search/contract.ts'
import type { SearchEngine } from './search/engine.ts'

export * from './search/contract.ts'

export const name = 'session-search'
export const inject = ['sessions', 'sessionPersistence']
export const provide = ['sessionSearch']

export interface Config {
  folder?: string
  lockMs: number
  maxResultChars: number
}

export const Config: Schema<Config> = Schema.object({
  folder: Schema.string().description(
    'Where the index is kept; search in the home folder by default. Deleting it costs the time to make it again',
  ),
  lockMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(2_000)
    .description('Longest wait for another process that updates the index; what is in it is searched then'),
  maxResultChars: Schema.natural()
    .min(100)
    .default(8_000)
    .description('What is indexed of a tool result, half of it from its end'),
})

/** Several deletions are dealt with at once. */
const FORGET_MS = 1_000
/** Less than what a plugin's end may take. */
const LAST_FORGET_MS = 4_000

export function apply(ctx: Context, config: Config): void {
  const search = new SearchService(ctx, config)
  ctx.effect(() => () => search.end(), 'search index')
  ctx.on('session/deleted', id => search.forget(id))
}

class SearchService extends Service implements SessionSearch {
  /** The providing plugin's own context; `ctx` is the caller's. */
  private readonly base: Context
  private readonly config: Config
  private readonly ending = new AbortController()
  private engine: Promise<SearchEngine> | undefined
  private deleted = new Set<SessionId>()
  private timer: NodeJS.Timeout | undefined

  constructor(ctx: Context, config: Config) {
    super(ctx, 'sessionSearch')
    this.base = ctx
    this.config = config
  }

  async search(query: string, options: SessionSearchOptions = {}): Promise<SessionSearchResult> {
    return (await this.load()).search(query, { ...options, signal: this.until(options.signal) })
  }

  async rebuild(options: Pick<SessionSearchOptions, 'signal' | 'onProgress'> = {}): Promise<{ sessions: number }> {
    return (await this.load()).rebuild({ ...options, signal: this.until(options.signal) })
  }

  forget(id: SessionId): void {
    this.deleted.add(id)
    this.timer ??= setTimeout(() => void this.purge(this.ending.signal), FORGET_MS).unref()
  }

  /** Searches under way are broken off; what was deleted leaves the disk, as far as there is time. */
  async end(): Promise<void> {
    this.ending.abort(new Error('the search was unmounted'))
    const limit = deadline(LAST_FORGET_MS)
    await this.purge(limit.signal)
    limit.clear()
    await (await this.engine)?.dispose()
  }

  /** Never rejects: what is left in the index is not found, and leaves it with the next search. */
  private async purge(signal: AbortSignal): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    const { deleted } = this
    if (!deleted.size) return
    this.deleted = new Set()
    try {
      await (await this.load()).forget(deleted, signal)
    } catch (error) {
      if (!signal.aborted) report(this.base, 'taking deleted sessions out of the search index', error)
    }
  }

  private load(): Promise<SearchEngine> {
    const { sessions, sessionPersistence } = this.base
    const { folder = join(homeFolder(), 'search'), lockMs, maxResultChars } = this.config
    this.engine ??= import('./search/engine.ts').then(
      ({ SearchEngine }) => new SearchEngine(sessions, sessionPersistence, { folder, lockMs, maxResultChars }),
    )
    return this.engine
  }

  private until(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.ending.signal]) : this.ending.signal
  }
}
