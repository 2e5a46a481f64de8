/**
 * `ctx.llm`: the registry of adapters and the one door to a model.
 *
 * Contract only, until the class below is complete.
 */

import type { LlmAdapter } from './adapter.ts'
import type { LlmCallConfig, LlmFailure, LlmRequest, ModelInfo, StreamChunk } from './stream.ts'

export interface Route {
  readonly provider: string
  readonly model: string
}

export interface LlmService {
  /**
   * Offers an adapter as a provider for as long as the calling plugin lives; returns the undo.
   * @throws `LLM_DUPLICATE_PROVIDER`
   */
  registerAdapter(provider: string, adapter: LlmAdapter): () => void
  /**
   * One provider attempt, normalised and wrapped by `llm/stream`. Never throws for what a provider or an adapter does:
   * the last chunk is always a `finish`.
   */
  stream(request: LlmRequest): AsyncIterable<StreamChunk>
  /** What is known about a model: context window, price. Undefined when nothing is. */
  modelInfo(route: Route): ModelInfo | undefined
  /** Providers in row order, each with its models and whether a credential is there. */
  list(): { provider: string; ready: boolean; models: readonly ModelInfo[] }[]
  /**
   * Turns what a person says (`provider/model`, a provider alone, or `auto`) into a route, with a notice where the choice
   * was ours. @throws `LLM_UNKNOWN_ROUTE`, `LLM_MISSING_CREDENTIAL` in one sentence with what to do.
   */
  resolve(selection: string): Promise<{ route: Route; notice?: string }>
}

export interface RetryNotice {
  readonly provider: string
  readonly model: string
  readonly failure: LlmFailure
  /** Attempt that comes next, from 2, and how many there may be. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly delayMs: number
}

declare module 'cordis' {
  interface Context {
    llm: LlmService
  }
  interface Events {
    /** waterfall: around one provider attempt; synchronous, returns the stream. */
    'llm/stream'(request: LlmRequest, next: () => AsyncIterable<StreamChunk>): AsyncIterable<StreamChunk>
    /** notify: an attempt failed and another one comes after `delayMs`. */
    'llm/retry'(notice: RetryNotice, config: LlmCallConfig, sessionId: string | undefined): void
  }
}
