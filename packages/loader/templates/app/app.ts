/** Gives an agent one task, and prints what it answers. */

import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import { createUserMessage, textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import Schema from 'schemastery'

export const name = 'sample-app'
export const inject = ['agents']
export const provide: readonly string[] = []

export interface Config {
  task: string
}
export const Config: Schema<Config> = Schema.object({
  task: Schema.string()
    .default('What is in this folder?')
    .description('What is asked when the command line says nothing'),
})

export function apply(ctx: Context, { task }: Config) {
  ctx.app.claim('stdout')
  // Begins when the whole tree stands; the tree ends with it.
  ctx.app.main(signal => run(ctx, ctx.app.args.join(' ') || task, signal))
}

async function run(ctx: Context, task: string, signal: AbortSignal): Promise<number> {
  const { agent, dispose } = await ctx.agents.create()
  signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })
  ctx.on('session/event', (session, event) => {
    if (session === agent.session && event.type === 'tool/call') console.log(`  calls ${event.data.name}`)
  })
  console.log(`> ${task}`)
  agent.followup(createUserMessage({ content: task, source: { kind: 'user' } }))
  await agent.whenIdle()
  const answer = agent.session.last('assistant/message')
  const end = agent.session.last('turn/end')
  await dispose()
  if (answer) console.log(textOf(answer.data.message))
  if (end?.data.reason.kind === 'completed') return 0
  console.error(`the turn ended with ${JSON.stringify(end?.data.reason)}`)
  return 1
}
