/** The loop: mounts the driver that takes every agent through its turns. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './index.ts'
import { TurnRunner } from './turn.ts'

export const name = 'agent-loop'
export const inject = ['agents', 'systemPrompt', 'llm', 'sessions', 'tools']

const PERSONA = `You are Cambium, an agent that does work for a person on their machine.

Use the tools you are given to look before you act: read what is there, make the change that was asked for and no other, and check it by running what proves it. Say plainly what you did, what you saw, and what you could not do. When a tool fails, read its message and try what it suggests; do not repeat a call that failed without changing something.`

const ENVIRONMENT = 'Working directory: {{cwd}}\nPlatform: {{platform}}'

export interface Config {
  model: string
  effort?: string
  persona: string
}
export const Config: Schema<Config> = Schema.object({
  model: Schema.string()
    .default('auto')
    .description('What an agent uses that was told nothing: `provider/model`, a provider, or `auto`'),
  effort: Schema.string().description(
    'How hard models think, as `low`, `high` or `none`; their own measure by default. `cambium models --json` lists what each has',
  ),
  persona: Schema.string()
    .default(PERSONA)
    .description('The first section of the system prompt; may use {{variables}}'),
})

export function apply(ctx: Context, config: Config) {
  const { systemPrompt } = ctx
  systemPrompt.variable('cwd', ({ agent }) => agent?.session.header.cwd ?? process.cwd())
  systemPrompt.variable('platform', process.platform)
  systemPrompt.section({ name: 'persona', order: 0, text: config.persona })
  systemPrompt.section({ name: 'environment', order: 10, text: ENVIRONMENT })
  const runner = new TurnRunner(ctx)
  const { model, effort } = config
  if (effort) {
    ctx.on('agent/request', async (_input, next) => {
      const chosen = await next()
      return { effort, ...chosen }
    })
  }
  ctx.agents.drive({ model, turn: (agent, signal) => runner.run(agent, signal) })
}
