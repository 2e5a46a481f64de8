/** Keeps a conversation short enough for its model: old results first, then old thoughts, then a summary in place of what was said. */

import { type Context, Service } from '@cambium/core'
import type { Agent } from '@cambium/tools'
import type { Compaction, CompactionResult } from './compaction/contract.ts'
import { Keeper } from './compaction/keeper.ts'
import { Settings } from './compaction/settings.ts'
import type {} from './index.ts'

export type * from './compaction/contract.ts'

export const name = 'compaction'
export const inject = ['agents', 'commands', 'llm', 'sessions', 'systemPrompt']
export const provide = ['compaction']

export type Config = Settings
export const Config = Settings

class CompactionService extends Service implements Compaction {
  private readonly keeper: Keeper

  constructor(ctx: Context, keeper: Keeper) {
    super(ctx, 'compaction')
    this.keeper = keeper
  }

  compact(agent: Agent, { focus, signal }: Parameters<Compaction['compact']>[1] = {}): Promise<CompactionResult> {
    return this.keeper.compact(agent, focus, signal)
  }

  running(agent: Agent): boolean {
    return this.keeper.running(agent.session)
  }
}

export function apply(ctx: Context, config: Config) {
  ctx.sessions.defineEvent('compaction/started')
  ctx.sessions.defineEvent('compaction/ended')
  const keeper = new Keeper(ctx, config)
  ctx.effect(() => () => keeper.dispose(), 'compactions under way')
  const compaction = new CompactionService(ctx, keeper)

  // Outermost, each of them: what the others have made of it is what goes out.
  const last = { prepend: true }
  ctx.on(
    'system-prompt/assemble',
    async ({ agent }, next) => {
      const assembly = await next()
      if (agent && assembly) keeper.remember(agent, assembly)
      return assembly
    },
    last,
  )
  ctx.on(
    'agent/request',
    async ({ agent, signal }, next) => {
      const chosen = await next()
      if (chosen?.provider && chosen.model) await keeper.beforeRequest(agent, chosen, signal)
      return chosen
    },
    last,
  )
  ctx.on('agent/request-error', async (input, next) => {
    const decision = await next()
    const is = config.enabled && input.failure.code === 'CONTEXT_WINDOW_EXCEEDED' && decision?.kind === 'fail'
    return is && (await keeper.afterRefusal(input)) ? { kind: 'retry' } : decision
  })

  ctx.commands.register({
    name: 'compact',
    description: 'Sums up what was said so far, so that there is room again',
    usage: '[what to keep above all]',
    async run({ agent, args, signal }) {
      return said(await compaction.compact(agent, { ...(args ? { focus: args } : {}), signal }))
    },
  })
}

function said({ tier, why, before, after }: CompactionResult): string {
  const count = (tokens: number) => tokens.toLocaleString('en-US')
  if (!tier)
    return `The conversation stays as it is, about ${count(before)} tokens: ${why ?? 'there was nothing to do'}.`
  return `Compacted: about ${count(before)} tokens before, ${count(after)} now. What was said can still be read above.`
}
