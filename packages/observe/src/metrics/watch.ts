/** What a harness does, counted. */

import type {} from '@cambium/agent/compaction'
import type { Context } from '@cambium/core'
import { type LlmRequest, type LlmService, price, type StreamChunk, type TokenUsage } from '@cambium/llm'
import type { Session } from '@cambium/session'
import type {} from '@cambium/tools'
import type { Metrics } from './contract.ts'

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]
const MODEL = ['provider', 'model']

export function watch(ctx: Context, metrics: Metrics): void {
  sessions(ctx, metrics)
  requests(ctx, metrics)
  tools(ctx, metrics)
}

function sessions(ctx: Context, metrics: Metrics): void {
  const live = metrics.gauge({ name: 'cambium_sessions_live', help: 'Sessions that are open in this process' })
  const logged = metrics.counter({ name: 'cambium_events_logged_total', help: 'Events committed to logs' })
  const turns = metrics.counter({
    name: 'cambium_turns_total',
    help: 'Turns that ended, by the reason, and by the code of an error',
    labels: ['reason', 'code'],
  })
  const took = metrics.histogram({
    name: 'cambium_turn_duration_seconds',
    help: 'Time from the start of a turn to its end',
    buckets: SECONDS,
  })
  const steps = metrics.counter({ name: 'cambium_steps_total', help: 'Steps that were begun' })
  const compactions = metrics.counter({
    name: 'cambium_compactions_total',
    help: 'Conversations that were made shorter, or should have been',
    labels: ['tier', 'outcome'],
  })
  const begun = new WeakMap<Session, number>()

  live.set(ctx.sessions.list().length)
  ctx.on('session/created', () => live.add(1))
  ctx.on('session/disposed', () => live.add(-1))
  ctx.on('session/event', (session, event) => {
    if (event.seq === undefined) return
    logged.inc()
    if (event.type === 'turn/start') begun.set(session, event.time)
    else if (event.type === 'step/start') steps.inc()
    else if (event.type === 'turn/end') {
      const { reason } = event.data
      turns.inc({ reason: reason.kind, code: reason.kind === 'error' ? reason.error.code : '' })
      const start = begun.get(session)
      if (start !== undefined) took.observe(Math.max(0, event.time - start) / 1000)
    } else if (event.type === 'compaction/ended') {
      const { tier = 'none', aborted, error } = event.data
      compactions.inc({ tier, outcome: aborted ? 'aborted' : error ? 'failed' : 'done' })
    }
  })
}

function requests(ctx: Context, metrics: Metrics): void {
  const count = metrics.counter({
    name: 'cambium_llm_requests_total',
    help: 'Attempts at an answer, by how they ended, and by the code of a failure',
    labels: [...MODEL, 'outcome', 'code'],
  })
  const took = metrics.histogram({
    name: 'cambium_llm_request_duration_seconds',
    help: 'Time of one attempt, from asking to its end',
    labels: MODEL,
    buckets: SECONDS,
  })
  const first = metrics.histogram({
    name: 'cambium_llm_time_to_first_chunk_seconds',
    help: 'Time from asking to the first piece of an answer',
    labels: MODEL,
    buckets: SECONDS,
  })
  const tokens = metrics.counter({
    name: 'cambium_llm_tokens_total',
    help: 'Tokens that providers counted; each is in one kind, reasoning in output as well',
    labels: [...MODEL, 'kind'],
  })
  const cost = metrics.counter({
    name: 'cambium_llm_cost_dollars_total',
    help: 'What requests cost, where the price is known',
    labels: MODEL,
  })
  const retries = metrics.counter({
    name: 'cambium_llm_retries_total',
    help: 'Attempts that were followed by another one on the same route',
    labels: [...MODEL, 'code'],
  })
  const fallbacks = metrics.counter({
    name: 'cambium_llm_fallbacks_total',
    help: 'Requests that went on with another route',
    labels: [...MODEL, 'code'],
  })
  const { llm } = ctx
  ctx.on('llm/retry', ({ provider, model, failure }) => retries.inc({ provider, model, code: failure.code }))
  ctx.on('llm/fallback', ({ from, failure }) => fallbacks.inc({ ...routeOf(from), code: failure.code }))

  const ended = (request: LlmRequest, attempt: Attempt) => {
    const route = routeOf(request)
    count.inc({ ...route, outcome: attempt.outcome, code: attempt.code })
    took.observe(since(attempt.start), route)
    if (!attempt.usage) return
    for (const [kind, amount] of kindsOf(attempt.usage)) if (amount) tokens.inc({ ...route, kind }, amount)
    const paid = costOf(llm, request, attempt.usage)
    if (paid) cost.inc(route, paid)
  }
  ctx.on('llm/stream', (request, next) => {
    const attempt: Attempt = { start: performance.now(), outcome: 'abandoned', code: '', usage: undefined }
    return timed(next(), {
      chunk(chunk, at) {
        if (at === 0) first.observe(since(attempt.start), routeOf(request))
        if (chunk.type === 'usage') attempt.usage = chunk.usage
        if (chunk.type !== 'finish') return
        attempt.outcome = chunk.reason
        attempt.code = chunk.failure?.code ?? ''
      },
      end: () => ended(request, attempt),
    })
  })
}

interface Attempt {
  readonly start: number
  outcome: string
  code: string
  usage: TokenUsage | undefined
}

const since = (start: number) => (performance.now() - start) / 1000
const routeOf = ({ provider, model }: { provider: string; model: string }) => ({ provider, model })

function kindsOf(usage: TokenUsage): [kind: string, amount: number][] {
  return [
    ['input', usage.inputTokens],
    ['cache_read', usage.cacheReadTokens],
    ['cache_write', usage.cacheWriteTokens],
    ['output', usage.outputTokens],
    ['reasoning', usage.reasoningTokens],
  ]
}

function costOf(llm: LlmService, request: LlmRequest, usage: TokenUsage): number | undefined {
  return price(usage, llm.modelInfo(request))
}

/** The stream as it is, looked at. Whoever leaves it early ends it as before. */
async function* timed(
  stream: AsyncIterable<StreamChunk>,
  { chunk: saw, end }: { chunk(chunk: StreamChunk, at: number): void; end(): void },
): AsyncGenerator<StreamChunk> {
  let at = 0
  try {
    for await (const chunk of stream) {
      // A first piece that is the end is none.
      if (chunk.type !== 'finish' || at > 0) saw(chunk, at++)
      else saw(chunk, -1)
      yield chunk
    }
  } finally {
    end()
  }
}

function tools(ctx: Context, metrics: Metrics): void {
  const calls = metrics.counter({
    name: 'cambium_tool_calls_total',
    help: 'Calls of tools, by how they ended, and by the code of an error',
    labels: ['tool', 'outcome', 'code'],
  })
  const took = metrics.histogram({
    name: 'cambium_tool_duration_seconds',
    help: 'Time that the body of a tool ran',
    labels: ['tool'],
    buckets: SECONDS,
  })
  ctx.on('tools/result', ({ name, tool }, { isError, error, durationMs }) => {
    // A model may call what nobody offers by any name.
    const label = tool ? name : 'unknown'
    calls.inc({ tool: label, outcome: isError ? 'error' : 'ok', code: error?.code ?? '' })
    took.observe(durationMs / 1000, { tool: label })
  })
}
