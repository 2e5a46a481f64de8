/** What is told when a request is tried again, or goes on with another route. */

import type { LlmCallConfig, LlmFailure, LlmRequest } from '../stream.ts'

interface NoticeOfRequest {
  readonly failure: LlmFailure
  /** Whose request it is: a step of the loop, or something else. */
  readonly turn?: number
  readonly step?: number
  readonly purpose?: NonNullable<LlmRequest['purpose']>
}

export interface RetryNotice extends NoticeOfRequest {
  readonly provider: string
  readonly model: string
  /** Attempt on this route that comes next, from 2, and how many there may be. */
  readonly attempt: number
  readonly maxAttempts: number
  readonly delayMs: number
}

export interface FallbackNotice extends NoticeOfRequest {
  /** The route that failed as `failure` says, and is left alone for `restMs`. */
  readonly from: { readonly provider: string; readonly model: string }
  readonly to: { readonly provider: string; readonly model: string }
  readonly maxAttempts: number
  readonly restMs: number
}

declare module 'cordis' {
  interface Events {
    /** notify: an attempt failed and another one on the same route comes after `delayMs`. */
    'llm/retry'(notice: RetryNotice, config: LlmCallConfig, sessionId: string | undefined): void
    /** notify: a route is down and the request goes to another one at once. Told once for an agent and a route that is down. */
    'llm/fallback'(notice: FallbackNotice, config: LlmCallConfig, sessionId: string | undefined): void
  }
}
