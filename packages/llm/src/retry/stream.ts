/** An answer with retries and other routes, for callers without a loop. */

import { type Context, notify, scopeOf, sleep } from '@cambium/core'
import { addUsage } from '../meter.ts'
import type { LlmCallConfig, LlmFailure, LlmRequest, Route, StreamChunk, TokenUsage } from '../stream.ts'
import type {} from './notice.ts'
import type { RetryPolicy } from './policy.ts'
import { RequestCourse } from './recovery.ts'

export interface RetryOptions {
  /** The policy of the row `@cambium/llm/retry` by default, or one of our own where it is not mounted. */
  readonly policy?: RetryPolicy
  /** Told of each attempt that has ended, with what it cost and where: prices differ by route. Must not throw. */
  readonly attempted?: (attempt: {
    readonly route: Route
    readonly usage: TokenUsage | undefined
    readonly failure: LlmFailure | undefined
  }) => void
}

/**
 * `ctx.llm.stream` for callers without a loop: tried again, and on the fallback routes of `@cambium/llm/retry`, while
 * nothing but usage has come, which is then counted together. Tells of it by `llm/retry` and `llm/fallback`.
 */
export async function* streamWithRetry(
  ctx: Context,
  request: LlmRequest,
  options: RetryOptions = {},
): AsyncGenerator<StreamChunk, void> {
  const { llm } = ctx
  const recovery = ctx.get('recovery')
  const course = recovery?.course(options.policy) ?? new RequestCourse(options.policy)
  const { signal, sessionId, purpose } = request
  const scope = request.scope ?? scopeOf(ctx)
  const whose = purpose ? { purpose } : {}
  let current = request
  const moveTo = (to: Route, failure: LlmFailure, restMs: number) => {
    if (!recovery) return
    const { provider, model } = current
    const { maxAttempts } = course.policy
    const notice = { ...whose, from: { provider, model }, to, failure, maxAttempts, restMs }
    notify(ctx, scope, 'llm/fallback', notice, current, sessionId)
    current = { ...withoutConfig(current), ...recovery.standIn(current, to) }
  }
  const down = recovery?.instead(request)
  if (down) moveTo(down.to, down.failure, down.restMs)

  let spent: TokenUsage | undefined
  for (;;) {
    const { provider, model } = current
    let begun = false
    let ended = true
    let usage: TokenUsage | undefined
    let delayMs = 0
    for await (const chunk of llm.stream(current)) {
      if (chunk.type === 'usage') {
        usage = chunk.usage
        spent = addUsage(spent, usage)
        continue
      }
      if (chunk.type === 'finish') {
        const { failure } = chunk
        options.attempted?.({ route: { provider, model }, usage, failure })
        if (chunk.reason === 'error' && failure && !begun) {
          const next = course.after(current, failure)
          if (next.kind === 'again') {
            ;({ delayMs } = next)
            const { maxAttempts } = course.policy
            const notice = { ...whose, provider, model, failure, attempt: next.attempt, maxAttempts, delayMs }
            notify(ctx, scope, 'llm/retry', notice, current, sessionId)
          } else if (next.kind === 'fallback') moveTo(next.to, failure, next.restMs)
          ended = next.kind === 'give-up'
          if (!ended) break
        }
        if (spent) yield { type: 'usage', usage: spent }
      }
      begun = true
      yield chunk
    }
    if (ended) return
    if (delayMs) await sleep(delayMs, signal)
  }
}

/** What a request is about, without how it is made. */
function withoutConfig(request: LlmRequest): Omit<LlmRequest, keyof LlmCallConfig> {
  const { provider, model, effort, maxTokens, temperature, stop, providerOptions, insteadOf, ...rest } = request
  return rest
}
