/** A home with sessions in it, written by the log itself, for the commands that work on them. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { main } from '@cambium/cli'
import { type Context, createRoot } from '@cambium/core'
import { createUserMessage, type UserBlock, type UserMessage } from '@cambium/llm'
import type { Session, SessionEventMap } from '@cambium/session'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import { type TestHostOptions, testHost } from './streams.ts'

export const user = (content: string | UserBlock[], id?: string): UserMessage =>
  createUserMessage({ content, source: { kind: 'user' }, ...(id ? { id } : {}) })

export interface Call {
  readonly name: string
  readonly args: object
  /** Without one nothing has come of it. */
  readonly output?: string
  readonly code?: string
  readonly meta?: { readonly exitCode: number }
}

export interface TurnParts {
  readonly answer?: string
  readonly thoughts?: string
  readonly calls?: readonly Call[]
  readonly model?: string
  readonly steered?: string
  readonly interrupted?: true
  readonly reason?: SessionEventMap['turn/end']['reason']
}

/** A turn as the loop writes it. */
export function turn(log: Session, number: number, prompt: string | UserBlock[], parts: TurnParts = {}): void {
  const { answer = 'Done.', thoughts, calls = [], model = 'test-model', steered } = parts
  const message = user(prompt)
  const source = { kind: 'model', provider: 'openai', model } as const
  const usage = { inputTokens: 1_000, outputTokens: 20, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
  log.append('inbox/changed', { inserted: [{ target: 'next-turn', message }] })
  log.append('turn/start', { turn: number })
  log.append('step/start', { turn: number, step: 1 })
  log.append('request/header', { config: { provider: 'openai', model }, system: 'You work here.' })
  log.append('user/message', { message })
  if (calls.length) {
    const asked = calls.map(({ name, args }, index) => {
      return { type: 'tool-call', id: `c${number}-${index}`, name, arguments: JSON.stringify(args) } as const
    })
    const content = [...(thoughts ? [{ type: 'reasoning', text: thoughts } as const] : []), ...asked]
    const called = { id: `asked-${number}`, role: 'assistant', content, source } as const
    log.append('assistant/message', { turn: number, step: 1, usage, finish: 'tool-calls', message: called })
    for (const [index, { output, code, meta }] of calls.entries()) {
      const { id: callId, name, arguments: args } = asked[index]!
      log.append('tool/call', { turn: number, step: 1, callId, name, arguments: args })
      if (output === undefined) continue
      const block = { type: 'tool-result', toolCallId: callId, content: [{ type: 'text', text: output }] } as const
      const result = code ? { ...block, isError: true as const } : block
      log.append('tool/result', {
        turn: number,
        step: 1,
        durationMs: 1_200,
        message: { id: `r${callId}`, role: 'user', content: [result], source: { kind: 'tool', callId } },
        ...(code ? { error: { code, message: output } } : {}),
        ...(meta ? { meta } : {}),
      })
    }
    log.append('step/end', { turn: number, step: 1 })
    log.append('step/start', { turn: number, step: 2 })
  }
  if (steered) log.append('user/message', { message: user(steered) })
  const step = calls.length ? 2 : 1
  const said = { id: `said-${number}`, role: 'assistant', content: [{ type: 'text', text: answer }], source } as const
  const { interrupted, reason = { kind: 'completed' } } = parts
  log.append('assistant/message', {
    turn: number,
    step,
    usage,
    finish: 'stop',
    message: said,
    ...(interrupted ? { interrupted } : {}),
  })
  log.append('step/end', { turn: number, step })
  log.append('turn/end', { turn: number, reason })
}

/** Sessions of a home, as a process of its own would have them; what it leaves live stays so until the end. */
export async function withSessions(home: string, work: (ctx: Context) => Promise<void> | void): Promise<void> {
  const { ctx, end } = await openSessions(home)
  try {
    await work(ctx)
  } finally {
    await end()
  }
}

export async function openSessions(home: string): Promise<{ ctx: Context; end: () => Promise<void> }> {
  const ctx = createRoot()
  await ctx.plugin(session)
  await ctx.plugin(jsonl, jsonl.Config({ folder: join(home, 'sessions') } as jsonl.Config))
  return { ctx, end: () => ctx.fiber.dispose() }
}

export interface Shown {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
  readonly lines: readonly string[]
  json<T = Record<string, unknown>>(): T
}

/** `cambium sessions …`, in this process. */
export async function sessions(argv: readonly string[], options: TestHostOptions = {}): Promise<Shown> {
  const host = testHost({ stdin: 'terminal', ...options })
  const code = await main(['sessions', ...argv], host)
  const stdout = host.stdout.text
  return {
    code,
    stdout,
    stderr: host.stderr.text,
    lines: stdout.split('\n').filter(Boolean),
    json: () => JSON.parse(stdout),
  }
}

/** Where the log of a session lies. */
export function logOf(home: string, id: string): string {
  const root = join(home, 'sessions')
  const file = readdirSync(root, { recursive: true, encoding: 'utf8' }).find(name => name.endsWith(`${id}.jsonl`))
  if (!file) throw new Error(`no log of ${id}`)
  return join(root, file)
}

export const eventsOf = (home: string, id: string): { type: string; seq: number; data: never }[] =>
  readFileSync(logOf(home, id), 'utf8')
    .trimEnd()
    .split('\n')
    .slice(1)
    .map(line => JSON.parse(line))
