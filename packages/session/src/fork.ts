/** What a child session starts with: its parent's log up to a point outside every turn. */

import { HarnessError } from '@cambium/core'
import type { SessionEvent, SessionId } from './event.ts'
import { firstWords } from './first-words.ts'
import { pendingInbox } from './inbox.ts'
import { type EventDraft, interruptedClosers } from './repair.ts'
import { lastBoundary, openTurnOf } from './seed.ts'
import { type TurnOutline, turnsOf } from './turns.ts'

export interface ForkPoint {
  /** The last event taken over, or -1. */
  readonly seq: number
  /** The log is damaged there: the end of a turn that others follow is lost, and is made up for in the child. */
  readonly mend?: true
}

/** @throws `SESSION_FORK_INVALID`, `SESSION_OPEN_TURN` */
export function pointOfSeq(parent: SessionId, events: readonly SessionEvent[], seq: number): ForkPoint {
  if (!Number.isInteger(seq) || seq < -1 || seq >= events.length) {
    throw new HarnessError('SESSION_FORK_INVALID', `session ${parent} has no event ${seq} to fork after`, {
      fix: events.length ? `take a number from 0 to ${events.length - 1}` : 'an empty session has nothing to fork',
    })
  }
  const open = openTurnOf(events.slice(0, seq + 1))
  if (!open) return { seq }
  throw new HarnessError('SESSION_OPEN_TURN', `event ${seq} of session ${parent} lies inside turn ${open}`, {
    fix: 'fork after a turn/end, or wait until the turn has ended',
  })
}

/** The end of a turn. @throws `SESSION_TURN_UNKNOWN`, `SESSION_OPEN_TURN` */
export function pointOfTurn(parent: SessionId, events: readonly SessionEvent[], turn: number): ForkPoint {
  const turns = turnsOf(events)
  const at = turns.findLastIndex(outline => outline.turn === turn)
  const found = turns[at]
  if (!found) throw unknownTurn(parent, turns, turn)
  if (found.to !== undefined) return { seq: found.to }
  const next = turns[at + 1]
  if (next) return { seq: next.from - 1, mend: true }
  throw new HarnessError('SESSION_OPEN_TURN', `turn ${turn} of session ${parent} has not ended`, {
    fix: turn > 1 ? `fork after turn ${turn - 1}, or when it has ended` : 'wait until it has ended',
  })
}

/** Where a turn begins, and what comes before it stays. */
export function pointBefore(events: readonly SessionEvent[], { from }: TurnOutline): ForkPoint {
  const open = openTurnOf(events.slice(0, from)) !== undefined
  return { seq: from - 1, ...(open ? { mend: true } : {}) }
}

/** The end of a live parent, or the last place outside every turn of a stored one. */
export function pointOfEnd(parent: SessionId, events: readonly SessionEvent[], live: boolean): ForkPoint {
  return live ? pointOfSeq(parent, events, events.length - 1) : { seq: lastBoundary(events) }
}

/** The child's events. What was waiting in the parent's inbox is withdrawn; its title goes along. */
export function childEvents(events: readonly SessionEvent[], { seq, mend }: ForkPoint): SessionEvent[] {
  const child = events.slice(0, seq + 1)
  const add = ({ type, data, time }: EventDraft) => {
    child.push({ seq: child.length, time, type, data } as SessionEvent)
  }
  if (mend) for (const draft of interruptedClosers(child)) add(draft)
  const time = child.at(-1)?.time ?? events[0]?.time ?? 0
  const pending = pendingInbox(child)
  if (pending.length) {
    // What waits in the parent is the parent's to answer.
    add({ type: 'inbox/changed', time, data: { withdrawn: pending.map(({ message }) => message.id) } })
  }
  const title = lastTitle(events)
  // First words are no longer those of a child that has lost the prompt.
  if (title && title.seq > seq && title.data.by !== 'prompt') add({ ...title, time } as unknown as EventDraft)
  return child
}

/** Its type is a plugin's, which need not be mounted for a title to go along. */
interface TitleEvent {
  readonly seq: number
  readonly type: 'session/title'
  readonly data: { readonly by?: unknown }
}

function lastTitle(events: readonly { readonly type: string; readonly data: unknown }[]): TitleEvent | undefined {
  const found = events.findLast(
    ({ type, data }) => type === 'session/title' && typeof data === 'object' && data !== null,
  )
  return found as TitleEvent | undefined
}

/** Told with the last ones that there are. */
const NAMED = 8
const NAME_CHARS = 40

export function unknownTurn(parent: SessionId, turns: readonly TurnOutline[], wanted: unknown): HarnessError {
  return new HarnessError('SESSION_TURN_UNKNOWN', `session ${parent} has no turn ${String(wanted)}`, {
    fix: namesOf(turns),
  })
}

/** The turns that can be taken, by their first words. */
export function namesOf(turns: readonly TurnOutline[]): string {
  if (!turns.length) return 'nothing has been asked in it yet'
  const shown = turns.slice(-NAMED).map(({ turn, prompts: [first] }) => {
    return first?.text.trim() ? `${turn} "${firstWords(first.text, NAME_CHARS)}"` : String(turn)
  })
  const more = turns.length > NAMED ? `1 to ${turns.at(-1)!.turn}, the last ones: ` : 'one of '
  return `take ${more}${shown.join(', ')}`
}
