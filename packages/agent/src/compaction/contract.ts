/** `ctx.compaction`, and what its runs leave in the log. */

import type { LlmCallConfig, Message, Route, TokenUsage, ToolSchema, UserBlock } from '@cambium/llm'
import type { Agent } from '@cambium/tools'

/** Why a conversation is made shorter: it nears the limit, a provider said that it is too long, or somebody asked. */
export type CompactionReason = 'pressure' | 'overflow' | 'manual'

/** What was done, from the mildest to the last resort, which asks no model. */
export type CompactionTier = 'results' | 'reasoning' | 'summary' | 'digest'

export interface CompactionResult {
  /** What was done; absent where nothing was, and `why` says the reason in words. */
  readonly tier?: CompactionTier
  readonly why?: string
  /** Tokens of the next request, before and now. */
  readonly before: number
  readonly after: number
}

export interface Compaction {
  /**
   * Sums the older part of an idle agent's conversation up, whatever its size.
   * @throws `COMPACTION_BUSY` while a turn or another compaction runs, `COMPACTION_FAILED` with the conversation as it was,
   * `COMPACTION_CANCELLED`
   */
  compact(
    agent: Agent,
    options?: {
      /** What the summary is to keep above all, in a person's words. */
      focus?: string
      signal?: AbortSignal
    },
  ): Promise<CompactionResult>
  /** Whether a compaction of the agent's session is under way. */
  running(agent: Agent): boolean
}

/** How long a conversation may be, as it was found out by a refusal. */
export interface LearnedWindow {
  readonly tokens: number
  /** The provider named its window; otherwise it is the size of a request that was refused. */
  readonly exact: boolean
}

/** What a request of the summariser cost. */
export interface SpentOnCompaction extends Route {
  readonly usage: TokenUsage
}

declare module '@cambium/llm' {
  interface MessageSources {
    /**
     * Stands for what was said before. `pinned`: the ids of what a person said and it repeats; `of`: the one message that
     * it shortens.
     */
    compaction: {
      readonly form: 'summary' | 'digest' | 'shortened'
      readonly pinned?: readonly string[]
      readonly of?: string
    }
  }
}

declare module '@cambium/session' {
  interface SessionEventMap {
    /** A compaction began. One without an end was cut off with its process and counts for nothing. */
    'compaction/started': {
      readonly id: string
      readonly reason: CompactionReason
      readonly provider: string
      readonly model: string
      /** Tokens of the next request. */
      readonly before: number
      /** Tokens that the next request may have; absent where the model's window is not known. */
      readonly limit?: number
      readonly focus?: string
      /** What the refusal that led to it tells of the model. */
      readonly learned?: LearnedWindow
    }
    'compaction/ended': {
      readonly id: string
      readonly tier?: CompactionTier
      readonly before: number
      readonly after: number
      /** The next request is short enough, as far as can be told. */
      readonly fits: boolean
      /** Why the summary failed, also where something else was done in its place. */
      readonly error?: { readonly code: string; readonly message: string }
      readonly aborted?: true
      readonly spent?: readonly SpentOnCompaction[]
    }
  }
}

declare module 'cordis' {
  interface Context {
    /** Keeps a conversation short enough for its model: by itself, and when asked. */
    compaction: Compaction
  }
  interface Events {
    /**
     * waterfall: blocks that a checkpoint has to hold beside the summary, since the messages that held them go: instructions
     * of a folder, read again. Nobody has any by default. Bounded: what is too long is cut.
     */
    'compaction/carry'(
      input: { readonly agent: Agent; readonly dropped: readonly Message[]; readonly signal: AbortSignal },
      next: () => Promise<readonly UserBlock[]>,
    ): Promise<readonly UserBlock[]>
  }
}

/** What the next request is made with, beside its messages. */
export interface Envelope {
  readonly config: LlmCallConfig
  readonly system?: string
  readonly tools: readonly ToolSchema[]
}
