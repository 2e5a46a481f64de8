/** `ctx.commands`: what a person may type with a slash in front, whatever the surface. */

import { type Context, HarnessError, nearest, ScopedRegistry, type ScopeKey, Service } from '@cambium/core'
import type { Agent } from '@cambium/tools'
import type { Command, Commands } from './events.ts'

const LINE = /^\/([a-z][a-z0-9_:-]*)(?:\s+([\s\S]*))?$/i

export class CommandRegistry extends Service implements Commands {
  private readonly commands = new ScopedRegistry<Command>({ noun: 'command', duplicateCode: 'COMMAND_DUPLICATE' })

  constructor(ctx: Context) {
    super(ctx, 'commands')
  }

  register(command: Command): () => void {
    return this.commands.register(this.ctx, command.name, command)
  }

  get(name: string, scope?: ScopeKey): Command | undefined {
    return this.commands.get(name, scope)
  }

  list(scope?: ScopeKey): Command[] {
    return this.commands.list(scope)
  }

  async run(line: string, agent: Agent, signal?: AbortSignal): Promise<{ text: string | undefined } | undefined> {
    const match = LINE.exec(line.trim())
    if (!match) return undefined
    const [, name = '', args = ''] = match
    const command = this.commands.get(name, agent)
    if (!command) {
      const known = [...this.commands.entries(agent).keys()]
      const near = nearest(name, known)
      throw new HarnessError('COMMAND_UNKNOWN', `there is no command /${name}`, {
        fix: near ? `did you mean /${near}?` : 'type /help, or start the line with a space to send it as it is',
      })
    }
    const text = await command.run({ agent, args: args.trim(), signal: signal ?? new AbortController().signal })
    return { text: text ?? undefined }
  }
}
