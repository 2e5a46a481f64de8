/** What files were at a point of a log: a pure fold of its events. */

import type { FileState, PutBackTarget } from '@cambium/machine/checkpoint'
import type { SessionEvent } from '@cambium/session'
import { KEPT, type KeptFile, LEFT, type LeftFile, stateOf, WATCHED } from './events.ts'
import type { JournalEvent } from './journal.ts'

export interface Past {
  readonly targets: PutBackTarget[]
  /** A command whose end the log does not know: what it has changed shows in comparing with that snapshot. */
  readonly cutOff: { readonly turn: number; readonly snapshot: string } | undefined
  /** What is not known, in words. */
  readonly notices: string[]
}

type Logged = Pick<SessionEvent, 'type' | 'data' | 'seq'>

/** `seq` -1 is the beginning. Events of other types and broken ones are passed over. */
export function pastAt(events: readonly Logged[], journal: readonly JournalEvent[], seq: number): Past {
  const targets = new Map<string, FileState>()
  const before = new Map<string, FileState>()
  const known = new Map<string, FileState | undefined>()
  const notices = new Set<string>()
  const watched = new Map<string, { turn: number; snapshot: string }>()

  const target = (path: string, state: FileState | undefined) => {
    if (!targets.has(path)) targets.set(path, state ?? { kind: 'unknown', why: 'only its state before the turn is kept' })
  }
  const kept = (files: readonly KeptFile[], later: boolean) => {
    for (const file of files) {
      if (later) target(file.path, file.kind === 'again' ? before.get(file.path) : stateOf(file))
      else before.delete(file.path)
      known.set(file.path, undefined)
    }
  }
  const left = (files: readonly LeftFile[], later: boolean) => {
    for (const file of files) {
      if (later) target(file.path, before.get(file.path))
      else before.set(file.path, stateOf(file))
      known.set(file.path, stateOf(file))
    }
  }

  for (const { type, data, later } of inOrder(events, journal, seq)) {
    if (type === KEPT) kept(data.files, later)
    else if (type === LEFT) {
      left(data.files, later)
      if (data.done && data.callId) watched.delete(data.callId)
    } else if (type === WATCHED) {
      const { turn, callId, snapshot, notes = [] } = data
      if (snapshot) watched.set(callId, { turn, snapshot })
      if (later) for (const note of notes) notices.add(`turn ${turn}: ${note}`)
    }
  }
  const paths = [...targets].map(([path, state]): PutBackTarget => {
    const now = known.get(path)
    return { path, target: state, ...(now ? { known: now } : {}) }
  })
  return { targets: paths, cutOff: [...watched.values()].at(-1), notices: [...notices] }
}

type Told = Pick<SessionEvent<typeof KEPT | typeof LEFT | typeof WATCHED>, 'type' | 'data'> & { readonly later: boolean }

function* inOrder(events: readonly Logged[], journal: readonly JournalEvent[], seq: number): Generator<Told> {
  let next = 0
  const upTo = function* (at: number): Generator<Told> {
    for (let entry = journal[next]; entry && entry.at <= at; entry = journal[++next]) {
      if (isSound(entry)) yield { ...entry, later: entry.at > seq }
    }
  }
  for (const event of events) {
    yield* upTo(event.seq)
    if (isSound(event)) yield { ...event, later: event.seq > seq }
  }
  yield* upTo(Number.POSITIVE_INFINITY)
}

function isSound(event: Pick<Logged, 'type' | 'data'>): event is Told {
  const data = event.data as { files?: unknown; callId?: unknown } | null
  if (event.type === WATCHED) return typeof data?.callId === 'string'
  if (event.type !== KEPT && event.type !== LEFT) return false
  return Array.isArray(data?.files) && data.files.every(file => typeof file?.path === 'string' && typeof file.kind === 'string')
}

/** Contents that the events refer to, those of the latest turn last. */
export function contentsOf(events: readonly Logged[]): string[] {
  const last = new Set<string>()
  for (const event of events) {
    if (!isSound(event) || event.type !== KEPT) continue
    for (const file of event.data.files) {
      if (file.kind !== 'file') continue
      last.delete(file.hash)
      last.add(file.hash)
    }
  }
  return [...last]
}
