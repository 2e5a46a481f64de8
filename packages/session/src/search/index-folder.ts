/** The index on the disk: a folder with segments, a list of those that count, and a lock for who changes it. */

import { randomBytes } from 'node:crypto'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { HarnessError, sleep } from '@cambium/core'
import { diskError, ensureFolder, type Lease, takeLease, writeAtomic } from '@cambium/store'
import { type Coverage, IndexDamage } from './format.ts'
import { Segment } from './segment.ts'

const LIST = 'index.json'
const SEGMENT = /^\d{6,}-[0-9a-f]{8}\.seg(\.tmp)?$/
const VERSION = 1
const BEAT_MS = 5_000
const STALE_MS = 30_000
const RETRY_MS = 50
/** A segment that is gone was replaced since the list was read. */
const LOOKS = 4

export interface ListedSegment {
  readonly name: string
  /** Of its texts. */
  readonly chars: number
}

/** What the index holds at one moment. */
export interface IndexState {
  readonly listed: readonly ListedSegment[]
  readonly segments: readonly Segment[]
  /** Of each session what counts, in order: together the events from 0 up to the last `to`. */
  readonly sessions: ReadonlyMap<string, readonly Covered[]>
}

export interface Covered {
  readonly segment: Segment
  readonly coverage: Coverage
}

export class IndexFolder {
  readonly path: string
  private readonly opened = new Map<string, Segment>()

  constructor(path: string) {
    this.path = path
  }

  /** Empty where there is none yet. @throws IndexDamage for one that is broken, or of another version */
  async load(): Promise<IndexState> {
    for (let look = 1; ; look++) {
      const listed = await this.list()
      try {
        const segments: Segment[] = []
        for (const { name } of listed) segments.push(await this.open(name))
        for (const name of this.opened.keys())
          if (!listed.some(segment => segment.name === name)) this.opened.delete(name)
        return { listed, segments, sessions: covered(segments) }
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
        if (look === LOOKS) throw new IndexDamage('a part of it is missing', { cause: error })
      }
    }
  }

  /** Runs `work` while nobody else changes the index. @throws `STORE_LOCKED` after `waitMs`; as `diskError` */
  async locked<T>(waitMs: number, signal: AbortSignal | undefined, work: (lock: Lease) => Promise<T>): Promise<T> {
    ensureFolder(this.path)
    const lease = await this.take(waitMs, signal)
    const timer = setInterval(() => lease.beat(), BEAT_MS).unref()
    try {
      await this.sweep()
      return await work(lease)
    } finally {
      clearInterval(timer)
      lease.release()
    }
  }

  newName(): string {
    const last = Math.max(0, ...[...this.opened.keys()].map(name => Number.parseInt(name, 10)))
    return `${String(last + 1).padStart(6, '0')}-${randomBytes(4).toString('hex')}.seg`
  }

  /** From now on these segments count, and others are removed. */
  async commit(lock: Lease, listed: readonly ListedSegment[]): Promise<void> {
    lock.beat()
    if (lock.lost) {
      throw new HarnessError('STORE_LOCKED', 'another process has taken over the search index', {
        where: this.path,
        fix: 'search again',
      })
    }
    writeAtomic(join(this.path, LIST), JSON.stringify({ format: 'cambium-search', version: VERSION, segments: listed }))
    await this.sweep(listed)
  }

  private async list(): Promise<ListedSegment[]> {
    let text: string
    try {
      text = await readFile(join(this.path, LIST), 'utf8')
    } catch (error) {
      if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return []
      throw diskError(error, 'cannot read the search index', this.path)
    }
    try {
      const { format, version, segments } = JSON.parse(text)
      const sound = (item: Partial<ListedSegment>) => SEGMENT.test(item.name ?? '') && Number.isFinite(item.chars)
      if (format === 'cambium-search' && version === VERSION && segments.every(sound)) return segments
    } catch {
      // Said below, as for a list of another version.
    }
    throw new IndexDamage('it is of another version, or of another program')
  }

  private async open(name: string): Promise<Segment> {
    const segment = this.opened.get(name) ?? (await Segment.open(this.path, name))
    this.opened.set(name, segment)
    return segment
  }

  private async take(waitMs: number, signal: AbortSignal | undefined): Promise<Lease> {
    for (const until = performance.now() + waitMs; ; ) {
      const taking = this.tryTake()
      if (taking.kind === 'taken') return taking.lease
      if (performance.now() >= until) {
        const { holder } = taking
        throw new HarnessError(
          'STORE_LOCKED',
          `the search index is being updated by ${holder ? `process ${holder.pid} on ${holder.host}` : 'somebody'}`,
          { where: this.path, fix: 'search again when that has ended' },
        )
      }
      await sleep(RETRY_MS, signal)
      signal?.throwIfAborted()
    }
  }

  private tryTake() {
    try {
      return takeLease(join(this.path, 'lock'), { staleMs: STALE_MS })
    } catch (error) {
      throw diskError(error, 'cannot lock the search index', this.path)
    }
  }

  /** Removes what nobody lists: what a killed process left, and what was replaced. Files that are not ours stay. */
  private async sweep(listed?: readonly ListedSegment[]): Promise<void> {
    // A list that cannot be read says nothing; the index is made anew soon, and swept then.
    const names = new Set((listed ?? (await this.list().catch(() => undefined)))?.map(({ name }) => name))
    if (!names.size && !listed) return
    for (const name of await readdir(this.path)) {
      // On Windows one that another process reads stays until the next time.
      if (SEGMENT.test(name) && !names.has(name)) await rm(join(this.path, name), { force: true }).catch(() => {})
    }
  }
}

function covered(segments: readonly Segment[]): Map<string, Covered[]> {
  const all = new Map<string, Covered[]>()
  for (const segment of segments) {
    for (const coverage of segment.directory.sessions) {
      const list = all.get(coverage.id)
      if (list) list.push({ segment, coverage })
      else all.set(coverage.id, [{ segment, coverage }])
    }
  }
  for (const [id, list] of all) all.set(id, counting(list))
  return all
}

/** Those of the highest generation that follow each other without a gap. */
function counting(list: readonly Covered[]): Covered[] {
  const generation = Math.max(...list.map(({ coverage }) => coverage.generation))
  const sorted = list
    .filter(({ coverage }) => coverage.generation === generation)
    .sort((a, b) => a.coverage.from - b.coverage.from || a.coverage.to - b.coverage.to)
  let next = 0
  return sorted.filter(({ coverage: { from, to } }) => {
    if (from !== next) return false
    next = to
    return true
  })
}
