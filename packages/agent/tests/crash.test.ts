/** A session whose process was killed while tools ran, taken up again with a provider that refuses what is not in order. */

import type {} from '@cambium/agent/compaction'
import { createUserMessage, textOf } from '@cambium/llm'
import { foldSurface, SessionId } from '@cambium/session'
import { type BootedTree, bootTree, type ModelServer, startModelServer, tempWorkspace } from '@cambium/testkit'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ask, reasons, user } from './boot.ts'

const home = tempWorkspace()
let server: ModelServer
let tree: BootedTree
let ran: number

async function boot(replies: readonly string[], rows = '') {
  server = await startModelServer({ replies, alternateRoles: true })
  tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/llm/openai'
  config: { providers: { test: { baseURL: '${server.url}', reasoningKey: reasoning_content, models: [{ id: m, contextWindow: 8000 }] } } }
- name: '@cambium/session'
- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: test/m } }
${rows}`)
  ran = 0
  tree.ctx.tools.register(
    defineTool({ name: 'pay', description: 'Pays', parameters: {}, execute: () => `paid ${++ran}` }),
  )
}

const id = SessionId('killed')
const ids = ['a', 'b', 'c']
const calls = ids.map(callId => ({ type: 'tool-call', id: callId, name: 'pay', arguments: '{}' }))

beforeEach(() => {
  const at = { turn: 1, step: 1 }
  const source = { kind: 'model', provider: 'test', model: 'm' }
  const content = [{ type: 'reasoning', text: 'R1' }, ...calls]
  const result = {
    id: 'r',
    role: 'user',
    source: { kind: 'tool', callId: 'a' },
    content: [{ type: 'tool-result', toolCallId: 'a', content: [{ type: 'text', text: 'paid' }] }],
  }
  const events = [
    ['turn/start', { turn: 1 }],
    ['step/start', at],
    ['user/message', { message: user('pay three bills') }],
    ['request/header', { config: { provider: 'test', model: 'm' } }],
    ['assistant/message', { ...at, message: { id: 'm', role: 'assistant', content, source }, finish: 'tool-calls' }],
    ['tool/call', { ...at, callId: 'a', name: 'pay', arguments: '{}' }],
    ['tool/result', { ...at, message: result }],
    ['tool/call', { ...at, callId: 'b', name: 'pay', arguments: '{}' }],
  ]
  const header = { type: 'session', version: 1, id, createdAt: 1, cwd: home.path }
  const lines = [header, ...events.map(([type, data], seq) => ({ seq, time: 2, type, data }))]
  home.write('work/killed.jsonl', `${lines.map(line => JSON.stringify(line)).join('\n')}\n`)
})
afterEach(async () => {
  await tree.dispose()
  await server.close()
  home.dispose()
})

it('answers each open call right behind its message, before what is said next, and runs none again', async () => {
  await boot(['Hello.', 'And again.'])
  const { agent } = await tree.ctx.agents.resume(id)
  await ask(agent, 'hi')
  const sent = server.requests[0]!.body.messages.map(({ role, tool_call_id, content }) => [
    role,
    tool_call_id ?? content,
  ])
  expect(sent.filter(([role]) => role !== 'system')).toEqual([
    ['user', 'pay three bills'],
    ['assistant', ''],
    ['tool', 'a'],
    ['tool', 'b'],
    ['tool', 'c'],
    ['user', 'hi'],
  ])
  const results = server.requests[0]!.body.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)
  expect(results[0]).toBe('paid')
  expect(results[1]).toMatch(/^Interrupted .*outcome is unknown/)
  expect(results[2]).toMatch(/^Interrupted before .*no effect/)
  expect(ran).toBe(0)
  expect(reasons(agent.session)).toEqual([{ kind: 'interrupted' }, { kind: 'completed' }])
  await tree.dispose()
  await server.close()

  await boot(['Still fine.'])
  await ask((await tree.ctx.agents.resume(id)).agent, 'hi again')
  server.expectDone()
})

it('reads well in a request of another purpose also while nobody has repaired it', async () => {
  await boot(['A summary.'])
  const stored = await tree.ctx.sessionPersistence.read(id)
  const messages = [...foldSurface(stored.events).map(({ message }) => message), user('Sum up.')]
  const said: string[] = []
  for await (const chunk of tree.ctx.llm.stream({ provider: 'test', model: 'm', messages, purpose: 'compaction' })) {
    if (chunk.type === 'text-delta') said.push(chunk.text)
  }
  expect(said.join('')).toBe('A summary.')
  expect(server.requests[0]!.problem).toBeUndefined()
  server.expectDone()
})

it('is made shorter as well: the compaction reads a paired conversation, and what was not known to have run is not run', async () => {
  const long = 'said '.repeat(1_200)
  await boot([long, long, long, 'Three bills were to be paid.', 'Going on.'], "- { name: '@cambium/agent/compaction' }")
  const { agent } = await tree.ctx.agents.resume(id)
  await ask(agent, 'hi')
  await ask(agent, 'more')
  await ask(agent, 'and more')
  expect(await tree.ctx.compaction.compact(agent)).toMatchObject({ tier: 'summary' })
  const sent = server.requests[3]!
  expect(sent.problem).toBeUndefined()
  expect(sent.body.messages.flatMap(({ tool_call_id }) => tool_call_id ?? [])).toEqual(ids)
  expect(sent.body.messages.filter(({ role }) => role === 'tool').map(({ content }) => content)[1]).toMatch(
    /outcome is unknown/,
  )
  await ask(agent, 'and now')
  expect(agent.session.replacements).toBe(1)
  expect(ran).toBe(0)
  server.expectDone()
})

it('gives reasoning back verbatim with what is left of the conversation after a part of it was summed up', async () => {
  await boot(['One.', 'Two.'])
  const { agent } = await tree.ctx.agents.resume(id)
  const [first] = agent.session.surface()
  const message = createUserMessage({
    content: 'Summary: bills are to be paid.',
    source: { kind: 'plugin', plugin: 'test' },
  })
  agent.session.append('context/replaced', { from: first!.seq, to: first!.seq, message })
  await ask(agent, 'hi')
  const made = server.requests[0]!.body.messages.filter(({ tool_calls }) => tool_calls)
  expect(made.map(({ reasoning_content }) => reasoning_content)).toEqual(['R1'])
  const last = agent.session.surface().find(({ message: { id } }) => id === 'm')!
  const results = agent.session.surface().filter(({ message: { source } }) => source.kind === 'tool')
  agent.session.append('context/replaced', {
    from: last.seq,
    to: results.at(-1)!.seq,
    message: { ...message, id: 's2' },
  })
  await ask(agent, 'and now')
  expect(server.requests[1]!.text).not.toContain('R1')
  expect(agent.session.deriveMessages().map(textOf)[0]).toBe('Summary: bills are to be paid.')
  server.expectDone()
})
