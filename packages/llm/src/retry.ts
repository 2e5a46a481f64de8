/** Tries a request of the loop again when its failure may pass by itself, and says so. */

import { type Context, MAX_TIMER_MS, notify, type ScopeKey, sleep } from '@cambium/core'
import Schema from 'schemastery'
import { RETRY_POLICY, RetryCourse, type RetryPolicy } from './retry/policy.ts'
import type {} from './service.ts'
import type { FailedAttempt, FailedAttemptDecision } from './stream.ts'

export const name = 'llm-retry'

export interface Config extends RetryPolicy {}

export const Config: Schema<Config> = Schema.object({
  maxAttempts: Schema.natural()
    .min(1)
    .default(RETRY_POLICY.maxAttempts)
    .description('Attempts, the first one included'),
  initialMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.initialMs)
    .description('First wait; each further one is twice as long'),
  maxDelayMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.maxDelayMs)
    .description('Longest wait of our own choice'),
  maxElapsedMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.maxElapsedMs)
    .description('Bound of all attempts and waits; a provider that asks for more is not waited for'),
})

/**
 * The loop's `agent/request-error` is declared in its room, which stands above this one and must not be imported; it is
 * heard here by name, and the loop's own tests hold the two together.
 */
type OnRequestError = (
  input: FailedAttempt & { readonly agent: ScopeKey & { readonly session: { readonly id: string } } },
  next: () => Promise<FailedAttemptDecision>,
) => Promise<FailedAttemptDecision>
interface LoopEvents {
  on(name: 'agent/request-error', listener: OnRequestError): () => void
}

export function apply(ctx: Context, config: Config) {
  const courses = new WeakMap<object, { at: string; course: RetryCourse }>()
  const disposal = new AbortController()
  ctx.effect(() => () => disposal.abort(), 'retry waits')

  ;(ctx as unknown as LoopEvents).on('agent/request-error', async (input, next) => {
    // Who can repair the cause, as compaction can, goes before who only waits.
    const decision = await next()
    if (decision.kind === 'retry') return decision
    const { agent, turn, step, attempt, failure, visible } = input
    const at = `${turn}:${step}`
    let entry = courses.get(agent)
    if (entry?.at !== at) {
      entry = { at, course: new RetryCourse(config) }
      courses.set(agent, entry)
    }
    const delayMs = entry.course.next(failure, { attempt, visible })
    if (delayMs === undefined) return decision
    const { provider, model } = input.config
    const notice = { provider, model, failure, attempt: attempt + 1, maxAttempts: config.maxAttempts, delayMs }
    notify(ctx, agent, 'llm/retry', notice, input.config, agent.session.id)
    const signal = AbortSignal.any([input.signal, disposal.signal])
    await sleep(delayMs, signal)
    return signal.aborted ? decision : { kind: 'retry' }
  })
}
