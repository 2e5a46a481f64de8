/** Whole conversations over HTTP, through the loop and the log, with a provider that refuses what is not in order. */

import { createUserMessage, type LlmFailureCode } from '@cambium/llm'
import {
  type BootedTree,
  bootTree,
  type ModelServer,
  type ModelServerOptions,
  type ReplyScript,
  startModelServer,
  type TempWorkspace,
  tempWorkspace,
} from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { clearEnvironment } from './llm.ts'

let home: TempWorkspace
let server: ModelServer
let tree: BootedTree

beforeEach(() => {
  clearEnvironment()
  home = tempWorkspace()
})
afterEach(async () => {
  await tree?.dispose()
  await server?.close()
  home.dispose()
})

async function serve(replies: readonly ReplyScript[], options: ModelServerOptions = {}) {
  server = await startModelServer({ replies, alternateRoles: true, ...options })
  await boot()
}

async function boot() {
  tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/llm/openai'
  config:
    providers: { test: { baseURL: ${server.url}, reasoningKey: reasoning_content } }
- { name: '@cambium/llm/retry', config: { initialMs: 1 } }
- name: '@cambium/session'
- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(home.path)} } }
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: test/m } }
`)
  tree.ctx.tools.register({
    name: 'note',
    description: 'Notes a text down.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    execute: ({ text }: { text: string }) => {
      notes.push(text)
      return `noted ${text}`
    },
  })
}

let notes: string[] = []
beforeEach(() => {
  notes = []
})

type Agent = Awaited<ReturnType<BootedTree['ctx']['agents']['create']>>['agent']

async function say(agent: Agent, content: string) {
  agent.followup(createUserMessage({ content, source: { kind: 'user' } }))
  await agent.whenIdle()
}
const ended = (agent: Agent) => agent.session.last('turn/end')?.data.reason
const note = (text: string, id?: string) => ({ name: 'note', arguments: { text }, ...(id ? { id } : {}) })
const results = () =>
  server.requests
    .at(-1)!
    .body.messages.filter(({ role }) => role === 'tool')
    .map(({ content }) => content)

describe('a conversation', () => {
  it('runs calls of one id apart, in one answer and across answers, and goes on after a restart', async () => {
    await serve([
      { toolCalls: [note('a', 'note:3'), note('b', 'note:3')] },
      { toolCalls: [note('c', 'note:3')] },
      'done',
      { toolCalls: [note('d', 'note:3')] },
      'all',
    ])
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    const { id } = agent
    await tree.dispose()
    await boot()
    const resumed = (await tree.ctx.agents.resume(id)).agent
    await say(resumed, 'again')
    expect(notes).toEqual(['a', 'b', 'c', 'd'])
    expect(results()).toEqual(['noted a', 'noted b', 'noted c', 'noted d'])
    server.expectDone()
  })

  it('gives reasoning back verbatim with its calls, also after a restart and where there was none', async () => {
    await serve([{ reasoning: 'R1', toolCalls: [note('a')] }, { toolCalls: [note('b')] }, 'done', 'again'], {
      check: ({ body }) => {
        const made = body.messages.filter(message => message.tool_calls).map(message => message.reasoning_content)
        return made.every((text, at) => text === ['R1', ''][at]) ? undefined : 'reasoning_content must be passed back'
      },
    })
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    await tree.dispose()
    await boot()
    const resumed = (await tree.ctx.agents.resume(agent.id)).agent
    await say(resumed, 'more')
    expect(ended(resumed)).toEqual({ kind: 'completed' })
    server.expectDone()
  })

  it('treats blank arguments as none: the model is told what is missing, and goes on', async () => {
    await serve([{ toolCalls: [{ name: 'note', arguments: '' }] }, { toolCalls: [note('a')] }, 'done'])
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    expect(results()).toEqual([expect.stringMatching(/text/), 'noted a'])
    expect(ended(agent)).toEqual({ kind: 'completed' })
  })

  it('never runs a call that was cut, tells the model, and stops after a few', async () => {
    const cut = { toolCalls: [note('a'), note('a long text that is cut')], fault: 'length' as const }
    await serve([{ ...cut, times: 3 }])
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    expect(notes).toEqual([])
    expect(server.requests[1]?.text).toMatch(/output limit/)
    expect(ended(agent)?.kind).toBe('max-tokens')
    server.expectDone()
  })

  it('is not doubled by an answer that broke in the middle', async () => {
    await serve([
      { text: 'one two three', pieceChars: 4, fault: 'error-chunk', after: 2, code: 'overloaded_error' },
      'one two three',
    ])
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    const said = agent.session.events().filter(event => event.type === 'assistant/message')
    expect(said).toHaveLength(1)
    expect(agent.session.deriveMessages().at(-1)?.content).toEqual([{ type: 'text', text: 'one two three' }])
  })

  it('recovers from failures, cancels before the first token and within reasoning, and a restart', async () => {
    await serve([
      { fault: '400', times: 3 },
      { text: 'x', fault: 'stall', after: 'request' },
      { reasoning: 'thinking about it', pieceChars: 4, fault: 'stall', after: 2 },
      'here I am',
      'still here',
    ])
    const { agent } = await tree.ctx.agents.create()
    for (let turn = 0; turn < 3; turn++) {
      await say(agent, 'go')
      expect(ended(agent)).toMatchObject({ kind: 'error', error: { code: 'INVALID_REQUEST' satisfies LlmFailureCode } })
    }
    for (const request of [3, 4]) {
      agent.followup(createUserMessage({ content: 'go', source: { kind: 'user' } }))
      await server.request(request)
      if (request === 4) await visible(agent)
      agent.cancel({ by: 'user' })
      await agent.whenIdle()
      expect(ended(agent)?.kind).toBe('aborted')
    }
    await say(agent, 'and now?')
    expect(ended(agent)).toEqual({ kind: 'completed' })
    await tree.dispose()
    await boot()
    const resumed = (await tree.ctx.agents.resume(agent.id)).agent
    await say(resumed, 'and then?')
    expect(ended(resumed)).toEqual({ kind: 'completed' })
    expect(server.requests.at(-1)?.problem).toBeUndefined()
    server.expectDone()
  })

  it('says each retry, and ends when they do not help', async () => {
    await serve([{ fault: '503', times: 5 }])
    const notices: string[] = []
    tree.ctx.on(
      'llm/retry',
      ({ failure, attempt, maxAttempts }) => void notices.push(`${failure.code} ${attempt}/${maxAttempts}`),
    )
    const { agent } = await tree.ctx.agents.create()
    await say(agent, 'go')
    expect(notices).toEqual(['SERVER 2/5', 'SERVER 3/5', 'SERVER 4/5', 'SERVER 5/5'])
    expect(ended(agent)).toMatchObject({ kind: 'error', error: { code: 'SERVER' } })
    server.expectDone()
  })
})

/** Resolves when something of the answer has been shown. */
function visible(agent: Agent): Promise<void> {
  return new Promise(resolve => {
    if (agent.session.partial) return resolve()
    const off = tree.ctx.on('session/event', (_session, event) => {
      if (event.type !== 'assistant/chunk' || event.data.chunk.type !== 'reasoning-delta') return
      off()
      resolve()
    })
  })
}
