/** What drives an agent: the seam between an agent, which has an inbox and a state, and the loop, which is a plugin. */

import type { LlmCallConfig } from '@cambium/llm'
import type { Agent } from '@cambium/tools'
import type { Inbox } from './inbox.ts'

/** An agent as its driver sees it. */
export interface DrivenAgent extends Agent {
  readonly inbox: Inbox
  readonly config: LlmCallConfig
  /** Resolves when `agent/session-start` has been told; the first call tells it. */
  started(signal: AbortSignal): Promise<void>
}

export interface Driver {
  /** Runs one turn, from `turn/start` to `turn/end`. Must not throw: what it leaves of its input is then put aside. */
  turn(agent: DrivenAgent, signal: AbortSignal): Promise<void>
  /** What an agent uses that was told nothing: `provider/model`, a provider or `auto`. */
  readonly model: string
}
