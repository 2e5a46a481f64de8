/** Messages an agent has received and not yet admitted. The log is the truth; this is its fold, kept up to date. */

import type { MessageId, UserMessage } from '@cambium/llm'
import { type InboxTarget, pendingInbox, type Session } from '@cambium/session'

interface Item {
  readonly target: InboxTarget
  readonly message: UserMessage
  /** Opens a turn by itself. Not logged: what a crash left pending waits for somebody to speak. */
  wakes: boolean
  /** A step with it did not admit it: after a failure it is tried again with the next waking message, once rejected
   * only when it is delivered again. */
  held: Held | undefined
}

export type Held = 'failed' | 'rejected'

export interface Delivery {
  readonly target: InboxTarget
  readonly wakes: boolean
}

export class Inbox {
  private readonly items = new Map<MessageId, Item>()
  private readonly session: Session

  /** Picks up what the log says is pending. A fork starts empty: what its parent had received stays the parent's. */
  constructor(session: Session) {
    this.session = session
    for (const { target, message } of pendingInbox(session.events(session.header.parent?.events ?? 0))) {
      this.items.set(message.id, { target, message, wakes: false, held: undefined })
    }
  }

  /** Logs the message as received. A message that is pending already is only woken: its step may be tried again. */
  insert(message: UserMessage, { target, wakes }: Delivery): void {
    const known = this.items.get(message.id)
    if (known) {
      known.wakes ||= wakes
      known.held = undefined
      return
    }
    const event = this.session.append('inbox/changed', { inserted: [{ target, message }] })
    const logged = event.data.inserted?.[0]?.message ?? message
    this.items.set(message.id, { target, message: logged, wakes, held: undefined })
  }

  /** Everything pending, in order of arrival. */
  list(): UserMessage[] {
    return [...this.items.values()].map(item => item.message)
  }

  /** True when something pending opens a turn. */
  get wakes(): boolean {
    return this.some(item => item.wakes)
  }

  /** True when the running turn has more to say to the model; after `concluded`, only what was steered counts. */
  hasNextStep(concluded: boolean): boolean {
    return this.some(item => item.target === 'next-step' && (!concluded || item.wakes))
  }

  /**
   * What the next step would admit, in order of arrival: all that waits for a step, and for a turn's first step one
   * message that waits for a turn. Nothing is taken: `user/message` does that, by `admitted`.
   */
  peek(first: boolean): UserMessage[] {
    let turns = first ? 1 : 0
    return [...this.items.values()]
      .filter(item => !item.held && (item.target === 'next-step' || turns-- > 0))
      .map(item => item.message)
  }

  /** A step enters with `messages`: what it was offered beside them is withdrawn, on the record. */
  decline(offered: readonly UserMessage[], messages: readonly UserMessage[]): void {
    const entering = new Set(messages.map(({ id }) => id))
    const withdrawn = offered.map(({ id }) => id).filter(id => this.items.has(id) && !entering.has(id))
    if (!withdrawn.length) return
    this.session.append('inbox/changed', { withdrawn })
    for (const id of withdrawn) this.items.delete(id)
  }

  /** The messages are in the conversation now. */
  admitted(messages: readonly UserMessage[]): void {
    for (const { id } of messages) this.items.delete(id)
  }

  /** Those that are still pending stay so, and later steps pass them over. */
  hold(messages: readonly UserMessage[], held: Held): void {
    for (const { id } of messages) {
      const item = this.items.get(id)
      if (item) item.held ??= held
    }
  }

  /** Lets what failed be tried again. */
  release(): void {
    for (const item of this.items.values()) if (item.held === 'failed') item.held = undefined
  }

  /** Withdraws everything pending, on the record. */
  clear(): void {
    if (!this.items.size) return
    this.session.append('inbox/changed', { withdrawn: [...this.items.keys()] })
    this.items.clear()
  }

  private some(test: (item: Item) => boolean): boolean {
    for (const item of this.items.values()) if (!item.held && test(item)) return true
    return false
  }
}
