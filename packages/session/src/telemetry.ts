/** Feeds backends of telemetry with what happens in sessions. Provides `ctx.telemetry`; a file of JSON lines is the first backend. */

import { type Context, MAX_TIMER_MS } from '@cambium/core'
import Schema from 'schemastery'
import { TelemetryService } from './telemetry/telemetry-service.ts'

export * from './telemetry/contract.ts'

export const name = 'session-telemetry'
export const inject = ['sessions']
export const provide = ['telemetry']

export interface Config {
  maxQueued: number
  flushMs: number
}

export const Config: Schema<Config> = Schema.object({
  maxQueued: Schema.natural()
    .min(1)
    .default(10_000)
    .description('Records that wait for one backend; further ones are dropped and counted'),
  flushMs: Schema.natural()
    .min(1)
    .max(MAX_TIMER_MS)
    .default(3_000)
    .description('Longest wait for a backend that leaves, in milliseconds'),
})

export function apply(ctx: Context, config: Config): void {
  let service: TelemetryService | undefined
  // Undone last.
  ctx.effect(() => () => service?.drain(), 'telemetry queues')
  const telemetry = new TelemetryService(ctx, config)
  service = telemetry
  ctx.on('session/event', (session, event) => telemetry.hear(session, event))
}
