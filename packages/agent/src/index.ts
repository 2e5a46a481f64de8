/** Agents, their inbox, the prompt and the commands: `ctx.agents`, `ctx.systemPrompt`, `ctx.commands`. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { CommandRegistry } from './commands.ts'
import { PromptRegistry } from './prompt.ts'
import { AgentRegistry } from './registry.ts'

export type { Agent, CancelCause } from '@cambium/tools'
export type { DrivenAgent, Driver } from './driver.ts'
export * from './events.ts'
export { renderPrompt } from './prompt.ts'

export const name = 'agent'
export const inject = ['llm', 'sessions', 'tools']
export const provide = ['agents', 'systemPrompt', 'commands']

export interface Config {
  sectionMs: number
}
export const Config: Schema<Config> = Schema.object({
  sectionMs: Schema.natural()
    .min(1)
    .default(5_000)
    .description('How long a prompt section that is computed may take, in milliseconds; a slower one is left out'),
})

export function apply(ctx: Context, config: Config) {
  ctx.sessions.defineEvent('agent/model')
  new PromptRegistry(ctx, config.sectionMs)
  new CommandRegistry(ctx)
  new AgentRegistry(ctx)
}
