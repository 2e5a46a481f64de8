/** What files were at a point of a log: a pure fold of its events. */

import type { FileState, PutBackTarget } from '@cambium/machine/checkpoint'
import type { SessionEvent } from '@cambium/session'
import { KEPT, type KeptFile, LEFT, type LeftFile, stateOf, WATCHED } from './events.ts'
import type { JournalEvent } from './journal.ts'

export interface Past {
  readonly targets: PutBackTarget[]
  /** A command whose end the log does not know: what it has changed shows in comparing with that snapshot. */
  readonly cutOff: CutOff | undefined
  /** What is not known, in words. */
  readonly notices: string[]
}

export interface CutOff {
  readonly turn: number
  readonly callId: string
  readonly snapshot: string
  /** Of its beginning. */
  readonly seq: number
}

type Logged = Pick<SessionEvent, 'type' | 'data' | 'seq'>

/** `seq` -1 is the beginning. Events of other types and broken ones are passed over. */
export function pastAt(events: readonly Logged[], journal: readonly JournalEvent[], seq: number): Past {
  const targets = new Map<string, FileState>()
  const before = new Map<string, FileState>()
  const known = new Map<string, FileState | undefined>()
  const notices = new Set<string>()
  const names = new FileNames()
  const watched = new Map<string, CutOff>()

  const target = (path: string, state: FileState | undefined) => {
    if (!targets.has(path))
      targets.set(path, state ?? { kind: 'unknown', why: 'only its state before the turn is kept' })
  }
  /** `within`: between two looks, so that what it was at that point is not known. */
  const kept = (files: readonly KeptFile[], later: boolean, within: boolean) => {
    for (const file of files) {
      for (const path of names.of(file)) {
        if (within) target(path, undefined)
        else if (later) target(path, file.kind === 'again' ? before.get(path) : stateOf(file))
        else before.delete(path)
        known.set(path, undefined)
      }
    }
  }
  const left = (files: readonly LeftFile[], later: boolean, within: boolean) => {
    for (const file of files) {
      for (const path of names.of(file)) {
        if (within) target(path, undefined)
        else if (later) target(path, before.get(path))
        else before.set(path, stateOf(file))
        known.set(path, stateOf(file))
      }
    }
  }

  for (const event of inOrder(events, journal)) {
    const later = event.at > seq
    const start = event.data.callId === undefined ? undefined : watched.get(event.data.callId)
    const within = later && start !== undefined && start.seq <= seq
    if (event.type === KEPT) kept(event.data.files, later, within)
    else if (event.type === LEFT) {
      left(event.data.files, later, within)
      if (later) for (const note of event.data.notes ?? []) notices.add(`turn ${event.data.turn}: ${note}`)
      if (event.data.done && event.data.callId) watched.delete(event.data.callId)
    } else {
      const { turn, callId, snapshot, notes = [] } = event.data
      if (snapshot) watched.set(callId, { turn, callId, snapshot, seq: event.at })
      if (later) for (const note of notes) notices.add(`turn ${turn}: ${note}`)
    }
  }
  const paths = [...targets].map(([path, state]): PutBackTarget => {
    const now = known.get(path)
    return { path, target: state, ...(now ? { known: now } : {}) }
  })
  return { targets: paths, cutOff: [...watched.values()].at(-1), notices: [...notices] }
}

type FileEvent = {
  [K in typeof KEPT | typeof LEFT | typeof WATCHED]: Pick<SessionEvent<K>, 'type' | 'data'>
}[typeof KEPT | typeof LEFT | typeof WATCHED]

/** The event that it counts as coming with, or, half a step later, after. */
type Told = FileEvent & { readonly at: number }

function inOrder(events: readonly Logged[], journal: readonly JournalEvent[]): Told[] {
  const told: Told[] = []
  for (const event of events) {
    const sound = soundOf(event)
    const since = sound && sound.type !== WATCHED ? sound.data.since : undefined
    if (sound) told.push({ ...sound, at: since === undefined ? event.seq : since + 0.5 })
  }
  for (const entry of journal) {
    const sound = soundOf(entry)
    if (sound) told.push({ ...sound, at: entry.at - 0.5 })
  }
  // The sort is stable: entries of the same place stay in their order.
  return told.sort((a, b) => a.at - b.at)
}

function soundOf({ type, data }: Pick<Logged, 'type' | 'data'>): FileEvent | undefined {
  const { files, callId } = (data ?? {}) as { files?: unknown; callId?: unknown }
  if (type === WATCHED) return typeof callId === 'string' ? ({ type, data } as FileEvent) : undefined
  if (type !== KEPT && type !== LEFT) return undefined
  const sound =
    Array.isArray(files) && files.every(file => typeof file?.path === 'string' && typeof file.kind === 'string')
  return sound ? ({ type, data } as FileEvent) : undefined
}

/** Names that the log knows for one file: what changes it under one of them changes it under all. */
class FileNames {
  private readonly inodes = new Map<string, number>()
  private readonly paths = new Map<number, Set<string>>()

  /** The path, and its other names by what was last told of them. */
  of(file: KeptFile): string[] {
    const { path } = file
    const former = this.inodes.get(path)
    const inode = file.kind === 'file' ? file.inode : file.kind === 'again' ? former : undefined
    if (inode !== former) {
      if (former !== undefined) this.paths.get(former)?.delete(path)
      this.inodes.delete(path)
    }
    if (inode === undefined) return [path]
    this.inodes.set(path, inode)
    const paths = this.paths.get(inode) ?? new Set()
    this.paths.set(inode, paths.add(path))
    return [path, ...[...paths].filter(other => other !== path)]
  }
}

/** Contents that the events refer to, those of the latest turn last. */
export function contentsOf(events: readonly Logged[]): string[] {
  const last = new Set<string>()
  for (const event of events) {
    const sound = soundOf(event)
    if (sound?.type !== KEPT) continue
    for (const file of sound.data.files) {
      if (file.kind !== 'file') continue
      last.delete(file.hash)
      last.add(file.hash)
    }
  }
  return [...last]
}
