/** Drives an agent without a screen: one task in, one answer out. */

import { text } from 'node:stream/consumers'
import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import { createUserMessage, textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import Schema from 'schemastery'

export const name = 'headless-driver'
export const inject = ['agents']

export interface Config {
  task?: string
}
export const Config: Schema<Config> = Schema.object({
  task: Schema.string().description('What the agent is to do; read from standard input when it is left out'),
})

export function apply(ctx: Context, { task }: Config) {
  if (task === undefined) ctx.app.claim('stdin')
  ctx.app.main(signal => drive(ctx, task, signal))
}

async function drive(ctx: Context, given: string | undefined, signal: AbortSignal): Promise<number> {
  const task = (given ?? (process.stdin.isTTY ? '' : await text(process.stdin))).trim()
  if (!task) {
    console.error('there is no task: pipe one in, or give it with --set driver.task="…"')
    return 0
  }
  const { agent, dispose } = await ctx.agents.create()
  signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })
  const from = agent.session.seq
  agent.followup(createUserMessage({ content: task, source: { kind: 'user' } }))
  // A receipt belongs to no turn in particular: what counts is what was logged until the agent was idle again.
  await agent.whenIdle()
  const events = agent.session.events(from)
  await dispose()
  const answer = events.findLast(event => event.type === 'assistant/message')
  const end = events.findLast(event => event.type === 'turn/end')
  if (answer) console.log(textOf(answer.data.message))
  if (end?.data.reason.kind === 'completed') return 0
  console.error(`the turn ended with ${JSON.stringify(end?.data.reason)}`)
  return 1
}
