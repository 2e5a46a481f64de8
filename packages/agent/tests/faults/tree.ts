/** The tree that is killed: the real session, store, tools, agent and loop, and a provider behind HTTP. */

import { openSync, writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import * as agent from '@cambium/agent'
import * as loop from '@cambium/agent/loop'
import { type Context, createRoot, type LogRecord } from '@cambium/core'
import * as llm from '@cambium/llm'
import * as openai from '@cambium/llm/openai'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import * as tools from '@cambium/tools'
import { defineTool } from '@cambium/tools'

export interface TreeOptions {
  readonly folder: string
  /** Of the provider. */
  readonly url: string
  /** What really happened, a line each: `effect <call id>` and what else is written down. */
  readonly ledger: string
  /** Told around each side effect. */
  readonly around?: (moment: 'before' | 'after') => void
  readonly random?: () => number
}

/** Writes a line into the ledger, past any function that was replaced since this module was loaded. */
const write = writeSync
const open = openSync
export function ledgerOf(path: string): (line: string) => void {
  const file = open(path, 'a')
  return line => void write(file, `${line}\n`)
}

export async function bootTree(options: TreeOptions): Promise<{ ctx: Context; records: LogRecord[] }> {
  const { folder, url, ledger, around = () => {}, random = () => 0 } = options
  const records: LogRecord[] = []
  const ctx = createRoot({ level: 'warn', write: record => records.push(record) })
  await ctx.plugin(llm)
  const providers = { test: { baseURL: url, apiKey: 'none' } }
  await ctx.plugin(openai, openai.Config({ providers } as unknown as openai.Config))
  await ctx.plugin(session)
  await ctx.plugin(jsonl, jsonl.Config({ folder, partialMs: 50 } as jsonl.Config))
  await ctx.plugin(tools)
  await ctx.plugin(agent)
  await ctx.plugin(loop, loop.Config({ model: 'test/m', persona: 'You are under test.' } as loop.Config))
  const done = ledgerOf(ledger)
  for (const [name, beside] of [
    ['pay', false],
    ['post', true],
  ] as const) {
    ctx.tools.register(
      defineTool({
        name,
        description: 'Has a side effect that can be counted',
        parameters: {},
        isConcurrencySafe: () => beside,
        async execute(_args, exec) {
          exec.progress('begins')
          if (random() < 0.3) await setTimeout(1)
          around('before')
          done(`effect ${exec.callId}`)
          around('after')
          if (random() < 0.5) await setTimeout(random() * 4)
          return 'done'
        },
      }),
    )
  }
  return { ctx, records }
}

/** Numbers that a seed repeats (mulberry32). */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
