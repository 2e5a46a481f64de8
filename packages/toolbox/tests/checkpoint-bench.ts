/** A session with tools and checkpoints on a temporary folder; turns are made by hand, tools and commands are real. */

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import * as agents from '@cambium/agent'
import { type Context, createRoot, createScope, type LogRecord, mountLogger } from '@cambium/core'
import * as llm from '@cambium/llm'
import * as snapshots from '@cambium/machine/checkpoint'
import * as machine from '@cambium/machine/local'
import * as session from '@cambium/session'
import * as jsonl from '@cambium/session/jsonl'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import * as bash from '@cambium/toolbox/bash'
import * as checkpoint from '@cambium/toolbox/checkpoint'
import * as fs from '@cambium/toolbox/fs'
import type { Agent, ToolResult } from '@cambium/tools'
import * as tools from '@cambium/tools'
import { onTestFinished } from 'vitest'

export interface CheckpointBench {
  readonly ctx: Context
  readonly dir: string
  readonly files: TempWorkspace
  /** Where sessions are stored. */
  readonly home: string
  readonly log: session.Session
  logs(): string
  /** One turn whose model calls these tools, each after the other. */
  turn(...calls: [name: string, args: object][]): Promise<ToolResult[]>
  cancellable(signal: AbortSignal, ...calls: [name: string, args: object][]): Promise<ToolResult[]>
  /** As `turn`, all of them calls of one answer. */
  together(...calls: [name: string, args: object][]): Promise<ToolResult[]>
  /** What a person may type. */
  commands(): Promise<{ say(line: string): Promise<string | undefined> }>
  /** Seq of the event before the n-th turn's start. */
  before(turn: number): number
  restore(seq: number, options?: checkpoint.RestoreOptions): Promise<checkpoint.RestoreReport>
  /** From now on turns end without having been asked whether there is more to do. */
  failing(): void
  /** Goes on with another session. */
  use(log: session.Session): void
  /** Drops the wiring plugin and mounts it again. */
  reload(): Promise<void>
}

export interface BenchOptions {
  readonly files?: Readonly<Record<string, string | Uint8Array>>
  readonly git?: boolean
  readonly limits?: Partial<snapshots.Config>
  /** Of another bench: its folder, its home. */
  readonly on?: {
    readonly files?: TempWorkspace
    readonly home?: TempWorkspace
    readonly cwd?: string
    readonly store?: string
  }
  readonly stored?: boolean
}

export const sh = (cwd: string, command: string) => execFileSync('bash', ['-c', command], { cwd, encoding: 'utf8' })

export const initGit = (dir: string) =>
  sh(dir, 'git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm start --allow-empty')

export async function openBench(options: BenchOptions = {}): Promise<CheckpointBench> {
  const files = options.on?.files ?? tempWorkspace(options.files)
  const home = options.on?.home ?? tempWorkspace()
  const dir = options.on?.cwd ?? files.path
  if (options.git) initGit(dir)
  const ctx = createRoot()
  const records: LogRecord[] = []
  mountLogger(ctx, 'info', record => void records.push(record))
  onTestFinished(async () => {
    await ctx.fiber.dispose()
    files.dispose()
    home.dispose()
  })
  await ctx.plugin(session)
  if (options.stored ?? true) await ctx.plugin(jsonl, { folder: options.on?.store ?? home.path } as jsonl.Config)
  await ctx.plugin(tools)
  await ctx.plugin(machine)
  await ctx.plugin(snapshots, options.limits as snapshots.Config)
  await ctx.plugin(fs)
  await ctx.plugin(bash)
  let wiring = await ctx.plugin(checkpoint)
  let agent: Agent
  let log: session.Session
  const use = (next: session.Session) => {
    log = next
    agent = { id: log.id, session: log, status: 'running' } as unknown as Agent
    Object.assign(agent, { ctx: createScope(ctx, agent).ctx })
  }
  use(ctx.sessions.create(undefined, { cwd: dir }))

  let calls = 0
  let fails = false
  const run = async (batches: [name: string, args: object][][], signal = new AbortController().signal) => {
    const turn = log.lastTurn + 1
    log.append('turn/start', { turn })
    log.append('step/start', { turn, step: 1 })
    const results: ToolResult[] = []
    for (const batch of batches) {
      const list = batch.map(([name, args]) => ({ callId: `c${++calls}`, name, arguments: JSON.stringify(args) }))
      results.push(...(await ctx.tools.runBatch(list, { agent, signal })).results)
    }
    log.append('step/end', { turn, step: 1 })
    if (!signal.aborted && !fails) await ctx.serial('agent/turn-stopping', { agent, turn, signal })
    log.append('turn/end', { turn, reason: { kind: 'completed' } })
    return results
  }
  return {
    ctx,
    dir,
    files,
    home: home.path,
    get log() {
      return log
    },
    logs: () => records.map(record => `${record.level} ${record.text}`).join('\n'),
    turn: (...list) => run(list.map(one => [one])),
    cancellable: (signal, ...list) => run([list], signal),
    together: (...list) => run([list]),
    async commands() {
      await ctx.plugin(llm)
      await ctx.plugin(agents)
      return { say: async line => (await ctx.commands.run(line, agent))?.text }
    },
    before: turn => session.turnsOf(log.events()).find(one => one.turn === turn)!.from - 1,
    restore: (seq, given) => ctx.checkpoints.restore(log, seq, given),
    failing() {
      fails = true
    },
    use,
    async reload() {
      await wiring.dispose()
      wiring = await ctx.plugin(checkpoint)
    },
  }
}

/** Everything below a folder but `.git`: kinds, modes, contents and link targets, one line each. */
export function treeOf(dir: string): string[] {
  const lines: string[] = []
  const walk = (folder: Buffer, name: string) => {
    for (const entry of readdirSync(folder, { encoding: 'buffer' }).sort(Buffer.compare)) {
      const shown = `${name}${entry.toString('latin1')}`
      if (shown === '.git') continue
      const path = Buffer.concat([folder, Buffer.from('/'), entry])
      const stat = lstatSync(path)
      const mode = (stat.mode & 0o7777).toString(8)
      if (stat.isSymbolicLink()) lines.push(`${shown} -> ${readlinkSync(path)}`)
      else if (stat.isDirectory()) {
        lines.push(`${shown}/ ${mode}`)
        walk(path, `${shown}/`)
      } else lines.push(`${shown} ${mode} ${createHash('sha1').update(readFileSync(path)).digest('hex')}`)
    }
  }
  walk(Buffer.from(dir), '')
  return lines
}

/** Every byte, mode and time of a repository's own files. */
export function gitFiles(dir: string): string[] {
  return readdirSync(join(dir, '.git'), { recursive: true, encoding: 'utf8' })
    .sort()
    .map(name => {
      const stat = lstatSync(join(dir, '.git', name))
      const content = stat.isFile() ? readFileSync(join(dir, '.git', name)) : ''
      return `${name} ${stat.mode} ${stat.mtimeMs} ${createHash('sha1').update(content).digest('hex')}`
    })
}
