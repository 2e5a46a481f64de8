import { fileURLToPath } from 'node:url'
import { SessionId } from '@cambium/session'
import {
  type BootedTree,
  bootTree,
  call,
  type FakeModel,
  type FakeReply,
  fakeModel,
  say,
  tempWorkspace,
} from '@cambium/testkit'
import { defineTool, type ToolExecution } from '@cambium/tools'
import { afterEach, expect, it, vi } from 'vitest'

const file = fileURLToPath(new URL('cookbook/cordis.yml', import.meta.url))
let tree: BootedTree
let model: FakeModel

async function boot(rows: string, replies: readonly FakeReply[]) {
  const text = `
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: fake/model } }
${rows}`
  tree = await bootTree({ text, file })
  model = fakeModel(tree.ctx, replies)
}

afterEach(async () => {
  await tree.dispose()
  vi.unstubAllGlobals()
})

it('the permission gate of the cookbook denies what its policy does not allow', async () => {
  vi.stubGlobal('isAllowed', async (exec: ToolExecution) => exec.name === 'look')
  await boot('- name: ./gate.ts', [{ calls: [{ name: 'look' }, { name: 'touch' }] }, say('done')])
  const ran: string[] = []
  for (const name of ['look', 'touch']) {
    const execute = () => `${ran.push(name)}`
    tree.ctx.tools.register(defineTool({ name, description: name, parameters: {}, execute }))
  }
  const { agent } = await tree.ctx.agents.create()
  agent.followup({ id: '1', role: 'user', content: [{ type: 'text', text: 'go' }], source: { kind: 'user' } })
  await agent.whenIdle()
  expect(ran).toEqual(['look'])
  expect(JSON.stringify(model.requests[1]!.messages)).toContain('Denied by policy.')
})

it('the user interface of the cookbook renders deltas and sends input to its session', async () => {
  const rendered: string[] = []
  let type: (text: string) => void = () => {}
  vi.stubGlobal('render', (text: string) => void rendered.push(text))
  vi.stubGlobal('onUserInput', (handler: typeof type) => {
    type = handler
  })
  await boot('- name: ./ui.ts', [{ text: ['Hel', 'lo'] }])
  const { agent } = await tree.ctx.agents.create({ id: SessionId('client-session') })
  type('hi')
  await agent.whenIdle()
  expect(rendered.join('')).toBe('Hello')
  expect(agent.session.last('user/message')?.data.message.source).toEqual({ kind: 'user' })
})

it('the protocol bridge of the cookbook mounts on the services it names', async () => {
  const home = await tempWorkspace()
  await boot(
    `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }\n- name: ./bridge.ts`,
    [call('nothing'), say('ok')],
  )
  expect(tree.tree.rows().map(row => row.state)).not.toContain('pending')
  const { agent } = await tree.ctx.agents.create()
  agent.followup({ id: '1', role: 'user', content: [{ type: 'text', text: 'go' }], source: { kind: 'user' } })
  await agent.whenIdle()
  expect(agent.session.last('turn/end')?.data.reason).toEqual({ kind: 'completed' })
  await home.dispose()
})
