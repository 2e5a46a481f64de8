/** Gives an agent its tasks, one after the other, and shows what it did and said: the tree ends with it. */

import type {} from '@cambium/agent'
import type { Context } from '@cambium/core'
import { createUserMessage, textOf } from '@cambium/llm'
import type {} from '@cambium/loader'
import Schema from 'schemastery'
import type {} from './notes.ts'

export const name = 'ask'
export const inject = ['agents', 'notes']

export interface Config {
  tasks: string[]
}
export const Config: Schema<Config> = Schema.object({
  tasks: Schema.array(Schema.string()).default([]).description('What the agent is asked'),
})

export function apply(ctx: Context, { tasks }: Config) {
  ctx.on('notes/made', ({ id, text }) => console.log(`  note ${id}: ${text}`))
  ctx.on('notes/dropped', ({ id }) => console.log(`  note ${id} is gone`))
  ctx.app.main(async signal => {
    const { agent, dispose } = await ctx.agents.create()
    signal.addEventListener('abort', () => agent.cancel({ by: 'user' }), { once: true })
    for (const task of tasks) {
      console.log(`> ${task}`)
      agent.followup(createUserMessage({ content: task, source: { kind: 'user' } }))
      await agent.whenIdle()
      const answer = agent.session.last('assistant/message')
      if (answer) console.log(textOf(answer.data.message))
    }
    const end = agent.session.last('turn/end')
    await dispose()
    return end?.data.reason.kind === 'completed' ? 0 : 1
  })
}
