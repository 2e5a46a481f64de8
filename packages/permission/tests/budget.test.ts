import { createUserMessage } from '@cambium/llm'
import { type BootedTree, bootTree, call, type FakeModel, type FakeReply, fail, fakeModel, say } from '@cambium/testkit'
import type { Agent } from '@cambium/tools'
import { defineTool } from '@cambium/tools'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

let tree: BootedTree
let model: FakeModel
let agent: Agent

async function boot(budget: string, replies: readonly FakeReply[]) {
  tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: fake/model } }
- { name: '@cambium/session/title', config: { ask: false } }
- { name: '@cambium/permission/budget', config: ${budget} }
`)
  model = fakeModel(tree.ctx, replies)
  tree.ctx.tools.register(defineTool({ name: 'work', description: 'Works', parameters: {}, execute: () => 'worked' }))
  agent = (await tree.ctx.agents.create()).agent
}

async function ask(text = 'go') {
  agent.followup(createUserMessage({ content: text, source: { kind: 'user' } }))
  await agent.whenIdle()
  return agent.session.last('turn/end')?.data.reason
}

afterEach(() => tree?.dispose())

describe('a budget', () => {
  it('of tokens and money counts what summaries have cost, each by its own model', async () => {
    const used = { inputTokens: 800_000, outputTokens: 100_000 }
    await boot('{ session: { maxCost: 1 } }', [say('done', { inputTokens: 100_000 }), say('that was all')])
    for (const type of ['compaction/started', 'compaction/ended'] as const) tree.ctx.sessions.defineEvent(type)
    expect(await ask()).toEqual({ kind: 'completed' })
    const none = { cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
    const spent = [
      { provider: 'fake', model: 'model', usage: { ...used, ...none } },
      { provider: 'gone', model: 'free', usage: { ...used, ...none } },
    ]
    const route = { provider: 'fake', model: 'model' }
    agent.session.append('compaction/started', { id: 'c', reason: 'manual', before: 9, ...route })
    agent.session.append('compaction/ended', { id: 'c', before: 9, after: 1, fits: true, tier: 'summary', spent })
    expect(await ask()).toMatchObject({ kind: 'limit', reason: expect.stringContaining('$1') })
  })

  it('of steps lets the model sum up without tools, and the turn ends by the limit', async () => {
    await boot('{ turn: { maxSteps: 2 } }', [call('work'), call('work'), say('two things are done')])
    expect(await ask()).toEqual({ kind: 'limit', reason: '2 steps of this turn are used up' })
    expect(model.requests).toHaveLength(3)
    expect(model.requests[2]!.tools).toBeUndefined()
    const last = model.requests[2]!.messages.at(-1)!
    expect(JSON.stringify(last.content)).toMatch(/2 steps of this turn are used up.*Sum up/)
  })

  it('never runs a tool that the last answer asks for all the same', async () => {
    await boot('{ turn: { maxSteps: 1 } }', [call('work'), call('work')])
    expect(await ask()).toEqual({ kind: 'limit', reason: 'the one step of this turn is used up' })
    expect(agent.session.events().filter(event => event.type === 'tool/call')).toHaveLength(1)
    // Nor does the log keep a call that nobody has begun, for the next turn to wonder what became of it.
    expect(agent.session.last('assistant/message')?.data.message.content).toEqual([])
  })

  it('of a turn starts anew with the next one, of a session does not', async () => {
    await boot('{ turn: { maxSteps: 5 }, session: { maxSteps: 2 } }', [say('a'), say('b'), say('over')])
    expect(await ask()).toEqual({ kind: 'completed' })
    expect(await ask()).toEqual({ kind: 'completed' })
    expect(await ask()).toEqual({ kind: 'limit', reason: '2 steps of this session are used up' })
  })

  it('of a session counts what asking for its title has cost', async () => {
    await boot('{ session: { maxTokens: 1000 } }', [say('a'), say('over')])
    expect(await ask()).toEqual({ kind: 'completed' })
    const usage = { inputTokens: 900, outputTokens: 100, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
    const route = { provider: 'fake', model: 'model' }
    agent.session.append('session/title', { title: 'A costly name', by: 'model', usage, route })
    expect(await ask()).toEqual({ kind: 'limit', reason: '1000 tokens of this session are used up' })
  })

  it('of tokens counts cached ones and failed attempts', async () => {
    const failed = { ...fail('SERVER'), usage: { inputTokens: 20, cacheReadTokens: 20 } }
    const usage = { cacheWriteTokens: 50, outputTokens: 10 }
    await boot('{ turn: { maxTokens: 100 } }', [failed, { ...call('work'), usage }, say('over')])
    tree.ctx.on('agent/request-error', async () => ({ kind: 'retry' }))
    expect(await ask()).toEqual({ kind: 'limit', reason: '100 tokens of this turn are used up' })
    expect(model.requests).toHaveLength(3)
  })

  it('passes over what a damaged log has broken', async () => {
    await boot('{ session: { maxSteps: 2 } }', [say('a'), say('over')])
    const types = ['turn/start', 'request/header', 'step/start', 'assistant/message', 'request/failed']
    const seed = types.map((type, seq) => ({ seq, time: 1, type, data: null })) as never
    agent = (await tree.ctx.agents.create({ seed })).agent
    const { session } = agent
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    session.append('step/end', { turn: 1, step: 1 })
    session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    expect(await ask()).toEqual({ kind: 'completed' })
    expect(await ask()).toMatchObject({ kind: 'limit' })
  })

  it('of money uses the prices of the model', async () => {
    const usage = { inputTokens: 1_000_000, outputTokens: 1_000_000 }
    await boot('{ turn: { maxCost: 3 } }', [{ ...call('work'), usage }, say('over')])
    expect(await ask()).toEqual({ kind: 'limit', reason: '$3 of this turn are used up' })
  })
})

describe('a budget of time', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  it('cuts a request that takes too long', async () => {
    await boot('{ turn: { maxWallMs: 10000 } }', [{ hang: true }])
    const ended = ask()
    await vi.advanceTimersByTimeAsync(10_000)
    expect(await ended).toEqual({ kind: 'limit', reason: 'the time limit was reached' })
  })

  it('that is over for the whole session ends each turn once, however long the prompt takes to assemble', async () => {
    await boot('{ session: { maxWallMs: 10000 } }', [say('ok')])
    expect(await ask()).toEqual({ kind: 'completed' })
    vi.advanceTimersByTime(20_000)
    const text = () => new Promise<string>(resolve => setTimeout(() => resolve('slow'), 100))
    tree.ctx.systemPrompt.section({ name: 'slow', order: 50, text })
    const ended = ask()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(await ended).toMatchObject({ kind: 'limit' })
    expect(agent.session.lastTurn).toBe(2)
    expect(agent.pending()).toHaveLength(1)
  })

  it('does not end with a clock that is set, forward or back', async () => {
    const set = (ms: number) => {
      vi.setSystemTime(Date.now() + ms)
      return call('work')
    }
    await boot('{ turn: { maxWallMs: 10000 }, session: { maxWallMs: 60000 } }', [
      () => set(18_000_000),
      () => set(-36_000_000),
      () => {
        vi.advanceTimersByTime(9_500)
        return call('work')
      },
      say('in short'),
    ])
    expect(await ask()).toEqual({ kind: 'limit', reason: 'the 10 s of this turn are over' })
    expect(model.requests).toHaveLength(4)
  })

  it('is kept in part for summing up', async () => {
    await boot('{ turn: { maxWallMs: 10000 } }', [
      () => {
        vi.advanceTimersByTime(9_500)
        return call('work')
      },
      say('in short'),
    ])
    expect(await ask()).toEqual({ kind: 'limit', reason: 'the 10 s of this turn are over' })
  })
})
