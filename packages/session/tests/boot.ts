import { type Context, createRoot, type LogRecord } from '@cambium/core'
import { createUserMessage, type UserMessage } from '@cambium/llm'
import * as session from '@cambium/session'
import { onTestFinished } from 'vitest'

export interface Booted {
  ctx: Context
  records: LogRecord[]
}

/** A root with `ctx.sessions`, ended with the test. */
export async function boot(...plugins: { apply(ctx: Context): void }[]): Promise<Booted> {
  const records: LogRecord[] = []
  const ctx = createRoot({ level: 'warn', write: record => records.push(record) })
  onTestFinished(() => ctx.fiber.dispose())
  await ctx.plugin(session)
  for (const plugin of plugins) await ctx.plugin(plugin)
  return { ctx, records }
}

export const user = (text: string, id?: string): UserMessage =>
  createUserMessage({ content: text, source: { kind: 'user' }, ...(id ? { id } : {}) })
