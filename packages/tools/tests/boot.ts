/** A tree with `ctx.sessions` and `ctx.tools`, and an agent that is no more than a session and a scope. */

import { type Context, createRoot, createScope, type LogRecord, type ScopeHandle } from '@cambium/core'
import type { UserMessage } from '@cambium/llm'
import * as session from '@cambium/session'
import { onTestFinished } from 'vitest'
import type { Agent, ToolCall, ToolDefinition, ToolResult } from '../src/index.ts'
import * as tools from '../src/index.ts'

export interface Booted {
  ctx: Context
  records: LogRecord[]
}

export async function boot(config: Partial<tools.Config> = {}): Promise<Booted> {
  const records: LogRecord[] = []
  const ctx = createRoot({ level: 'warn', write: record => records.push(record) })
  onTestFinished(() => ctx.fiber.dispose())
  await ctx.plugin(session)
  await ctx.plugin(tools, config as tools.Config)
  return { ctx, records }
}

export interface FakeAgent {
  agent: Agent
  scope: ScopeHandle
  injected: UserMessage[]
}

/** An agent in the middle of its first step. */
export async function fakeAgent(ctx: Context, parent?: Agent): Promise<FakeAgent> {
  const log = ctx.sessions.create()
  log.append('turn/start', { turn: 1 })
  log.append('step/start', { turn: 1, step: 1 })
  const injected: UserMessage[] = []
  const agent = { id: log.id, session: log, status: 'running' } as unknown as { ctx: Context } & Agent
  // Registrations through the agent's context need the services that its owner injects.
  let scope: ScopeHandle | undefined
  await ctx.inject(['tools'], inner => {
    scope = createScope(inner, agent, parent)
  })
  Object.assign(agent, {
    ctx: scope!.ctx,
    inject(message: UserMessage) {
      injected.push(message)
      return message.id
    },
  })
  return { agent, scope: scope!, injected }
}

export const never = () => new AbortController().signal

let count = 0
export const call = (name: string, args: unknown = {}, callId = `c${++count}`): ToolCall => ({
  callId,
  name,
  arguments: typeof args === 'string' ? args : JSON.stringify(args),
})

export const textOf = (result: ToolResult | undefined): string =>
  (result?.content ?? []).map(block => (block.type === 'text' ? block.text : `[${block.type}]`)).join('\n')

/** Runs calls and gives back their texts, in order. */
export async function run(ctx: Context, agent: Agent, ...calls: ToolCall[]): Promise<string[]> {
  const { results } = await ctx.tools.runBatch(calls, { agent, signal: never() })
  return results.map(textOf)
}

/** A raw definition, for what `defineTool` would not let through. */
export const raw = (name: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: `The tool ${name}.`,
  parameters: { type: 'object' },
  execute: () => name,
  ...more,
})

/** A promise with its resolver: what a test lets go on when it wants to. */
export function latch<T = void>(): { promise: Promise<T>; open: (value: T) => void } {
  let open!: (value: T) => void
  const promise = new Promise<T>(resolve => {
    open = resolve
  })
  return { promise, open }
}
