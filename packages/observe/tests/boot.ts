/** Boots the spine with a fake model and the plugins under test. */

import { createUserMessage, type UserMessage } from '@cambium/llm'
import { type BootedTree, bootTree, type FakeModel, type FakeReply, fakeModel } from '@cambium/testkit'
import type { Agent } from '@cambium/tools'

const SPINE = [
  { name: '@cambium/llm' },
  { name: '@cambium/llm/retry', config: { initialMs: 1, maxDelayMs: 1 } },
  { name: '@cambium/session' },
  { name: '@cambium/tools' },
  { name: '@cambium/agent' },
  { id: 'loop', name: '@cambium/agent/loop', config: { model: 'fake/model', persona: 'You are under test.' } },
]

export interface Watched extends BootedTree {
  readonly model: FakeModel
}

/** `file` is where the tree's text is said to stand; its folder is where relative rows are looked for. */
export async function boot(rows: readonly object[], replies: readonly FakeReply[] = [], file = 'cordis.yml') {
  const tree = await bootTree({ data: [...SPINE, ...rows], file })
  return Object.assign(tree, { model: fakeModel(tree.ctx, replies) }) as Watched
}

export const user = (text: string): UserMessage => createUserMessage({ content: text, source: { kind: 'user' } })

export async function ask(agent: Agent, text: string): Promise<void> {
  agent.followup(user(text))
  await agent.whenIdle()
}
