/** Puts a session's files back to what they were at a point of its log, and keeps what they are until then. */

import { HarnessError } from '@cambium/core'
import type { FileHistory, PathState, PutBackTarget } from '@cambium/machine/checkpoint'
import type { Session, SessionEvent, SessionId, Sessions } from '@cambium/session'
import { inPieces, KEPT, LEFT } from './events.ts'
import { addToJournal, type JournalEvent, journalOf, readJournal } from './journal.ts'
import { type CutOff, pastAt } from './past.ts'

export interface RestoreOptions {
  /** Says what would be done and does nothing. */
  readonly dryRun?: boolean
  /** Also files that somebody else has changed since; what they are now is kept. */
  readonly force?: boolean
  /** Stops between two files. */
  readonly signal?: AbortSignal
}

/** Paths from the session's working directory, or absolute where they lie outside. */
export interface RestoreReport {
  /** Written, linked, or given their mode back. */
  readonly restored: string[]
  readonly removed: string[]
  /** Left as they are, and why. */
  readonly conflicts: { path: string; why: string }[]
  /** Left as they are, because what they were is not kept. */
  readonly unknown: string[]
  /** In words: why something is unknown, and what was not looked at in the turns that are undone. */
  readonly notices: string[]
}

export interface RestoreSource {
  readonly id: SessionId
  readonly events: readonly SessionEvent[]
  readonly history: FileHistory
  /** Set when the session is open in this process: what is done is logged there. */
  readonly live: Session | undefined
}

export async function restore(
  sessions: Sessions,
  { id, events, history, live }: RestoreSource,
  seq: number,
  options: RestoreOptions,
): Promise<RestoreReport> {
  if (!Number.isInteger(seq) || seq < -1 || seq >= Math.max(events.length, 1)) {
    throw new HarnessError('CHECKPOINT_SEQ_INVALID', `session ${id} has no event ${seq} to put files back to`, {
      fix: events.length ? `take a number from -1 to ${events.length - 1}` : 'nothing has happened in it',
    })
  }
  options.signal?.throwIfAborted()
  const journalPath = journalOf(history)
  const past = pastAt(events, readJournal(journalPath), seq)
  const { targets, notices } = await withCutOff(history, past.targets, past.cutOff, seq)
  notices.unshift(...past.notices)

  const log = async (entries: readonly Omit<JournalEvent, 'at'>[]) => {
    if (!live)
      return addToJournal(
        journalPath,
        entries.map(entry => ({ ...entry, at: events.length }) as JournalEvent),
      )
    for (const { type, data } of entries) live.append(type, data)
    await sessions.flush(live)
  }
  const before = (files: readonly PathState[]) =>
    log(inPieces(files.map(flat)).map(files => ({ type: KEPT, data: { turn: 0, files, restores: seq } })))
  const { after, reasons, ...report } = await history.restore(targets, { ...options, before })
  if (after.length) await log(inPieces(after.map(flat)).map(files => ({ type: LEFT, data: { turn: 0, files } })))
  return { ...report, notices: [...notices, ...report.unknown.map((path, at) => `${path}: ${reasons[at]}`)] }
}

const flat = ({ path, state }: PathState) => ({ path, ...state })

/** A command that was cut off with its process has changed what is different from the snapshot before it. */
async function withCutOff(
  history: FileHistory,
  targets: PutBackTarget[],
  cutOff: CutOff | undefined,
  seq: number,
): Promise<{ targets: PutBackTarget[]; notices: string[] }> {
  if (!cutOff || cutOff.seq <= seq) return { targets, notices: [] }
  if (!(await history.recall(cutOff.snapshot))) {
    return { targets, notices: [`turn ${cutOff.turn}: what a command changed that was cut off is not known`] }
  }
  const all = new Map(targets.map(target => [target.path, target]))
  const { changes, notes } = await history.changes(path => !all.has(path))
  for (const { path, before, after } of changes) {
    const target = all.get(path)?.target ?? before
    if (target) all.set(path, { path, target, known: after })
  }
  return { targets: [...all.values()], notices: [...notes] }
}
