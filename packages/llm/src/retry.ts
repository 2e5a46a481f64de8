/** Tries a failed request of the loop again when its failure may pass by itself, on another route when it does not, and says so. */

import { type Context, MAX_TIMER_MS, notify, type ScopeKey, sleep } from '@cambium/core'
import Schema from 'schemastery'
import { Fallback, routeName } from './retry/fallback.ts'
import type {} from './retry/notice.ts'
import { RETRY_POLICY, type RetryPolicy } from './retry/policy.ts'
import { Recovery, type RequestCourse } from './retry/recovery.ts'
import type { FailedAttempt, FailedAttemptDecision, LlmCallConfig, LlmFailure, Route } from './stream.ts'

export const name = 'llm-retry'
export const inject = ['llm']
export const provide = ['recovery']

export interface Config extends RetryPolicy {
  fallback: string[]
  coolDownMs: number
}

export const Config: Schema<Config> = Schema.object({
  maxAttempts: Schema.natural()
    .min(1)
    .default(RETRY_POLICY.maxAttempts)
    .description('Attempts on one route, the first one included'),
  initialMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.initialMs)
    .description('First wait; each further one is twice as long'),
  maxDelayMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.maxDelayMs)
    .description('Longest wait of our own choice'),
  maxRetryAfterMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.maxRetryAfterMs)
    .description('Longest wait that a provider may ask for; one that asks for more is not waited for'),
  maxElapsedMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(RETRY_POLICY.maxElapsedMs)
    .description('Bound of all attempts and waits on one route, without the waits that a provider asked for'),
  fallback: Schema.array(Schema.string().pattern(/^[^/\s]+\/\S+$/))
    .default([])
    .description(
      'Routes, each `provider/model`, that take the place of one that is down or over quota; the first that can',
    ),
  coolDownMs: Schema.natural()
    .max(MAX_TIMER_MS)
    .default(300_000)
    .description('How long a route that was given up is left alone, unless its provider asks for longer'),
})

/**
 * The loop's events are declared in its room, which stands above this one and must not be imported; they are heard
 * here by name, and the loop's own tests hold the two together.
 */
interface LoopAgent extends ScopeKey {
  readonly session: LoopSession
}
interface LoopSession {
  readonly id: string
  events?(): readonly { readonly type: string; readonly time: number; readonly data: unknown }[]
}
interface LoopEvents {
  on(
    name: 'agent/request-error',
    listener: (
      input: FailedAttempt & { readonly agent: LoopAgent },
      next: () => Promise<FailedAttemptDecision>,
    ) => Promise<FailedAttemptDecision>,
  ): () => void
  on(
    name: 'agent/request',
    listener: (
      input: { readonly agent: LoopAgent; readonly turn: number; readonly step: number },
      next: () => Promise<LlmCallConfig>,
    ) => Promise<LlmCallConfig>,
  ): () => void
  on(
    name: 'session/event',
    listener: (session: LoopSession, event: { readonly type: string; readonly data: unknown }) => void,
  ): () => void
}

export function apply(ctx: Context, config: Config) {
  const { fallback: routes, coolDownMs, ...policy } = config
  const fallback = new Fallback({ llm: ctx.llm, fallback: routes, coolDownMs, maxRetryAfterMs: policy.maxRetryAfterMs })
  for (const route of fallback.unready()) {
    const fix = ctx.llm.list().find(({ provider }) => provider === route.provider)?.fix
    const until = fix ? `; ${fix}` : ''
    ctx.logger.warn(`the fallback ${routeName(route)} is left out until its provider has a credential${until}`)
  }
  const recovery = new Recovery(ctx, policy, fallback)
  const courses = new WeakMap<object, { at: string; course: RequestCourse }>()
  /** By agent: the routes that it was told of last. */
  const told = new WeakMap<object, string>()
  const disposal = new AbortController()
  ctx.effect(() => () => disposal.abort(), 'retry waits')
  const loop = ctx as unknown as LoopEvents

  const tell = (agent: LoopAgent, at: Position, move: Move, config: LlmCallConfig) => {
    const said = `${routeName(move.from)} ${routeName(move.to)}`
    if (told.get(agent) === said) return
    told.set(agent, said)
    const notice = { ...move, turn: at.turn, step: at.step, maxAttempts: policy.maxAttempts }
    notify(ctx, agent, 'llm/fallback', notice, config, agent.session.id)
  }

  loop.on('agent/request', async (input, next) => {
    const config = await next()
    const { agent } = input
    const down = config?.provider ? recovery.instead(config) : undefined
    if (!down) {
      told.delete(agent)
      return config
    }
    const { provider, model } = config
    tell(agent, input, { from: { provider, model }, ...down }, config)
    return recovery.standIn(config, down.to)
  })

  loop.on('agent/request-error', async (input, next) => {
    // Who can repair the cause, as compaction can, goes before who only waits.
    const decision = await next()
    if (decision.kind === 'retry') return decision
    const { agent, turn, step, attempt, failure, visible } = input
    const { provider, model, insteadOf } = input.config
    const at = `${turn}:${step}`
    let entry = courses.get(agent)
    if (entry?.at !== at || entry.course.attempts !== attempt - 1) {
      // Another one of our kind has dealt with the attempts before this one, and was reloaded since.
      const course = recovery.course()
      entry = { at, course: attempt > 1 ? recalled(course, agent.session) : course }
      courses.set(agent, entry)
    }
    const recourse = entry.course.after(input.config, failure, { visible })
    if (recourse.kind === 'give-up') return decision
    if (recourse.kind === 'fallback') {
      // The loop asks anew which route to take, and is answered by the listener above.
      const { to, restMs } = recourse
      told.set(agent, `${routeName(insteadOf ?? input.config)} ${routeName(to)}`)
      const notice = { from: { provider, model }, to, failure, turn, step, maxAttempts: policy.maxAttempts, restMs }
      notify(ctx, agent, 'llm/fallback', notice, input.config, agent.session.id)
      return { kind: 'retry' }
    }
    const { delayMs } = recourse
    const { maxAttempts } = policy
    const notice = { provider, model, failure, turn, step, attempt: recourse.attempt, maxAttempts, delayMs }
    notify(ctx, agent, 'llm/retry', notice, input.config, agent.session.id)
    await sleep(delayMs, AbortSignal.any([input.signal, disposal.signal]))
    // Where this plugin is reloaded meanwhile the attempt comes early rather than not at all.
    return input.signal.aborted ? decision : { kind: 'retry' }
  })

  loop.on('session/event', (_session, { type, data }) => {
    if (type === 'agent/model') recovery.forgive(data as Route)
  })
}

interface Position {
  readonly turn: number
  readonly step: number
}

interface Move {
  readonly from: Route
  readonly to: Route
  readonly failure: LlmFailure
  readonly restMs: number
}

/** The failed attempts of the open step but the last, which is being dealt with, by the log. */
function recalled(course: RequestCourse, session: LoopSession): RequestCourse {
  let route: Route | undefined
  const failed: { route: Route; failure: LlmFailure; time: number }[] = []
  for (const { type, data, time } of session.events?.() ?? []) {
    if (type === 'step/start') failed.length = 0
    else if (type === 'request/header') route = (data as { config: Route }).config
    else if (type === 'request/failed' && route) {
      failed.push({ route, failure: (data as { failure: LlmFailure }).failure, time })
    }
  }
  for (const { route, failure, time } of failed.slice(0, -1)) course.recall(route, failure, Date.now() - time)
  return course
}
