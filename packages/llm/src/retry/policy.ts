/** When a failed attempt is worth another one on the same route, and after how long. */

import type { LlmFailure, LlmFailureCode } from '../stream.ts'

export interface RetryPolicy {
  /** Attempts on one route altogether, the first one included. */
  readonly maxAttempts: number
  /** The first wait; each further one is twice as long, up to `maxDelayMs`. */
  readonly initialMs: number
  readonly maxDelayMs: number
  /** The longest wait that a provider may ask for; one that asks for more is told to the person and not waited for. */
  readonly maxRetryAfterMs: number
  /** From the first attempt to the end of the last one, as far as it can be foreseen, without what a provider asked for. */
  readonly maxElapsedMs: number
}

export const RETRY_POLICY: RetryPolicy = {
  maxAttempts: 5,
  initialMs: 500,
  maxDelayMs: 10_000,
  // Most rate limits are counted by the minute.
  maxRetryAfterMs: 60_000,
  maxElapsedMs: 30_000,
}

/** How often each code may be tried again; one that is not listed never is. */
const RETRIES: Partial<Record<LlmFailureCode, number>> = {
  EMPTY_RESPONSE: Number.POSITIVE_INFINITY,
  RATE_LIMIT: Number.POSITIVE_INFINITY,
  SERVER: Number.POSITIVE_INFINITY,
  STREAM_CLOSED: Number.POSITIVE_INFINITY,
  TIMEOUT: Number.POSITIVE_INFINITY,
  TRANSPORT: Number.POSITIVE_INFINITY,
  MALFORMED_RESPONSE: 1,
}
/** Added to each wait at random, so that many who failed together do not come back together. */
const JITTER = 0.1

/** The attempts of one request on one route, as far as they failed. */
export class RetryCourse {
  /** Attempts that have failed. */
  attempts = 0
  private readonly policy: RetryPolicy
  private readonly used = new Map<LlmFailureCode, number>()
  /** When the first attempt began, as it is estimated; unknown before the second failure. */
  private begun: number | undefined
  private resumed: number | undefined
  /** Waited because the provider asked for it. */
  private granted = 0

  constructor(policy: RetryPolicy = RETRY_POLICY) {
    this.policy = policy
  }

  /** Counts an attempt that failed `agoMs` before now and that somebody else has dealt with. */
  recall(code: LlmFailureCode, agoMs: number): void {
    this.attempts++
    this.used.set(code, (this.used.get(code) ?? 0) + 1)
    this.begun ??= performance.now() - Math.min(Math.max(agoMs, 0), this.policy.maxElapsedMs)
  }

  /**
   * Milliseconds to wait before the next attempt, or undefined to give up. A provider's own wish is met in full or,
   * where it is too long, not at all: its failure says how long it asks to wait.
   */
  next(failure: LlmFailure): number | undefined {
    const { maxAttempts, initialMs, maxDelayMs, maxRetryAfterMs, maxElapsedMs } = this.policy
    const now = performance.now()
    const used = this.used.get(failure.code) ?? 0
    this.attempts++
    this.used.set(failure.code, used + 1)
    if (this.attempts >= maxAttempts || used >= (RETRIES[failure.code] ?? 0)) return undefined
    const wish = failure.retryAfterMs ?? 0
    if (wish > maxRetryAfterMs) return undefined
    // Only the attempts since the first failure were timed; the first and the next are taken to last as long as the last.
    const lastMs = this.resumed === undefined ? 0 : Math.max(0, now - this.resumed)
    this.begun ??= now
    const elapsed = now - this.begun - this.granted + lastMs
    const jitter = Math.random() * JITTER
    const backoff = Math.min(maxDelayMs, initialMs * 2 ** (this.attempts - 1)) * (1 - JITTER / 2 + jitter)
    const delay = Math.round(Math.max(wish * (1 + jitter), backoff))
    const granted = wish ? delay : 0
    if (elapsed + delay - granted + lastMs > maxElapsedMs) return undefined
    this.granted += granted
    this.resumed = now + delay
    return delay
  }
}
