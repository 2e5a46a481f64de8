/** Other routes for a request whose own is down: in the loop, its log and its feed, and for callers without a loop. */

import { createUserMessage, type LlmFailure, type RetryOptions, streamWithRetry, type TokenUsage } from '@cambium/llm'
import * as retry from '@cambium/llm/retry'
import type { LiveEvent } from '@cambium/session'
import {
  type BootedTree,
  bootTree,
  FakeModel,
  type FakeReply,
  fail,
  fakeModel,
  say,
  tempWorkspace,
} from '@cambium/testkit'
import type { Agent } from '@cambium/tools'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { collect, user } from './llm.ts'

let tree: BootedTree
let first: FakeModel
let second: FakeModel
let feed: LiveEvent<'request/retry'>['data'][]
let told: string[]

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'Date'] }))
afterEach(async () => {
  await tree?.dispose()
  vi.useRealTimers()
})

interface Replies {
  readonly first: readonly FakeReply[]
  readonly second: readonly FakeReply[]
}

/** Two providers; `second/model` stands in for whatever is down. */
async function boot(replies: Replies, config: Partial<retry.Config> = {}, more = '') {
  tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: first/model } }
${more}`)
  const { ctx } = tree
  first = new FakeModel(replies.first)
  second = new FakeModel(replies.second)
  ctx.llm.registerAdapter('first', first)
  ctx.llm.registerAdapter('second', second)
  feed = []
  told = []
  ctx.on('session/event', (_session, event) => {
    if (event.type === 'request/retry') feed.push(event.data)
  })
  ctx.on('llm/fallback', ({ from, to, failure }) => {
    told.push(`${from.provider}/${from.model} ${failure.code} ${to.provider}/${to.model}`)
  })
  const settings = { fallback: ['second/model'], initialMs: 1, maxDelayMs: 1, maxAttempts: 2, ...config }
  await ctx.plugin(retry, retry.Config(settings as retry.Config))
}

async function ask(agent: Agent, text = 'go') {
  agent.followup(createUserMessage({ content: text, source: { kind: 'user' } }))
  await agent.whenIdle()
  return agent.session.last('turn/end')?.data.reason
}

const created = async (options = {}) => (await tree.ctx.agents.create(options)).agent
const counts = () => [first.requests.length, second.requests.length]
const headers = ({ session }: Agent) =>
  session.events().flatMap(event => (event.type === 'request/header' ? [event.data.config] : []))
const limited = (retryAfterMs: number): FakeReply => ({
  finish: 'error',
  failure: { code: 'RATE_LIMIT', message: 'slow down', retryAfterMs } as LlmFailure,
})

describe('a route that is down', () => {
  it('is left for the next one when its retries are used up, and the log, the feed and the events say so', async () => {
    await boot({ first: [fail('SERVER'), fail('SERVER')], second: [say('ok')] })
    const agent = await created()
    expect(await ask(agent)).toEqual({ kind: 'completed' })
    expect(counts()).toEqual([2, 1])
    expect(told).toEqual(['first/model SERVER second/model'])
    const route = { provider: 'first', model: 'model' }
    const next = { provider: 'second', model: 'model' }
    expect(feed).toMatchObject([
      { turn: 1, step: 1, route, next: route, attempt: 2, maxAttempts: 2, failure: { code: 'SERVER' } },
      { turn: 1, step: 1, route, next, attempt: 1, maxAttempts: 2, delayMs: 0, restMs: 300_000 },
    ])
    expect(headers(agent)).toEqual([route, { ...next, insteadOf: route }])
  })

  it.each(['QUOTA', 'AUTH', 'MISSING_CREDENTIAL', 'UNKNOWN_MODEL'] as const)(
    'is left at once when no wait helps: %s',
    async code => {
      await boot({ first: [fail(code)], second: [say('ok')] })
      expect(await ask(await created())).toEqual({ kind: 'completed' })
      expect(counts()).toEqual([1, 1])
    },
  )

  it.each(['CONTEXT_WINDOW_EXCEEDED', 'INVALID_REQUEST', 'UNSUPPORTED_CONTENT', 'UNKNOWN'] as const)(
    'is not what is wrong after %s: the request would fail anywhere',
    async code => {
      await boot({ first: [fail(code)], second: [] })
      expect(await ask(await created())).toMatchObject({ kind: 'error', error: { code } })
      expect(told).toEqual([])
    },
  )

  it('is left alone by the following steps, turns and agents, and each agent is told once', async () => {
    await boot({ first: [fail('QUOTA')], second: [say('a'), say('b'), say('c'), say('d')] })
    const agent = await created()
    await ask(agent)
    await ask(agent)
    const other = await created()
    await ask(other)
    await ask(other)
    expect(counts()).toEqual([1, 4])
    expect(told).toEqual(['first/model QUOTA second/model', 'first/model QUOTA second/model'])
    expect(headers(other)).toHaveLength(1)
  })

  it('is tried again when its rest is over', async () => {
    await boot({ first: [fail('QUOTA'), say('back')], second: [say('a'), say('b')] }, { coolDownMs: 60_000 })
    const agent = await created()
    await ask(agent)
    vi.advanceTimersByTime(59_000)
    await ask(agent)
    vi.advanceTimersByTime(1_500)
    await ask(agent)
    expect(counts()).toEqual([2, 2])
    expect(headers(agent).at(-1)).toEqual({ provider: 'first', model: 'model' })
  })

  it('rests as long as its provider asks, when that is too long to wait for', async () => {
    await boot({ first: [limited(3_600_000), say('back')], second: [say('a'), say('b')] }, { coolDownMs: 1_000 })
    const agent = await created()
    await ask(agent)
    vi.advanceTimersByTime(3_590_000)
    await ask(agent)
    expect(counts()).toEqual([1, 2])
    vi.advanceTimersByTime(11_000)
    await ask(agent)
    expect(counts()).toEqual([2, 2])
  })

  it('is tried at once when somebody chooses it', async () => {
    await boot({ first: [fail('QUOTA'), say('back')], second: [say('a')] })
    const agent = await created()
    await ask(agent)
    await agent.selectModel('first/model')
    await ask(agent)
    expect(counts()).toEqual([2, 1])
  })

  it('stays the one that was chosen, for a session that is taken up again', async () => {
    const folder = tempWorkspace()
    onTestFinished(() => folder.dispose())
    const store = `- { name: '@cambium/session/jsonl', config: { folder: ${JSON.stringify(folder.path)} } }`
    await boot({ first: [fail('QUOTA')], second: [say('a')] }, {}, store)
    const { agent, dispose } = await tree.ctx.agents.create()
    await ask(agent)
    await dispose()
    const { agent: again } = await tree.ctx.agents.resume(agent.id)
    expect(headers(again).at(-1)).toMatchObject({ provider: 'second', insteadOf: { provider: 'first' } })
    expect(again.config).toEqual({ provider: 'first', model: 'model' })
  })

  it('takes no other with it: a request that fails everywhere ends with the last failure, once for each route', async () => {
    await boot(
      { first: [fail('SERVER'), fail('SERVER')], second: [fail('QUOTA')] },
      { fallback: ['second/model', 'first/other'] },
    )
    first.push(fail('AUTH'))
    expect(await ask(await created())).toMatchObject({ kind: 'error', error: { code: 'AUTH' } })
    expect(counts()).toEqual([3, 1])
    expect(told).toEqual(['first/model SERVER second/model', 'second/model QUOTA first/other'])
  })

  it('is given up for good when somebody insists on it', async () => {
    await boot({ first: [fail('QUOTA'), fail('QUOTA')], second: [] })
    tree.ctx.on('agent/request', async (_input, next) => ({ ...(await next()), provider: 'first' }), { prepend: true })
    expect(await ask(await created())).toMatchObject({ kind: 'error', error: { code: 'QUOTA' } })
    expect(counts()).toEqual([2, 0])
  })

  it('gives its effort and options to no other model', async () => {
    await boot({ first: [fail('QUOTA')], second: [say('a')] })
    tree.ctx.on('agent/request', async (_input, next) => ({
      ...(await next()),
      effort: 'high',
      temperature: 0.5,
      providerOptions: { only: 'mine' },
    }))
    const agent = await created()
    await ask(agent)
    expect(headers(agent).at(-1)).toEqual({
      provider: 'second',
      model: 'model',
      temperature: 0.5,
      insteadOf: { provider: 'first', model: 'model' },
    })
  })

  it.each([
    [0.99, { kind: 'limit', reason: '$0.99 of this session are used up' }],
    [1.01, { kind: 'completed' }],
  ])('is paid for by its own price, and so is the other: of a limit of $%d', async (maxCost, end) => {
    const budget = `- { name: '@cambium/permission/budget', config: { session: { maxCost: ${maxCost} } } }`
    const failed = { ...fail('QUOTA'), usage: { inputTokens: 1_000_000 } }
    await boot({ first: [failed], second: [say('a', { inputTokens: 10 }), say('b')] }, {}, budget)
    const priced = (input: number) => [{ id: 'model', contextWindow: 100_000, price: { input, output: 0 } }]
    vi.spyOn(first, 'models').mockReturnValue(priced(0.5))
    vi.spyOn(second, 'models').mockReturnValue(priced(50_000))
    const agent = await created()
    expect(await ask(agent)).toEqual({ kind: 'completed' })
    expect(await ask(agent)).toEqual(end)
  })
})

describe('what was shown of an answer that failed', () => {
  it('is void: one message, one partial, and the feed and the log say which attempt it was', async () => {
    const broken = { text: ['Hel', 'lo, wor'], ...fail('SERVER') }
    await boot({ first: [broken, say('Hello, world')], second: [] })
    const agent = await created()
    const seen: string[] = []
    tree.ctx.on('session/event', (session, event) => {
      const partial = session.partial?.content.map(block => (block.type === 'text' ? block.text : '')).join('')
      if (event.type === 'assistant/chunk' && event.data.chunk.type !== 'text-delta') return
      if (!/^(assistant|request)\/(chunk|failed|retry|message)$/.test(event.type)) return
      const { attempt } = event.data as { attempt?: number }
      seen.push(`${event.type} ${attempt} ${partial ?? '-'}`)
    })
    await ask(agent)
    expect(seen).toEqual([
      'assistant/chunk 1 Hel',
      'assistant/chunk 1 Hello, wor',
      'request/failed 1 -',
      'request/retry 2 -',
      'assistant/chunk 2 Hello, world',
      'assistant/message undefined -',
    ])
    expect(agent.session.transcript().map(entry => entry.message.content)).toEqual([
      [{ type: 'text', text: 'go' }],
      [{ type: 'text', text: 'Hello, world' }],
    ])
  })

  it('is taken back once, and then another route is asked', async () => {
    const broken = { text: 'Hello', ...fail('SERVER') }
    await boot({ first: [broken, broken], second: [say('ok')] }, { maxAttempts: 5 })
    expect(await ask(await created())).toEqual({ kind: 'completed' })
    expect(counts()).toEqual([2, 1])
  })
})

describe('a reload of the plugin', () => {
  it('while it waits lets the attempt be made at once, and the count goes on', async () => {
    tree = await bootTree(`
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: fake/model } }
- { id: retry, name: '@cambium/llm/retry', config: { maxAttempts: 3, initialMs: 20000, maxDelayMs: 20000 } }
`)
    let reloaded: Promise<void> | undefined
    const failed: FakeReply = async () => {
      await reloaded
      return fail('SERVER')
    }
    const model = fakeModel(tree.ctx, [failed, failed, failed])
    const attempts: number[] = []
    tree.ctx.on('llm/retry', ({ attempt }) => {
      attempts.push(attempt)
      reloaded = Promise.resolve().then(() => tree.restart('retry'))
    })
    expect(await ask(await created())).toMatchObject({ kind: 'error', error: { code: 'SERVER' } })
    expect(attempts).toEqual([2, 3])
    expect(model.requests).toHaveLength(3)
  })
})

describe('the list of routes', () => {
  it('is refused with the place of a provider that nobody offers', async () => {
    await expect(boot({ first: [], second: [] }, { fallback: ['second/model', 'secnod/model'] })).rejects.toThrow(
      /LLM_UNKNOWN_ROUTE: fallback\[1\]: no provider is called "secnod"\n.*did you mean second\/model\?/,
    )
  })

  it('holds routes only, not providers alone', () => {
    expect(() => retry.Config({ fallback: ['deepseek'] } as retry.Config)).toThrow(/fallback/)
  })

  it('leaves out with a notice what has no credential, until it has one', async () => {
    const spy = vi.spyOn(FakeModel.prototype, 'ready').mockReturnValue(false)
    try {
      await boot({ first: [fail('QUOTA'), fail('QUOTA')], second: [say('ok')] })
      expect(tree.logs()).toMatch(/warn llm-retry: the fallback second\/model is left out/)
      const agent = await created()
      expect(await ask(agent)).toMatchObject({ kind: 'error', error: { code: 'QUOTA' } })
      spy.mockReturnValue(true)
      expect(await ask(agent)).toEqual({ kind: 'completed' })
    } finally {
      spy.mockRestore()
    }
  })
})

describe('a caller without a loop', () => {
  const request = () => ({ provider: 'first', model: 'model', messages: [user('hello')], sessionId: 's' })

  it('gets the same routes, is told what each attempt cost and where, and leaves alone what is down', async () => {
    const usage = (inputTokens: number): Partial<TokenUsage> => ({ inputTokens })
    await boot({
      first: [{ ...fail('QUOTA'), usage: usage(3) }],
      second: [{ ...fail('SERVER'), usage: usage(5) }, say('ok', usage(7)), say('again')],
    })
    const spent: string[] = []
    const attempted: RetryOptions['attempted'] = ({ route, usage, failure }) => {
      spent.push(`${route.provider} ${usage?.inputTokens} ${failure?.code ?? 'ok'}`)
    }
    const answer = await collect(streamWithRetry(tree.ctx, request(), { attempted }))
    expect(answer).toMatchObject({ text: 'ok', reason: 'stop', usage: { inputTokens: 15 } })
    expect(spent).toEqual(['first 3 QUOTA', 'second 5 SERVER', 'second 7 ok'])
    expect((await collect(streamWithRetry(tree.ctx, request()))).text).toBe('again')
    expect(counts()).toEqual([1, 3])
  })

  it('and its session sees it, with what the request is for', async () => {
    await boot({ first: [fail('SERVER'), fail('SERVER')], second: [say('a title')] })
    const { session } = await created()
    await collect(streamWithRetry(tree.ctx, { ...request(), sessionId: session.id, purpose: 'title' }))
    expect(feed).toMatchObject([
      { purpose: 'title', attempt: 2 },
      { purpose: 'title', attempt: 1, next: { provider: 'second' } },
    ])
    expect(feed[0]).not.toHaveProperty('turn')
  })
})
