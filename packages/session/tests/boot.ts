import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, createRoot, type Fiber, type LogRecord } from '@cambium/core'
import { createUserMessage, type UserMessage } from '@cambium/llm'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
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

export interface Stored extends Booted {
  store: Fiber
  /** Ends this root: the next one on the same folder is a restart. */
  stop(): Promise<void>
}

/** A root with `ctx.sessions` and a store in `folder`. */
export async function bootStore(folder: string, config: Partial<jsonl.Config> = {}): Promise<Stored> {
  const booted = await boot()
  const store = booted.ctx.plugin(jsonl, jsonl.Config({ folder, ...config } as jsonl.Config))
  await store
  return { ...booted, store, stop: () => booted.ctx.fiber.dispose() }
}

export function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cambium-session-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Every file below a folder, relative. */
export const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort()

/** The one log of that id below a folder. */
export function logOf(folder: string, id: string): string {
  const [found] = filesIn(folder).filter(path => path.endsWith(`/${id}.jsonl`))
  if (!found) throw new Error(`no log of ${id} in ${folder}`)
  return join(folder, found)
}

export const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map(line => JSON.parse(line))

export const user = (text: string, id?: string): UserMessage =>
  createUserMessage({ content: text, source: { kind: 'user' }, ...(id ? { id } : {}) })
