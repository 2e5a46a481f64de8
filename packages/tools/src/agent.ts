/** What everybody may do with an agent. Declared here, where calls first need it; `agent` implements it. */

import type { Context } from '@cambium/core'
import type { LlmCallConfig, MessageId, UserMessage } from '@cambium/llm'
import type { Session, SessionId } from '@cambium/session'

export interface CancelCause {
  /** `limit`: a budget ran out; the turn then ends by reason `limit`. */
  readonly by: 'user' | 'parent' | 'hook' | 'limit' | 'disposed'
  readonly reason?: string
}

export interface Agent {
  /** The session's id. */
  readonly id: SessionId
  readonly session: Session
  /** The agent's scope: what is registered through it is this agent's alone and leaves with it. */
  readonly ctx: Context
  readonly status: 'idle' | 'running'
  /** Queues a message for a turn of its own and wakes the agent. Logged before it returns; the id is the receipt. */
  followup(message: UserMessage): MessageId
  /** Hands a message to the next step and wakes the agent. */
  steer(message: UserMessage): MessageId
  /** Adds context to the next step without waking the agent. */
  inject(message: UserMessage): MessageId
  /** Ends the turn at its next safe point and, unless `keepInbox`, withdraws what is queued. The first cause wins. */
  cancel(cause: CancelCause, options?: { keepInbox?: boolean }): void
  /** Resolves when nothing runs and nothing that wakes is queued; says nothing about any one message. */
  whenIdle(): Promise<void>
  /** Messages received and not yet admitted, in the order they will be. */
  pending(): readonly UserMessage[]
  /** What the next request will be made with. */
  readonly config: LlmCallConfig | undefined
  /** Chooses the model from the next request on: `provider/model`, a provider or `auto`. Logged. @throws as `ctx.llm.resolve` */
  selectModel(selection: string): Promise<void>
}
