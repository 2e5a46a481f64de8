/** Boots a tree with compaction against a strict model server, and reads what came of it. */

import type { Agent } from '@cambium/agent'
import type {} from '@cambium/agent/compaction'
import { type Message, normaliseMessages, textOf } from '@cambium/llm'
import type { Session, SessionEvent } from '@cambium/session'
import {
  type BootedTree,
  bootTree,
  type ModelRequest,
  type ModelServer,
  type ModelServerOptions,
  startModelServer,
} from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { ask } from './boot.ts'

export interface CompactingOptions extends ModelServerOptions {
  /** Of the model `test/m`; undefined leaves it unknown. */
  readonly window?: number
  readonly settings?: Readonly<Record<string, unknown>>
  /** More models of the provider. */
  readonly models?: never
  readonly others?: readonly { id: string; contextWindow?: number }[]
  readonly folder?: string
  readonly retry?: Readonly<Record<string, unknown>>
  readonly persona?: string
  readonly rows?: string
}

export interface Compacting {
  readonly tree: BootedTree
  readonly server: ModelServer
  agent(options?: Parameters<BootedTree['ctx']['agents']['create']>[0]): Promise<Agent>
  close(): Promise<void>
}

/** Each word about a token. */
export const words = (count: number, word = 'lorem') => `${word} `.repeat(count).trim()

export async function compacting(options: CompactingOptions = {}, running?: ModelServer): Promise<Compacting> {
  const {
    window,
    settings = {},
    others = [],
    folder,
    retry = {},
    persona = 'You are under test.',
    rows = '',
    ...rest
  } = options
  const server = running ?? (await startModelServer({ alternateRoles: true, ...rest }))
  const models = [{ id: 'm', ...(window ? { contextWindow: window } : {}) }, ...others]
  const tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/llm/openai'
  config: { providers: { test: { baseURL: '${server.url}', reasoningKey: reasoning_content, models: ${JSON.stringify(models)} } } }
- { name: '@cambium/llm/retry', config: ${JSON.stringify({ initialMs: 1, maxAttempts: 2, ...retry })} }
- name: '@cambium/session'
${folder ? `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(folder)} } }` : ''}
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: test/m, persona: ${JSON.stringify(persona)} } }
- { id: compaction, name: '@cambium/agent/compaction', config: ${JSON.stringify(settings)} }
${rows}
`)
  tree.ctx.tools.register(
    defineTool({
      name: 'look',
      description: 'Looks at something.',
      parameters: { words: { type: 'integer', required: true } },
      readOnly: true,
      execute: ({ words: count }) => `seen ${words(count)}`,
    }),
  )
  return {
    tree,
    server,
    agent: async made => (await tree.ctx.agents.create(made)).agent,
    close: async () => {
      await tree.dispose()
      if (!running) await server.close()
    },
  }
}

export const look = (count: number, id?: string) => ({
  name: 'look',
  arguments: { words: count },
  ...(id ? { id } : {}),
})

export async function say(agent: Agent, ...texts: readonly string[]): Promise<void> {
  for (const text of texts) await ask(agent, text)
}

export const isSummary = (request: ModelRequest) => /about to be shortened/.test(request.text)

export function ends(session: Session): SessionEvent<'compaction/ended'>['data'][] {
  return session.events().flatMap(event => (event.type === 'compaction/ended' ? [event.data] : []))
}

/** Everything that people read, without the marks of what was replaced. */
export const readable = (session: Session) => session.transcript().filter(({ kind }) => kind === 'message')

/** One line a message, as the model would read them. */
export function lines(messages: readonly Message[]): string[] {
  return messages.map(({ role, content }) => {
    const parts = content.map(block => {
      if (block.type === 'tool-call') return `call ${block.id}`
      if (block.type === 'tool-result') return `result ${block.toolCallId} ${textOf({ content: block.content })}`
      return block.type === 'image' ? 'image' : block.type === 'reasoning' ? `thought ${block.text}` : block.text
    })
    return `${role}: ${parts.join(' | ')}`
  })
}

/** What is wrong with the pairs of a list of messages, which nobody has repaired: nothing for a whole one. */
export function unpaired(messages: readonly Message[]): string[] {
  const open = new Set<string>()
  const wrong: string[] = []
  for (const { content } of messages) {
    for (const block of content) {
      if (block.type === 'tool-call') open.add(block.id)
      if (block.type === 'tool-result' && !open.delete(block.toolCallId)) wrong.push(`result of ${block.toolCallId}`)
    }
  }
  return [...wrong, ...[...open].map(id => `call ${id}`)]
}

export const sent = (messages: readonly Message[]) => normaliseMessages(messages).messages
