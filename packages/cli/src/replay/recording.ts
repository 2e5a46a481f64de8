/** A stored session as a replay goes by it: its turns, and what came into each from outside. */

import type { UserMessage } from '@cambium/llm'
import {
  type InboxTarget,
  isIntact,
  type SessionEvent,
  type TurnEndReason,
  type TurnOutline,
  turnsOf,
} from '@cambium/session'
import { usageError } from '../flags.ts'

export interface RecordedInput {
  readonly message: UserMessage
  /** Whoever talks to the agent gave it; what its own plugins gave must come again by itself. */
  readonly given: boolean
  /** It waited for a turn of its own. */
  readonly target: InboxTarget
}

export interface RecordedTurn {
  readonly turn: number
  readonly from: number
  readonly to: number
  readonly reason: TurnEndReason
  /** What each step took in, by its number. */
  readonly inputs: ReadonlyMap<number, readonly RecordedInput[]>
  readonly steps: number
  /** Somebody or something broke it off: nothing in the conversation says when. */
  readonly brokenOff: boolean
  /** Ends with a step that had calls, though nothing was wrong: one of them concluded the turn. */
  readonly concluded: boolean
  readonly events: readonly SessionEvent[]
}

export interface Recording {
  readonly events: readonly SessionEvent[]
  readonly turns: readonly RecordedTurn[]
  /** Turns that never ended. */
  readonly open: number
}

export function readRecording(events: readonly SessionEvent[]): Recording {
  const inputs = inputsOf(events)
  const outlines = turnsOf(events)
  const turns = outlines.flatMap(outline => {
    const { turn, from, to, reason } = outline
    if (to === undefined || !reason) return []
    const own = events.slice(from, to + 1)
    const steps = own.filter(({ type }) => type === 'step/start').length
    const brokenOff = isBrokenOff(own, reason)
    const concluded = reason.kind === 'completed' && endsWithCalls(own)
    return [
      { ...pick(outline), to, reason, inputs: inputs.get(turn) ?? new Map(), steps, brokenOff, concluded, events: own },
    ]
  })
  return { events, turns, open: outlines.length - turns.length }
}

/** All of them, or those of one number. @throws `CLI_USAGE` for one that is not there */
export function turnsToReplay({ turns }: Recording, turn: number | undefined): readonly RecordedTurn[] {
  if (turn === undefined) return turns
  const found = turns.filter(one => one.turn === turn)
  if (found.length) return found
  const numbers = turns.map(one => one.turn)
  throw usageError(
    `the session has no turn ${turn} that has ended`,
    numbers.length ? `name one from ${numbers[0]} to ${numbers.at(-1)}` : 'it has none at all',
  )
}

const pick = ({ turn, from }: TurnOutline) => ({ turn, from })

function inputsOf(events: readonly SessionEvent[]): Map<number, Map<number, RecordedInput[]>> {
  const arrived = new Map<string, { target: InboxTarget; turn: number; step: number }>()
  const turns = new Map<number, Map<number, RecordedInput[]>>()
  let turn = 0
  let step = 0
  for (const event of events) {
    if (!isIntact(event)) continue
    switch (event.type) {
      case 'turn/start':
        turn = event.data.turn
        step = 0
        turns.set(turn, new Map())
        break
      case 'turn/end':
        turn = 0
        step = 0
        break
      case 'step/start':
        step = event.data.step
        turns.get(turn)?.set(step, [])
        break
      case 'step/end':
        step = 0
        break
      case 'inbox/changed':
        for (const { target, message } of event.data.inserted ?? []) arrived.set(message.id, { target, turn, step })
        break
      case 'user/message': {
        const { message } = event.data
        const from = arrived.get(message.id)
        // During a step it is what a tool's code wanted to be read, and that code does not run.
        const outside = message.source.kind !== 'plugin' || (from !== undefined && (!from.turn || from.step > 0))
        const target = from?.target ?? 'next-step'
        turns.get(turn)?.get(step)?.push({ message, given: outside, target })
      }
    }
  }
  return turns
}

function isBrokenOff(events: readonly SessionEvent[], reason: TurnEndReason): boolean {
  if (reason.kind === 'aborted' || reason.kind === 'interrupted') return true
  // By a timer: had the budget let the model sum up, there would be its notice.
  return reason.kind === 'limit' && !events.some(isWrapUp)
}

function isWrapUp(event: SessionEvent): boolean {
  if (event.type !== 'user/message' || !isIntact(event)) return false
  const { source } = event.data.message
  return source.kind === 'plugin' && source.plugin === 'agent-loop'
}

function endsWithCalls(events: readonly SessionEvent[]): boolean {
  const last = events.findLast(event => event.type === 'assistant/message' && isIntact(event))
  return last?.type === 'assistant/message' && last.data.message.content.some(({ type }) => type === 'tool-call')
}
