/** Shows what a plugin's author sees: a file is saved, and the same conversation goes on with the new code. */

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Context } from '@cambium/core'
import { createUserMessage, textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/session'
import type { Agent } from '@cambium/tools'
import Schema from 'schemastery'

export const name = 'hmr-demo'
export const inject = ['agents', 'tools']

const PLUGIN = fileURLToPath(new URL('./plugin', import.meta.url))
const PATIENCE_MS = 10_000

export interface Config {
  folder: string
}
export const Config: Schema<Config> = Schema.object({
  folder: Schema.string().required().description('Where the plugin is copied to; removed in the end'),
})

export function apply(ctx: Context, { folder }: Config) {
  ctx.effect(() => {
    cpSync(PLUGIN, folder, { recursive: true })
    return () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }, 'the copy of the plugin')
  ctx.app.main(signal => show(ctx, folder, signal))
}

async function show(ctx: Context, folder: string, signal: AbortSignal): Promise<number> {
  await ctx.loader.create({ id: 'weather', name: join(folder, 'weather.ts') })
  const { agent, dispose } = await ctx.agents.create()
  signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })

  await ask(agent, 'How warm is it in Rome?')
  console.log('\n(wording.ts, which station.ts imports, which weather.ts imports, is saved with "Fahrenheit")\n')
  const reloaded = untilReloaded(ctx, 'weather', signal)
  const file = join(folder, 'wording.ts')
  const text = readFileSync(file, 'utf8')
  writeFileSync(file, text.replace("'Celsius'", "'Fahrenheit'"))
  await reloaded
  await ask(agent, 'And now?')

  const turns = agent.session.events().filter(({ type }) => type === 'turn/end').length
  console.log(`\n(${turns} turns of one session, and nothing was restarted but the row weather)`)
  await dispose()
  return 0
}

async function ask(agent: Agent, question: string): Promise<void> {
  console.log(`you    ${question}`)
  agent.followup(createUserMessage({ content: question, source: { kind: 'user' } }))
  await agent.whenIdle()
  const result = agent.session.last('tool/result')?.data.message.content[0]
  const answer = agent.session.last('assistant/message')?.data.message
  if (result?.type === 'tool-result') console.log(`tool   ${textOf(result)}`)
  if (answer) console.log(`model  ${textOf(answer)}`)
}

/** The author would look at the line that says so; a program listens. */
function untilReloaded(ctx: Context, row: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = [
      ctx.on('loader/changed', ({ remounted }) => remounted.includes(row) && settle(resolve)),
      ctx.on('loader/refused', error => settle(() => reject(error))),
      ctx.effect(() => {
        const end = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)])
        const late = () => settle(() => reject(end.reason))
        end.addEventListener('abort', late)
        return () => end.removeEventListener('abort', late)
      }),
    ]
    const settle = (how: () => void) => {
      for (const undo of stop) undo()
      how()
    }
  })
}
