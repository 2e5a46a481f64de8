/** Brings the index up to date: what was said since, by whomever; what is gone leaves; and many small parts become one. */

import { errorMessage, type Pace } from '@cambium/core'
import type { Lease } from '@cambium/store'
import type { SessionEvent, SessionId } from '../event.ts'
import type { SessionPersistence, SessionSummary } from '../service.ts'
import type { Session } from '../session.ts'
import { type SessionText, textOfEvent } from './documents.ts'
import type { Coverage, Mark } from './format.ts'
import type { Covered, IndexFolder, IndexState, ListedSegment } from './index-folder.ts'
import type { Segment } from './segment.ts'
import { SegmentWriter } from './segment-writer.ts'

/** Of the texts of one segment; its terms take some 60 MB of memory while it is made. */
const SEGMENT_CHARS = 12_000_000
/** Smaller ones are joined when there are more than so many. */
const SMALL_CHARS = 3_000_000
const MAX_SMALL = 8

export interface Sources {
  readonly store: Pick<SessionPersistence, 'read'>
  /** Stored sessions that are to be searched. */
  readonly stored: readonly SessionSummary[]
  /** Whether a session is known to be no more. */
  gone(id: SessionId): boolean
  /** Of the sessions that live in this process what is stored for certain. */
  readonly live: ReadonlyMap<SessionId, Session>
  readonly maxResultChars: number
}

/** Sessions of which the index does not have all. */
export function staleSessions(state: IndexState, { stored, live }: Sources): SessionSummary[] {
  return stored.filter(summary => {
    if (summary.damaged) return false
    const last = state.sessions.get(summary.id)?.at(-1)?.coverage
    if (!last) return true
    const session = live.get(summary.id)
    if (session && session.header.createdAt === last.mark.createdAt) return session.seq !== last.to
    return last.mark.bytes !== summary.bytes || last.mark.updatedAt !== summary.updatedAt
  })
}

/** Segments that hold what nobody may find any more, or mostly what does not count, and small ones when they are many. */
export function wornSegments(state: IndexState, { gone }: Pick<Sources, 'gone'>): Segment[] {
  const counting = new Set([...state.sessions.values()].flat().map(({ coverage }) => coverage))
  const worn = new Set(
    state.segments.filter(({ directory: { sessions } }) => {
      if (sessions.some(({ id }) => gone(id))) return true
      const blocks = (list: readonly Coverage[]) => list.reduce((sum, coverage) => sum + coverage.blocks.length, 0)
      return blocks(sessions.filter(coverage => counting.has(coverage))) * 2 < blocks(sessions)
    }),
  )
  const small = state.listed.filter(({ chars }) => chars < SMALL_CHARS)
  if (small.length > MAX_SMALL) {
    for (const { name } of small) worn.add(state.segments.find(segment => segment.name === name)!)
  }
  return [...worn]
}

export class IndexUpdate {
  readonly notices: string[] = []
  private readonly folder: IndexFolder
  private readonly lock: Lease
  private readonly sources: Sources
  private readonly pace: Pace
  private writer: SegmentWriter | undefined
  private replaced: string[] = []

  constructor(folder: IndexFolder, lock: Lease, sources: Sources, pace: Pace) {
    this.folder = folder
    this.lock = lock
    this.sources = sources
    this.pace = pace
  }

  /** What is committed stays when it is broken off. */
  async run(onProgress: (done: number, all: number) => void): Promise<void> {
    try {
      await this.renew(await this.folder.load())
      const state = await this.folder.load()
      const stale = staleSessions(state, this.sources)
      for (const [done, summary] of stale.entries()) {
        onProgress(done, stale.length)
        await this.pace.rest()
        await this.read(summary, state.sessions.get(summary.id)?.at(-1)?.coverage)
      }
      if (stale.length) onProgress(stale.length, stale.length)
      await this.commit()
    } finally {
      await this.writer?.discard()
    }
  }

  private async read(summary: SessionSummary, last: Coverage | undefined): Promise<void> {
    const { id, bytes, updatedAt } = summary
    const session = this.sources.live.get(id)
    let header: { readonly createdAt: number }
    let events: readonly SessionEvent[]
    let notices: readonly string[] = []
    try {
      // Of a live session only what is new is asked for; a stored one is read as its store reads it.
      const stored = session
        ? { header: session.header, events: session.events(), notices }
        : await this.sources.store.read(id)
      ;({ header, events, notices } = stored)
    } catch (error) {
      this.notices.push(`session ${id} cannot be read and is not searched: ${errorMessage(error)}`)
      return
    }
    const { createdAt } = header
    const timeBefore = (seq: number) => (seq ? events[seq - 1]?.time : 0)
    // A log that was cut or exchanged for another one is read from its beginning.
    const grown = last && createdAt === last.mark.createdAt && timeBefore(last.to) === last.mark.lastTime
    const from = grown ? last.to : 0
    const generation = last ? last.generation + (grown ? 0 : 1) : 0
    const mark: Mark = { bytes, updatedAt, createdAt, lastTime: timeBefore(events.length) ?? 0 }
    await this.add(
      { id, generation, from, to: events.length, mark, ...(notices.length ? { notices } : {}) },
      this.textsOf(events, from),
    )
  }

  private async *textsOf(events: readonly SessionEvent[], from: number): AsyncGenerator<SessionText> {
    for (let at = from; at < events.length; at++) {
      const text = textOfEvent(events[at]!, this.sources.maxResultChars)
      if (text) yield text
      else await this.pace.rest()
    }
  }

  private async add(coverage: Omit<Coverage, 'blocks'>, texts: AsyncIterable<SessionText>): Promise<void> {
    this.writer ??= new SegmentWriter(this.folder.path, this.folder.newName(), this.pace)
    await this.writer.add(coverage, texts)
    if (this.writer.chars >= SEGMENT_CHARS) await this.commit()
  }

  private async commit(): Promise<void> {
    const { writer, replaced } = this
    if (!writer && !replaced.length) return
    await writer?.finish()
    const kept = (await this.folder.load()).listed.filter(({ name }) => !replaced.includes(name))
    const made: ListedSegment[] = writer ? [{ name: writer.name, chars: writer.chars }] : []
    await this.folder.commit(this.lock, [...kept, ...made])
    this.writer = undefined
    this.replaced = []
  }

  /** Writes what counts of worn segments into new ones. */
  private async renew(state: IndexState): Promise<void> {
    const counting = new Map<Coverage, Covered>()
    for (const [id, list] of state.sessions) {
      if (this.sources.gone(id)) continue
      for (const item of list) counting.set(item.coverage, item)
    }
    const charsOf = new Map(state.listed.map(({ name, chars }) => [name, chars]))
    let group: Segment[] = []
    let chars = 0
    for (const segment of wornSegments(state, this.sources)) {
      const more = charsOf.get(segment.name)!
      if (group.length && chars + more > SEGMENT_CHARS) {
        await this.rewrite(group, counting)
        group = []
        chars = 0
      }
      group.push(segment)
      chars += more
    }
    await this.rewrite(group, counting)
  }

  private async rewrite(group: readonly Segment[], counting: ReadonlyMap<Coverage, Covered>): Promise<void> {
    const kept = group
      .flatMap(segment => segment.directory.sessions)
      .flatMap(coverage => counting.get(coverage) ?? [])
      .sort((a, b) => a.coverage.id.localeCompare(b.coverage.id) || a.coverage.from - b.coverage.from)
    for (let at = 0; at < kept.length; ) {
      const parts = [kept[at++]!]
      while (kept[at]?.coverage.id === parts[0]!.coverage.id && kept[at]!.coverage.from === parts.at(-1)!.coverage.to)
        parts.push(kept[at++]!)
      const { id, generation, from } = parts[0]!.coverage
      const { to, mark, notices } = parts.at(-1)!.coverage
      this.writer ??= new SegmentWriter(this.folder.path, this.folder.newName(), this.pace)
      await this.writer.add({ id, generation, from, to, mark, ...(notices ? { notices } : {}) }, textsOfParts(parts))
    }
    this.replaced = group.map(({ name }) => name)
    await this.commit()
  }
}

async function* textsOfParts(parts: readonly Covered[]): AsyncGenerator<SessionText> {
  for (const { segment, coverage } of parts) {
    if (!coverage.blocks.length) continue
    const reader = await segment.reader()
    try {
      for (const place of coverage.blocks) yield* await reader.texts(place)
    } finally {
      await reader.close()
    }
  }
}
