/** Which messages were received and still wait, as the log tells it. */

import type { UserMessage } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type { InboxTarget, SessionEvent } from './event.ts'

export interface PendingMessage {
  readonly target: InboxTarget
  readonly message: UserMessage
}

/** A pure fold: inserted, and neither admitted nor withdrawn since; in the order received. */
export function pendingInbox(events: readonly SessionEvent[]): PendingMessage[] {
  const pending = new Map<string, PendingMessage>()
  for (const event of events) {
    if (problemOf(event.type, event.data)) continue
    if (event.type === 'user/message') pending.delete(event.data.message.id)
    else if (event.type === 'inbox/changed') {
      for (const entry of event.data.inserted ?? []) pending.set(entry.message.id, entry)
      for (const id of event.data.withdrawn ?? []) pending.delete(id)
    }
  }
  return [...pending.values()]
}
