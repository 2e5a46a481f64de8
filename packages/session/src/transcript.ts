/** What a person reads: everything that was said, whatever the model's surface has lost since. */

import type { Message } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type { SessionEvent } from './event.ts'

export type TranscriptEntry =
  | {
      readonly kind: 'message'
      readonly seq: number
      readonly time: number
      /** The turn it belongs to; 0 before the first. */
      readonly turn: number
      readonly message: Message
      /** What was visible when the answer was cut off. */
      readonly interrupted?: true
      /** Set for a tool's answer that is an error. */
      readonly error?: { readonly code: string; readonly message: string }
    }
  /** From here on the model reads `message` in place of the entries from `from` to `to`, which stay above. */
  | {
      readonly kind: 'replaced'
      readonly seq: number
      readonly time: number
      readonly from: number
      readonly to: number
      readonly message: Message
    }

/** A pure fold: the same events give the same transcript. Events with broken data are left out. */
export function transcript(events: readonly SessionEvent[]): TranscriptEntry[] {
  const entries: TranscriptEntry[] = []
  let turn = 0
  for (const event of events) {
    if (problemOf(event.type, event.data)) continue
    const { seq, time } = event
    switch (event.type) {
      case 'turn/start':
        turn = event.data.turn
        break
      case 'user/message':
        entries.push({ kind: 'message', seq, time, turn, message: event.data.message })
        break
      case 'assistant/message': {
        const { message, interrupted } = event.data
        if (message.content.length) {
          entries.push({ kind: 'message', seq, time, turn, message, ...(interrupted ? { interrupted } : {}) })
        }
        break
      }
      case 'tool/result': {
        const { message, error } = event.data
        entries.push({ kind: 'message', seq, time, turn, message, ...(error ? { error } : {}) })
        break
      }
      case 'context/replaced':
        entries.push({ kind: 'replaced', seq, time, ...event.data })
    }
  }
  return entries
}
