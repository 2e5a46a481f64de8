import { fileURLToPath } from 'node:url'
import { createUserMessage } from '@cambium/llm'
import {
  type BootedTree,
  bootTree,
  type ModelServer,
  startModelServer,
  type TempWorkspace,
  tempWorkspace,
} from '@cambium/testkit'
import type { Agent } from '@cambium/tools'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const TREE = fileURLToPath(new URL('../cordis.yml', import.meta.url))
let server: ModelServer
let home: TempWorkspace
let tree: BootedTree

beforeEach(async () => {
  home = tempWorkspace()
  server = await startModelServer({
    // Each prompt is answered with a call, and its result with a word.
    otherwise: ({ body }) =>
      body.messages.at(-1)?.role === 'tool'
        ? 'done'
        : { toolCalls: [{ name: 'bash', arguments: { command: 'echo hi' } }] },
  })
  vi.stubEnv('CAMBIUM_HOME', home.path)
  vi.stubEnv('OPENAI_BASE_URL', server.url)
  vi.stubEnv('OPENAI_API_KEY', 'none')
  tree = await bootTree({ file: TREE })
})
afterEach(async () => {
  await tree.dispose()
  await server.close()
  home.dispose()
  vi.unstubAllEnvs()
})

async function ask(agent: Agent, content: string) {
  agent.followup(createUserMessage({ content, source: { kind: 'user' } }))
  await agent.whenIdle()
  return agent.session.last('turn/end')?.data.reason
}
const create = async () => (await tree.ctx.agents.create({ model: 'openai/test-model', cwd: home.path })).agent
const held = () =>
  tree.ctx.fiber
    .getEffects()
    .map(({ label }) => label)
    .sort()

it('each row of the default tree can be dropped and mounted again while an agent is there, and the work goes on', async () => {
  const before = held()
  const alive = new Set<string>()
  const outlived: string[] = []
  // Listeners of the root stay; the agents come and go with the rows that they are made of.
  const listeners = [
    tree.ctx.on('agent/created', ({ id }) => void alive.add(id)),
    tree.ctx.on('agent/disposed', ({ id }) => void alive.delete(id)),
  ]
  for (const { row } of tree.tree.rows()) {
    const { id } = await create()
    expect(alive).toEqual(new Set([id]))
    await tree.restart(row.id)
    expect(
      tree.tree.rows().filter(({ state }) => state !== 'active'),
      row.id,
    ).toEqual([])
    const there = tree.ctx.agents.get(id)
    expect(alive.has(id), row.id).toBe(there !== undefined)
    if (there) outlived.push(row.id)
    const agent = there ?? (await create())
    expect(await ask(agent, `go, ${row.id}`), row.id).toEqual({ kind: 'completed' })
    expect(agent.session.last('tool/result')?.data.error, row.id).toBeUndefined()
    await tree.restart('agent')
    expect(alive, row.id).toEqual(new Set())
  }
  for (const off of listeners) off()
  expect(outlived).toEqual(
    tree.tree
      .rows()
      .map(({ row }) => row.id)
      .filter(id => !['llm', 'session', 'tools', 'agent'].includes(id)),
  )
  expect(held()).toEqual(before)
})
