/** Boots the spine with a fake model, and reads a session's log back in words. */

import type { AgentHandle, CreateAgentOptions } from '@cambium/agent'
import type { Context } from '@cambium/core'
import { createUserMessage, type Message, textOf, type UserMessage } from '@cambium/llm'
import type { Session, SessionEvent } from '@cambium/session'
import { type BootedTree, bootTree, type FakeModel, type FakeReply, fakeModel } from '@cambium/testkit'
import type { Agent } from '@cambium/tools'

export const SPINE = `
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- id: agent
  name: '@cambium/agent'
- id: loop
  name: '@cambium/agent/loop'
  config: { model: fake/model, persona: You are under test. }
`

export interface Spine extends BootedTree {
  readonly model: FakeModel
  agent(options?: CreateAgentOptions): Promise<Agent & { handle: AgentHandle }>
}

/** The spine's rows and `more` YAML; the agents belong to the root and go with it. */
export async function bootSpine(replies: readonly FakeReply[] = [], more = '', agent = {}): Promise<Spine> {
  const patch = { text: JSON.stringify([{ id: 'agent', config: agent }]), file: 'agent.yml' }
  const tree = await bootTree(SPINE + more, { patches: [patch] })
  const model = fakeModel(tree.ctx, replies)
  return Object.assign(tree, {
    model,
    async agent(options: CreateAgentOptions = {}) {
      const handle = await tree.ctx.agents.create(options)
      return Object.assign(handle.agent, { handle })
    },
  })
}

export const user = (text: string): UserMessage => createUserMessage({ content: text, source: { kind: 'user' } })
export const aside = (text: string): UserMessage =>
  createUserMessage({ content: text, source: { kind: 'plugin', plugin: 'test' } })

/** Sends a prompt and waits until nothing runs any more. */
export async function ask(agent: Agent, text: string): Promise<void> {
  agent.followup(user(text))
  await agent.whenIdle()
}

export const types = (session: Session): string[] => session.events().map(event => event.type)

/** What the model of a request read, one line a message. */
export function transcript(messages: readonly Message[]): string[] {
  return messages.map(message => {
    const parts = message.content.map(block => {
      if (block.type === 'tool-call') return `call ${block.name} ${block.arguments}`
      if (block.type === 'tool-result') return `result ${textOf({ content: block.content })}`
      return block.type === 'image' ? 'image' : block.text
    })
    return `${message.role}: ${parts.join(' | ')}`
  })
}

export function reasons(session: Session): unknown[] {
  return session
    .events()
    .filter((event): event is SessionEvent<'turn/end'> => event.type === 'turn/end')
    .map(event => event.data.reason)
}

/** Resolves with the arguments of the next such event. */
export function next(ctx: Context, name: 'session/event', type: string): Promise<void> {
  return new Promise(resolve => {
    const off = ctx.on(name, (_session, event) => {
      if (event.type !== type) return
      off()
      resolve()
    })
  })
}
