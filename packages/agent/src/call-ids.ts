/** Ids of calls that a session has had and its messages no longer hold, since a part of them was replaced. */

import { isIntact, type Session } from '@cambium/session'

export class CallIds {
  private readonly known = new WeakMap<Session, { next: number; readonly ids: Set<string> }>()

  /** What `ctx.llm` must know besides the messages: nothing, as long as those are all that was ever said. */
  notIn(session: Session): { takenCallIds?: ReadonlySet<string> } {
    if (!session.replacements) return {}
    const found = this.known.get(session) ?? { next: 0, ids: new Set<string>() }
    this.known.set(session, found)
    for (const event of session.events(found.next)) {
      if (event.type !== 'assistant/message' || !isIntact(event)) continue
      for (const block of event.data.message.content) if (block.type === 'tool-call') found.ids.add(block.id)
    }
    found.next = session.seq
    return { takenCallIds: found.ids }
  }
}
