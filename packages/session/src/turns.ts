/** The turns of a log: where each begins and ends, and what it was asked. For lists, forks and rewinding. */

import { isIntact } from './core-types.ts'
import type { SessionEvent, TurnEndReason } from './event.ts'

export interface TurnOutline {
  readonly turn: number
  /** Seq of its `turn/start`: a fork up to the event before it goes back to before the turn. */
  readonly from: number
  /** Seq of its `turn/end`; absent while it is open. */
  readonly to?: number
  /** Of its start, in milliseconds since the epoch. */
  readonly time: number
  readonly reason?: TurnEndReason
  /** What a person said in it, in order: what opened it and what was steered. */
  readonly prompts: readonly TurnPrompt[]
  /** Requests that were answered. */
  readonly steps: number
}

export interface TurnPrompt {
  readonly seq: number
  readonly messageId: string
  readonly text: string
}

/** A pure fold: the same events give the same turns. Events with broken data are left out. */
export function turnsOf(events: readonly SessionEvent[]): TurnOutline[] {
  const turns: TurnOutline[] = []
  let open: { -readonly [K in keyof TurnOutline]: TurnOutline[K] } | undefined
  for (const event of events) {
    if (!isIntact(event)) continue
    const { seq, time } = event
    switch (event.type) {
      case 'turn/start':
        open = { turn: event.data.turn, from: seq, time, prompts: [], steps: 0 }
        turns.push(open)
        break
      case 'user/message': {
        const { id, source, content } = event.data.message
        if (!open || source.kind !== 'user') break
        const text = content.flatMap(block => (block.type === 'text' ? [block.text] : [])).join('\n')
        open.prompts = [...open.prompts, { seq, messageId: id, text }]
        break
      }
      case 'assistant/message':
        if (open) open.steps++
        break
      case 'turn/end':
        if (!open) break
        open.to = seq
        open.reason = event.data.reason
        open = undefined
    }
  }
  return turns
}
