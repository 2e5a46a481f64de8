/**
 * What a store does for its disk in the background: compresses what is written no more and deletes what retention lets
 * go. One thing at a time, some time after the start, once a day for all processes of a home.
 */

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { isHarnessError } from '@cambium/core'
import { ensureFolder, takeLease, writeAtomic } from '@cambium/store'
import type { PruneReport, SessionSummary } from '../service.ts'
import { encodeLine, FORMAT_VERSION } from './format.ts'
import { segmentNumbers } from './parts.ts'
import { lockOf, type Places, plainName, segmentOf } from './places.ts'

export interface UpkeepOptions {
  readonly compress: boolean
  readonly compressAfterDays: number
  readonly staleMs: number
  readonly heartbeatMs: number
  readonly places: Places
  readonly list: () => Promise<SessionSummary[]>
  /** Undefined where no retention is configured. */
  readonly prune: ((signal: AbortSignal) => Promise<PruneReport>) | undefined
  readonly report: (error: unknown) => void
}

/** A short run is not held up, and a start is quiet. */
const START_MS = 10_000
const DAY_MS = 86_400_000
/** A round that takes longer goes on with the next start. */
const ROUND_MS = 120_000

export class Upkeep {
  private readonly options: UpkeepOptions
  private readonly ending = new AbortController()
  private timer: NodeJS.Timeout | undefined
  private work: Promise<void> = Promise.resolve()
  /** The closed session that is being compressed, and how to break that off. */
  private busyWith: { readonly log: string; readonly stop: AbortController; readonly done: Promise<void> } | undefined

  constructor(options: UpkeepOptions) {
    this.options = options
    if (options.compress || options.prune) this.wait(START_MS)
  }

  /** A segment of a session that this process writes will not change any more. */
  segmentClosed(log: string, number: number): void {
    if (!this.options.compress) return
    this.add(async signal => {
      await packFile(segmentOf(log, number), signal)
    })
  }

  /** Breaks off what is done to a session's files, which somebody needs. Never rejects. */
  async leave(log: string): Promise<void> {
    if (this.busyWith?.log !== log) return
    this.busyWith.stop.abort(new Error('the session is needed'))
    await this.busyWith.done
  }

  /** All that was begun is done or broken off. */
  async end(): Promise<void> {
    clearTimeout(this.timer)
    this.ending.abort(new Error('the store was unmounted'))
    await this.work
  }

  private wait(ms: number): void {
    this.timer = setTimeout(() => {
      this.add(signal => this.round(signal))
      this.wait(DAY_MS)
    }, ms).unref()
  }

  private add(job: (signal: AbortSignal) => Promise<void>): void {
    const { signal } = this.ending
    this.work = this.work.then(async () => {
      if (signal.aborted) return
      await job(signal).catch(error => {
        if (!signal.aborted) this.options.report(error)
      })
    })
  }

  private async round(signal: AbortSignal): Promise<void> {
    const { places, prune, compress } = this.options
    const stamp = join(places.root, '.upkeep')
    const last = statSync(stamp, { throwIfNoEntry: false })?.mtimeMs
    // A stamp of the future is none: the clock was set back.
    if (last !== undefined && last <= Date.now() && Date.now() - last < DAY_MS) return
    const until = Date.now() + ROUND_MS
    await prune?.(signal)
    if (compress && !(await this.packOld(signal, until))) return
    if (signal.aborted) return
    ensureFolder(places.root)
    writeAtomic(stamp, '')
  }

  /** False when time ran out. */
  private async packOld(signal: AbortSignal, until: number): Promise<boolean> {
    const { list, compressAfterDays } = this.options
    for (const { path, updatedAt, holder, damaged, title } of await list()) {
      if (signal.aborted || Date.now() > until) return false
      if (holder || damaged !== undefined || updatedAt > Date.now() - compressAfterDays * DAY_MS) continue
      const log = plainName(path)
      await this.packSession(log, title, signal).catch(error => {
        // One that cannot be compressed stays as it is, and keeps no other from it.
        if (!signal.aborted && !isHarnessError(error)) this.options.report(error)
      })
    }
    return true
  }

  private async packSession(log: string, title: string | undefined, signal: AbortSignal): Promise<void> {
    const files = (await segmentNumbers(log)).map(number => segmentOf(log, number)).filter(isThere)
    if (!files.length && !isThere(log)) return
    const taking = takeLease(lockOf(log), this.options)
    if (taking.kind === 'busy') return
    const stop = new AbortController()
    let left = () => {}
    this.busyWith = { log, stop, done: new Promise(resolve => (left = resolve)) }
    const beat = setInterval(() => taking.lease.beat(), this.options.heartbeatMs).unref()
    try {
      const either = AbortSignal.any([signal, stop.signal])
      for (const file of files) await packFile(file, either)
      if (isThere(log)) await packFile(log, either, line => withTitle(line, title))
    } catch (error) {
      if (!stop.signal.aborted) throw error
    } finally {
      clearInterval(beat)
      taking.lease.release()
      this.busyWith = undefined
      left()
    }
  }
}

const isThere = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false

async function packFile(path: string, signal: AbortSignal, firstLine?: (line: string) => string): Promise<void> {
  const { pack } = await import('./pack.ts')
  await pack(path, signal, firstLine)
}

/** Lists read no more than the head of a compressed log: what it is called stands there. */
function withTitle(line: string, title: string | undefined): string {
  if (title === undefined) return line
  try {
    const header = JSON.parse(line) as { version?: unknown }
    return header.version === FORMAT_VERSION ? encodeLine({ ...header, title }) : line
  } catch {
    return line
  }
}
