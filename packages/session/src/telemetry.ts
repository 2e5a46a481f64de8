/** Feeds backends of telemetry with what happens in sessions. Provides `ctx.telemetry`; a file of JSON lines is the first backend. */

import { resolve } from 'node:path'
import { type Context, MAX_TIMER_MS } from '@cambium/core'
import { homeFolder } from '@cambium/store'
import Schema from 'schemastery'
import { FileSink } from './telemetry/file-sink.ts'
import { TelemetryService } from './telemetry/telemetry-service.ts'

export * from './telemetry/contract.ts'
export { readTrace } from './telemetry/trace.ts'

export const name = 'session-telemetry'
export const inject = ['sessions']
export const provide = ['telemetry']

export interface Config {
  file?: string
  maxFileBytes: number
  maxFiles: number
  maxQueued: number
  flushMs: number
}

export const Config: Schema<Config> = Schema.object({
  file: Schema.string().description(
    'Where every event of every session is appended, one line each; relative to the home folder. Nothing is written without it',
  ),
  maxFileBytes: Schema.natural()
    .min(1_024)
    .default(64 << 20)
    .description('Size at which a new file is begun'),
  maxFiles: Schema.natural().max(1_000).default(5).description('How many full files are kept'),
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
  const { file, maxFileBytes, maxFiles } = config
  if (!file) return
  const warn = (text: string) => ctx.logger.warn(`telemetry: ${text}`)
  telemetry.register(new FileSink({ path: resolve(homeFolder(), file), maxFileBytes, maxFiles, warn }))
}
