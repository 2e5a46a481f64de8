/** An agent with the toolbox on a temporary folder; what a tool answers is what its model would read. */

import { type Context, createRoot, createScope } from '@cambium/core'
import * as machine from '@cambium/machine/local'
import * as session from '@cambium/session'
import { type TempWorkspace, tempWorkspace } from '@cambium/testkit'
import * as bash from '@cambium/toolbox/bash'
import * as fs from '@cambium/toolbox/fs'
import * as search from '@cambium/toolbox/search'
import type { Agent, ToolResult } from '@cambium/tools'
import * as tools from '@cambium/tools'
import { onTestFinished } from 'vitest'

export interface Workbench {
  readonly ctx: Context
  readonly agent: Agent
  readonly dir: string
  readonly files: TempWorkspace
  /** Ends the toolbox's plugins. */
  unload(): Promise<void>
  /** One answer of the model with these calls. */
  turn(...calls: Array<[name: string, args: object]>): Promise<readonly ToolResult[]>
  call(name: string, args: object, signal?: AbortSignal): Promise<ToolResult>
  /** As `call`, only what the model reads. */
  ask(name: string, args: object): Promise<string>
}

export interface WorkbenchOptions {
  readonly files?: Readonly<Record<string, string | Uint8Array>>
  readonly machine?: Partial<machine.Config>
  readonly fs?: Partial<fs.Config>
  readonly search?: Partial<search.Config>
  readonly bash?: Partial<bash.Config>
}

export async function openWorkbench(options: WorkbenchOptions = {}): Promise<Workbench> {
  const files = tempWorkspace(options.files)
  const ctx = createRoot()
  onTestFinished(async () => {
    await ctx.fiber.dispose()
    files.dispose()
  })
  await ctx.plugin(session)
  await ctx.plugin(tools)
  await ctx.plugin(machine, options.machine as machine.Config)
  const fibers = [
    await ctx.plugin(fs, options.fs as fs.Config),
    await ctx.plugin(search, options.search as search.Config),
    await ctx.plugin(bash, options.bash as bash.Config),
  ]
  const log = ctx.sessions.create(undefined, { cwd: files.path })
  log.append('turn/start', { turn: 1 })
  log.append('step/start', { turn: 1, step: 1 })
  const agent = { id: log.id, session: log, status: 'running' } as unknown as Agent
  Object.assign(agent, { ctx: createScope(ctx, agent).ctx })

  let calls = 0
  const batch = async (list: Array<[string, object]>, signal = new AbortController().signal) => {
    const numbered = list.map(([name, args]) => ({ callId: `c${++calls}`, name, arguments: JSON.stringify(args) }))
    return (await ctx.tools.runBatch(numbered, { agent, signal })).results
  }
  const call = async (name: string, args: object, signal?: AbortSignal) => (await batch([[name, args]], signal))[0]!
  return {
    ctx,
    agent,
    dir: files.path,
    files,
    async unload() {
      for (const fiber of fibers) await fiber.dispose()
    },
    turn: (...list) => batch(list),
    call,
    ask: async (name, args) => textOf(await call(name, args)),
  }
}

export const textOf = (result: ToolResult): string => tools.resultText(result.content)
