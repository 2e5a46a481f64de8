/** Drops notes that are older than they should get. */

import { type Context, sleep } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './notes.ts'

export const name = 'note-expiry'
export const inject = ['notes']

export interface Config {
  maxAgeMs: number
  everyMs: number
}
export const Config: Schema<Config> = Schema.object({
  maxAgeMs: Schema.natural().default(86_400_000).description('Age at which a note is dropped, in milliseconds'),
  everyMs: Schema.natural().min(1).default(60_000).description('How often that is looked at, in milliseconds'),
})

export function apply(ctx: Context, config: Config) {
  ctx.effect(() => {
    const stop = new AbortController()
    const work = dropOld(ctx, config, stop.signal)
    return async () => {
      stop.abort()
      await work
    }
  }, 'expiry of notes')
}

async function dropOld(ctx: Context, { maxAgeMs, everyMs }: Config, signal: AbortSignal) {
  for (;;) {
    await sleep(everyMs, signal)
    if (signal.aborted) return
    const oldest = Date.now() - maxAgeMs
    for (const { id, madeAt } of ctx.notes.list()) if (madeAt < oldest) ctx.notes.drop(id)
  }
}
