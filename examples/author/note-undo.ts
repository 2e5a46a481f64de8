/** Lets each agent take back its own last note, and nobody else's. */

import type { Agent } from '@cambium/agent'
import { type Context, createScope } from '@cambium/core'
import { defineTool } from '@cambium/tools'
import type {} from './notes.ts'

export const name = 'note-undo'
export const inject = ['notes', 'tools', 'agents']

export function apply(ctx: Context) {
  // Those that are there already when this plugin is mounted anew, and those to come.
  for (const agent of ctx.agents.list()) equip(ctx, agent)
  ctx.on('agent/created', agent => equip(ctx, agent))
}

/** What is registered here this agent alone has. It leaves with the agent or with the plugin, whichever ends first. */
function equip(ctx: Context, agent: Agent) {
  const { ctx: own } = createScope(ctx, agent)
  own.tools.register(
    defineTool({
      name: 'undo_note',
      description: 'Takes back the last note that you made.',
      parameters: {},
      execute() {
        const last = ctx.notes.list().findLast(({ by }) => by === agent.id)
        return last ? `Dropped: ${ctx.notes.drop(last.id).text}` : 'You made no note that is still there.'
      },
    }),
  )
}
