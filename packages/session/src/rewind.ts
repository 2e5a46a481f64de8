/** Taking a message back: where the log has to end so that it can be said anew, and what it said. */

import { HarnessError } from '@cambium/core'
import type { UserMessage } from '@cambium/llm'
import { isIntact } from './core-types.ts'
import type { SessionEvent, SessionId } from './event.ts'
import { firstWords } from './first-words.ts'
import { type ForkPoint, namesOf, pointBefore, unknownTurn } from './fork.ts'
import type { Session } from './session.ts'
import { type TurnOutline, type TurnPrompt, turnsOf } from './turns.ts'

/** A turn stands for the message that opened it. */
export type RewindTarget = { readonly turn: number } | { readonly messageId: string }

export interface RewindPoint extends ForkPoint {
  /** The first turn that is taken back; `seq` is the last event before it. */
  readonly turn: number
  /** What it said, blocks and all. Absent for a turn that no message has entered. */
  readonly message?: UserMessage
  /** A message that was steered into a running turn takes these back as well: what a person said in it before. */
  readonly earlier: readonly TurnPrompt[]
}

export interface Rewound extends Omit<RewindPoint, 'seq' | 'mend'> {
  readonly session: Session
}

/** Pure; `ctx.sessions.rewind` goes by it. @throws `SESSION_TURN_UNKNOWN`, `SESSION_MESSAGE_UNKNOWN` */
export function rewindPoint(id: SessionId, events: readonly SessionEvent[], to: RewindTarget): RewindPoint {
  const turns = turnsOf(events)
  const at = 'turn' in to ? entryOf(id, events, turns, to.turn) : placeOf(id, events, turns, to.messageId)
  const { outline, event } = at
  const earlier = event ? outline.prompts.filter(({ seq }) => seq < event.seq) : []
  return {
    ...pointBefore(events, outline),
    turn: outline.turn,
    ...(event ? { message: event.data.message } : {}),
    earlier,
  }
}

interface Place {
  readonly outline: TurnOutline
  readonly event: SessionEvent<'user/message'> | undefined
}

/** What a person said first in it, or, where nobody did, what opened it. */
function entryOf(id: SessionId, events: readonly SessionEvent[], turns: readonly TurnOutline[], turn: number): Place {
  const outline = turns.findLast(found => found.turn === turn)
  if (!outline) throw unknownTurn(id, turns, turn)
  const [first] = outline.prompts
  const end = turns[turns.indexOf(outline) + 1]?.from ?? events.length
  const event = first ? events[first.seq] : events.slice(outline.from, end).find(isMessage)
  return { outline, event: event && isMessage(event) ? event : undefined }
}

function placeOf(
  id: SessionId,
  events: readonly SessionEvent[],
  turns: readonly TurnOutline[],
  messageId: string,
): Place {
  const event = events.findLast(
    (event): event is SessionEvent<'user/message'> => isMessage(event) && event.data.message.id === messageId,
  )
  const outline = event && turns.findLast(({ from, to }) => from < event.seq && (to === undefined || event.seq < to))
  if (outline) return { outline, event }
  throw new HarnessError(
    'SESSION_MESSAGE_UNKNOWN',
    `no turn of session ${id} has the message ${firstWords(messageId, 40)}`,
    {
      fix: namesOf(turns),
    },
  )
}

function isMessage(event: SessionEvent): event is SessionEvent<'user/message'> {
  return event.type === 'user/message' && isIntact(event)
}
