/** The demo: an agent repairs a small repository whose tests fail. */

import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { foldOutcome, Progress, retryLine, StatusLine } from '@cambium/cli/progress'
import type { Context } from '@cambium/core'
import { createUserMessage, price } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/session'
import Schema from 'schemastery'
import { folderDiff } from './folder-diff.ts'

export const name = 'repair'
export const inject = ['agents', 'llm', 'tools']

const SAMPLE = fileURLToPath(new URL('./sample', import.meta.url))
const TASK = 'The tests of this repository fail. Find out why, repair the code, and show that they pass.'

export interface Config {
  folder: string
}
export const Config: Schema<Config> = Schema.object({
  folder: Schema.string().required().description('Where the repository is copied to; removed in the end'),
})

export function apply(ctx: Context, { folder }: Config) {
  const copy = join(folder, 'tiny-csv')
  ctx.effect(() => {
    mkdirSync(folder, { recursive: true })
    cpSync(SAMPLE, copy, { recursive: true })
    return () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }, 'the copy of the sample')
  ctx.app.main(signal => repair(ctx, copy, signal))
}

async function repair(ctx: Context, copy: string, signal: AbortSignal): Promise<number> {
  const { route, notice } = await ctx.llm.resolve('auto')
  console.log(`A small repository whose tests fail is in ${copy}, until this ends.`)
  if (notice) console.log(`Note: ${notice}. What the model says comes from scenario.yml; every tool call is real.`)
  console.log(`\nTask: ${TASK}\n`)

  const { agent, dispose } = await ctx.agents.create({ cwd: copy, model: `${route.provider}/${route.model}` })
  signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })
  const terminal = process.stderr.isTTY === true
  const line = new StatusLine(process.stderr, terminal)
  const progress = new Progress({
    line,
    color: terminal && !process.env.NO_COLOR,
    present: (tool, args) => ctx.tools.get(tool, agent)?.presentCall?.(args),
  })
  ctx.on('session/event', (session, event) => {
    if (session === agent.session) progress.event(event)
  })
  ctx.on('llm/retry', notice => line.print(retryLine(notice)))
  progress.start(`${route.provider}/${route.model}`)
  agent.followup(createUserMessage({ content: TASK, source: { kind: 'user' } }))
  await agent.whenIdle()
  const outcome = foldOutcome(agent.session.events(), (usage, used) => price(usage, ctx.llm.modelInfo(used)))
  progress.stop()
  line.print(progress.summary(outcome, agent.id))
  await dispose()
  if (signal.aborted) return 1

  console.log(`\n${outcome.answer || outcome.failure?.message}\n`)
  console.log(folderDiff(SAMPLE, copy) || 'Nothing was changed.\n')
  // The agent's own account proves nothing: the tests are run once more, here.
  const tests = spawnSync(process.execPath, ['--test'], { cwd: copy, encoding: 'utf8' })
  const passed = tests.status === 0
  console.log(passed ? 'The tests pass now.' : `The tests still fail:\n${failures(tests.stdout)}`)
  return passed ? 0 : 1
}

/** The lines of a TAP report that name what failed, and its counts. */
function failures(report: string): string {
  return (report.match(/^not ok .*|^# (tests|pass|fail) .*/gm) ?? [report]).join('\n')
}
