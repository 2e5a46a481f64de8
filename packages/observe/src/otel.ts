/** Sends traces of turns, steps, requests and calls to an OpenTelemetry collector, where an endpoint says which. */

import type {} from '@cambium/agent'
import { type Context, keepSecrets, MAX_TIMER_MS, scopeChain } from '@cambium/core'
import type {} from '@cambium/session/telemetry'
import type { Agent } from '@cambium/tools'
import Schema from 'schemastery'
import { type OtelConfig, targetOf } from './otel/settings.ts'

export const name = 'otel'
export const inject = ['telemetry']

export type Config = OtelConfig
export const Config: Schema<Config> = Schema.object({
  endpoint: Schema.string().description(
    'Base address of a collector that takes OTLP over HTTP as JSON: http://localhost:4318. OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT without it; nothing is done without any',
  ),
  headers: Schema.dict(String).default({}).description('Sent with each request, on top of OTEL_EXPORTER_OTLP_HEADERS'),
  serviceName: Schema.string().description('`service.name`; OTEL_SERVICE_NAME or cambium without it'),
  resource: Schema.dict(String)
    .default({})
    .description('Attributes of the resource, on top of OTEL_RESOURCE_ATTRIBUTES'),
  compression: Schema.union(['none', 'gzip'] as const)
    .default('none')
    .description('Of what is sent'),
  content: Schema.boolean()
    .default(false)
    .description('Whether spans hold what was said: prompts, answers, arguments and results, without known secrets'),
  timeoutMs: Schema.natural().min(1).max(MAX_TIMER_MS).default(10_000).description('Longest wait for one answer'),
  flushMs: Schema.natural().min(1).max(MAX_TIMER_MS).default(5_000).description('Longest wait of a span for others'),
  maxQueued: Schema.natural().min(1).default(4_096).description('Spans that wait; further ones are dropped'),
  maxBatch: Schema.natural().min(1).default(512).description('Spans that are sent together'),
})

/** Far longer than any record waits. */
const KEPT_MS = 30_000

export async function apply(ctx: Context, config: Config) {
  const target = targetOf(config, process.env)
  if (!target) return
  const secrets = Object.values(target.headers)
  keepSecrets(ctx, () => secrets)
  const [{ Exporter }, { Tracer }] = await Promise.all([import('./otel/exporter.ts'), import('./otel/tracer.ts')])
  const exporter = new Exporter({ ...config, target, warn: text => ctx.logger.warn(text) })

  /** Which agent made which: the log of a child does not say. */
  const parents = new Map<string, string>()
  ctx.on('agent/created', agent => {
    const parent = scopeChain(agent)[1] as Partial<Agent> | undefined
    if (parent?.session) parents.set(agent.session.id, parent.session.id)
  })
  const tracer = new Tracer({
    content: config.content,
    agentName: target.resource['service.name']!,
    ended: span => exporter.add(span),
    parentOf: session => parents.get(session),
  })
  /** Sessions that are gone, and when: their last records may still be queued. */
  const left = new Map<string, number>()
  const forget = (before: number) => {
    for (const [session, at] of left) {
      if (at > before) continue
      left.delete(session)
      parents.delete(session)
      tracer.forget(session)
    }
  }
  ctx.on('session/disposed', session => {
    left.set(session.id, performance.now())
    forget(performance.now() - KEPT_MS)
  })
  ctx.telemetry.register({
    name: 'otel',
    record: record => tracer.record(record),
    flush(signal) {
      forget(Number.POSITIVE_INFINITY)
      return exporter.flush(signal)
    },
  })
}
