/** When a failed attempt is worth another one, and after how long. */

import { type Context, notify, scopeOf, sleep } from '@cambium/core'
import { addUsage } from '../meter.ts'
import type { LlmFailure, LlmFailureCode, LlmRequest, StreamChunk, TokenUsage } from '../stream.ts'

export interface RetryPolicy {
  /** Attempts altogether, the first one included. */
  readonly maxAttempts: number
  /** The first wait; each further one is twice as long, up to `maxDelayMs`. */
  readonly initialMs: number
  readonly maxDelayMs: number
  /** From the first attempt to the end of the last one, as far as it can be foreseen. */
  readonly maxElapsedMs: number
}

export const RETRY_POLICY: RetryPolicy = {
  maxAttempts: 5,
  initialMs: 500,
  maxDelayMs: 10_000,
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
/** What a person has read is taken back once, not again and again. */
const VISIBLE_RETRIES = 1
const JITTER = 0.1

/** The attempts of one request, as far as they failed. */
export class RetryCourse {
  private readonly policy: RetryPolicy
  private readonly used = new Map<LlmFailureCode, number>()
  private visible = 0
  /** When the first attempt began, as it is estimated; unknown before the second failure. */
  private begun = 0
  private resumed = 0

  constructor(policy: RetryPolicy = RETRY_POLICY) {
    this.policy = policy
  }

  /**
   * Milliseconds to wait before the attempt after `attempt`, or undefined to give up. A provider's own wish is met in
   * full or, where it does not fit, not at all: its failure says how long it asks to wait.
   */
  next(failure: LlmFailure, { attempt, visible }: { attempt: number; visible: boolean }): number | undefined {
    const { maxAttempts, initialMs, maxDelayMs, maxElapsedMs } = this.policy
    const now = performance.now()
    const used = this.used.get(failure.code) ?? 0
    if (attempt >= maxAttempts || used >= (RETRIES[failure.code] ?? 0)) return undefined
    if (visible && this.visible >= VISIBLE_RETRIES) return undefined
    // Only the attempts since the first failure were timed; the first and the next are taken to last as long as the last.
    const lastMs = this.resumed ? Math.max(0, now - this.resumed) : 0
    if (!this.begun) this.begun = now
    const elapsed = now - this.begun + lastMs
    const jitter = Math.random() * JITTER
    const backoff = Math.min(maxDelayMs, initialMs * 2 ** (attempt - 1)) * (1 - JITTER / 2 + jitter)
    const wish = failure.retryAfterMs
    const delay = Math.round(wish === undefined ? backoff : Math.max(wish * (1 + jitter), backoff))
    if (elapsed + Math.max(delay, wish ?? 0) + lastMs > maxElapsedMs) return undefined
    this.used.set(failure.code, used + 1)
    if (visible) this.visible++
    this.resumed = now + delay
    return delay
  }
}

/**
 * `ctx.llm.stream` for callers without a loop: tried again while nothing but usage has come, which is then counted
 * together. Tells of each retry by `llm/retry`.
 */
export async function* streamWithRetry(
  ctx: Context,
  request: LlmRequest,
  policy: RetryPolicy = RETRY_POLICY,
): AsyncGenerator<StreamChunk, void> {
  const { llm } = ctx
  const course = new RetryCourse(policy)
  const { provider, model, signal, sessionId } = request
  let spent: TokenUsage | undefined
  for (let attempt = 1; ; attempt++) {
    let begun = false
    let delayMs: number | undefined
    for await (const chunk of llm.stream(request)) {
      if (chunk.type === 'usage') {
        spent = addUsage(spent, chunk.usage)
        continue
      }
      if (chunk.type === 'finish') {
        const { failure } = chunk
        if (chunk.reason === 'error' && failure && !begun) delayMs = course.next(failure, { attempt, visible: false })
        if (delayMs !== undefined && failure) {
          const notice = { provider, model, failure, attempt: attempt + 1, maxAttempts: policy.maxAttempts, delayMs }
          notify(ctx, request.scope ?? scopeOf(ctx), 'llm/retry', notice, request, sessionId)
          break
        }
        if (spent) yield { type: 'usage', usage: spent }
      }
      begun = true
      yield chunk
    }
    if (delayMs === undefined) return
    await sleep(delayMs, signal)
  }
}
