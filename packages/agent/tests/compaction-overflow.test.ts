/** What happens when a request is too long all the same: the provider says so, the model is a smaller one, a message is huge. */

import { readFileSync } from 'node:fs'
import type { Agent } from '@cambium/agent'
import { textOf } from '@cambium/llm'
import { OVERFLOW_WORDINGS, type ReplyScript } from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { aside, next, user } from './boot.ts'
import {
  type Compacting,
  type CompactingOptions,
  compacting,
  ends,
  isSummary,
  look,
  readable,
  say,
  words,
} from './compacting.ts'

let tree: Compacting
afterEach(() => tree.close())

async function start(options: CompactingOptions): Promise<Agent> {
  tree = await compacting(options)
  return tree.agent()
}

const SUMMARY = '## Goal\nFind the leak.'
const last = <T>(list: readonly T[]): T => list.at(-1)!
const occurrences = (text: string, part: string) => text.split(part).length - 1
const reason = (agent: Agent) => agent.session.last('turn/end')?.data.reason
const TOKEN = 'M-TOKEN-7c1f: repair the valve'

function latch() {
  let resolve = () => {}
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve: () => resolve() }
}

/** Long answers, and a summary for who asks for one. */
const talkative: ReplyScript = request =>
  isSummary(request) ? SUMMARY : { text: words(1_200, 'said'), pieceChars: 10_000 }

describe('the provider says that a request is too long', () => {
  for (const [wording, { status }] of Object.entries(OVERFLOW_WORDINGS)) {
    it(`what was asked last is in the next request word for word and once: ${wording} (${status})`, async () => {
      let refusals = 0
      const agent = await start({
        otherwise: async request => {
          if (isSummary(request) || !request.text.includes(TOKEN) || refusals++) return talkative(request)
          return { fault: 'overflow', wording: wording as keyof typeof OVERFLOW_WORDINGS }
        },
      })
      await say(agent, 'first', 'second', 'third')
      agent.followup(user(TOKEN))
      agent.followup(user('QUEUED'))
      await agent.whenIdle()
      const [refused, ...later] = tree.server.requests.filter(({ text }) => text.includes(TOKEN))
      expect(refusals).toBe(3)
      for (const { text, problem } of later) {
        expect(occurrences(text, TOKEN)).toBe(1)
        expect(problem).toBeUndefined()
      }
      expect(later[0]!.text.length).toBeLessThan(0.6 * refused!.text.length)
      expect(last(tree.server.requests).text).toContain('QUEUED')
      expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['summary', true]])
      expect(reason(agent)).toEqual({ kind: 'completed' })
      expect(agent.pending()).toEqual([])
    })
  }

  it('a window that it names counts from then on, also after the session was taken up again', async () => {
    const { tempWorkspace } = await import('@cambium/testkit')
    const home = tempWorkspace()
    const options = { contextWindow: 8_192, otherwise: talkative, folder: home.path }
    try {
      const agent = await start(options)
      // The server refuses for want of room; its words name 8192.
      await say(agent, ...'abcdefg')
      expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['summary', true]])
      expect(agent.session.last('compaction/started')?.data.learned).toEqual({ tokens: 8_192, exact: true })
      const refused = () => tree.server.requests.filter(({ problem }) => problem).length
      expect(refused()).toBe(1)
      const { server } = tree
      await tree.tree.dispose()
      tree = await compacting(options, server)
      const again = (await tree.tree.ctx.agents.resume(agent.id)).agent
      await say(again, ...'hijklmn')
      // Now it is known, and made shorter before it is refused.
      expect(refused()).toBe(1)
      expect(ends(again.session).length).toBeGreaterThan(1)
      await tree.tree.dispose()
      await server.close()
    } finally {
      home.dispose()
    }
  })

  it('a request that is refused however short it is ends in one message that names what is too large', async () => {
    const agent = await start({
      window: 32_000,
      persona: words(2_000, 'rule'),
      otherwise: request =>
        isSummary(request) ? SUMMARY : request.text.includes('hopeless') ? { fault: 'overflow' } : talkative(request),
    })
    await say(agent, 'first', 'second', 'hopeless')
    expect(reason(agent)).toMatchObject({
      kind: 'error',
      error: {
        code: 'CONTEXT_WINDOW_EXCEEDED',
        message: expect.stringMatching(/system prompt 1,9\d\d.*tools.*messages/),
      },
    })
    const asked = tree.server.requests.filter(({ text }) => text.includes('hopeless'))
    expect(asked.length).toBeLessThanOrEqual(4)
    // The next turn may try again.
    const before = tree.server.requests.length
    await say(agent, 'and now?')
    expect(tree.server.requests.length).toBeGreaterThan(before)
  })

  it('without a summary an outline is enough', async () => {
    let refusals = 0
    const agent = await start({
      otherwise: request => {
        if (isSummary(request)) return { fault: '500' }
        return request.text.includes(TOKEN) && !refusals++ ? { fault: 'overflow', wording: 'code' } : talkative(request)
      },
    })
    await say(agent, 'first', 'second', 'third', TOKEN)
    expect(ends(agent.session)).toMatchObject([{ tier: 'digest', error: { code: 'SERVER' } }])
    expect(occurrences(last(tree.server.requests).text, TOKEN)).toBe(1)
    expect(reason(agent)).toEqual({ kind: 'completed' })
  })

  it('steers and notices that wait are read after it', async () => {
    let refusals = 0
    let agent!: Agent
    agent = await start({
      otherwise: request => {
        if (isSummary(request)) {
          agent.steer(user('STEERED'))
          agent.inject(aside('NOTICED'))
          return SUMMARY
        }
        return request.text.includes(TOKEN) && !refusals++ ? { fault: 'overflow' } : talkative(request)
      },
    })
    await say(agent, 'first', 'second', 'third', TOKEN)
    const { text } = last(tree.server.requests)
    for (const part of [TOKEN, 'STEERED', 'NOTICED']) expect(occurrences(text, part)).toBe(1)
  })
})

describe('a provider that counts more than there is (29k tokens for an empty chat, 32k window)', () => {
  it('is not asked for summaries without end; the person hears once what is too large', async () => {
    const usage = { input: 29_000, output: 5 }
    const settings = { threshold: 0.85 }
    const agent = await start({ window: 32_000, settings, otherwise: { text: 'hi', usage } })
    await say(agent, 'hi', 'hi again', 'and again')
    expect(tree.server.requests).toHaveLength(3)
    expect(tree.server.requests.filter(isSummary)).toEqual([])
    expect(ends(agent.session).length).toBeLessThanOrEqual(3)
    expect(reason(agent)).toEqual({ kind: 'completed' })
    expect(tree.tree.logs()).toMatch(/what the provider counts beside them 28,9\d\d/)
  })

  it('and when it refuses, the turn ends and no tool runs on', async () => {
    const usage = { input: 29_000, output: 5 }
    const agent = await start({
      window: 32_000,
      replies: [
        { text: 'hi', usage },
        { toolCalls: [look(5)], usage },
      ],
      otherwise: { fault: 'overflow', message: "This model's maximum context length is 32000 tokens" },
    })
    await say(agent, 'hi', 'do it')
    expect(tree.server.requests.length).toBeLessThanOrEqual(6)
    expect(reason(agent)).toMatchObject({ kind: 'error', error: { code: 'CONTEXT_WINDOW_EXCEEDED' } })
    expect(agent.session.events().filter(({ type }) => type === 'tool/call')).toHaveLength(1)
    // There was nothing to make shorter, and nothing was tried.
    expect(ends(agent.session)).toEqual([])
  })
})

describe('a message that is larger than the window', () => {
  const HUGE = `BEGIN ${'漢字かな🙂 words of a person. '.repeat(3_000)}END`

  it('is shortened for the model, which is told where the rest is', async () => {
    const agent = await start({ window: 8_000, otherwise: 'fine' })
    await say(agent, HUGE)
    expect(ends(agent.session)).toMatchObject([{ tier: 'digest', fits: true }])
    const { text } = last(tree.server.requests)
    expect(text).toContain('BEGIN')
    expect(text).toContain('END')
    expect(text).not.toContain('\ufffd')
    const [, file] = /all of it is in ([^ \\]+\.txt)/.exec(text)!
    expect(readFileSync(file!, 'utf8')).toBe(HUGE)
    expect(readable(agent.session).map(({ message }) => textOf(message))).toEqual([HUGE, 'fine'])
  })

  it('a result of a tool that is larger than the window is shortened too, and what was asked is not', async () => {
    const replies = [{ toolCalls: [look(20_000), look(9_000)] }]
    const agent = await start({ window: 8_000, contextWindow: 8_000, replies, otherwise: 'fine' })
    await say(agent, TOKEN)
    const { text, problem } = last(tree.server.requests)
    expect(problem).toBeUndefined()
    expect(occurrences(text, TOKEN)).toBe(1)
    expect(occurrences(text, 'ask for a smaller part of it')).toBe(2)
    expect(reason(agent)).toEqual({ kind: 'completed' })
  })

  it('arguments of a call that are larger than the window go with their call, and the turn goes on', async () => {
    const replies = [{ toolCalls: [{ name: 'look', arguments: JSON.stringify({ words: 3, note: words(20_000) }) }] }]
    const agent = await start({ window: 8_000, contextWindow: 8_000, replies, otherwise: 'fine' })
    await say(agent, TOKEN)
    const { text, problem } = last(tree.server.requests)
    expect(problem).toBeUndefined()
    expect(occurrences(text, TOKEN)).toBe(1)
    expect(text).toContain('called look')
    expect(reason(agent)).toEqual({ kind: 'completed' })
  })
})

describe('a model with a smaller window', () => {
  const others = [{ id: 'small', contextWindow: 8_000 }]
  const check: CompactingOptions['check'] = ({ body, text }) =>
    body.model === 'small' && text.length / 4 > 8_000 ? 'prompt is too long' : undefined

  it('that somebody chooses is asked for the shorter conversation, which the larger one summed up', async () => {
    const agent = await start({ window: 100_000, others, check, otherwise: talkative })
    await say(agent, ...'abcdefgh')
    await agent.selectModel('test/small')
    await say(agent, TOKEN)
    const [summary] = tree.server.requests.filter(isSummary)
    expect(summary?.body.model).toBe('m')
    expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['summary', true]])
    expect(tree.server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
    expect(last(tree.server.requests).body.model).toBe('small')
  })

  it('that stands in for one that is down is asked for the shorter conversation', async () => {
    let down = false
    const agent = await start({
      window: 100_000,
      others,
      check,
      retry: { fallback: ['test/small'], maxAttempts: 1 },
      otherwise: request => (down && request.body.model === 'm' ? { fault: '503' } : talkative(request)),
    })
    await say(agent, ...'abcdefgh')
    down = true
    await say(agent, TOKEN)
    expect(last(tree.server.requests).body.model).toBe('small')
    expect(tree.server.requests.flatMap(({ problem }) => problem ?? [])).toEqual([])
    expect(occurrences(last(tree.server.requests).text, TOKEN)).toBe(1)
    expect(reason(agent)).toEqual({ kind: 'completed' })
  })
})

describe('what a model is told beside the conversation', () => {
  it('system prompt and instructions are sent again, once, whatever the summary says', async () => {
    let version = 1
    const agent = await start({ window: 8_000, otherwise: talkative })
    const { ctx } = tree.tree
    ctx.systemPrompt.section({ name: 'instructions', order: 200, text: () => `Always answer ZEBRA-${16 + version}` })
    // What a plugin had added to the conversation goes with it, unless it reads it again.
    ctx.on('compaction/carry', async ({ dropped }, next) => {
      const gone = dropped.some(
        message => textOf(message).includes('NESTED-RULE') || message.source.kind === 'compaction',
      )
      return gone ? [...(await next()), { type: 'text', text: 'NESTED-RULE: two spaces (read again)' }] : next()
    })
    agent.inject(aside('NESTED-RULE: two spaces'))
    await say(agent, 'first', 'second', 'third', 'fourth')
    version = 2
    await say(agent, 'fifth')
    expect(ends(agent.session)).toMatchObject([{ tier: 'summary' }])
    const { text } = last(tree.server.requests)
    expect(occurrences(text, 'ZEBRA-18')).toBe(1)
    expect(text).not.toContain('ZEBRA-17')
    expect(occurrences(text, 'NESTED-RULE')).toBe(1)
    expect(text).toContain('read again')
  })
})

describe('asked by hand', () => {
  it('/compact sums up what there is, however short, with what it is told to keep', async () => {
    const agent = await start({ otherwise: talkative })
    await say(agent, 'first', 'second', 'third')
    const result = await tree.tree.ctx.commands.run('/compact the name of the valve', agent)
    expect(result?.text).toMatch(/^Compacted: about [\d,]+ tokens before, [\d,]+ now/)
    const [summary] = tree.server.requests.filter(isSummary)
    expect(summary?.text).toContain('keep this above all:\\nthe name of the valve')
    expect(agent.session.last('compaction/started')?.data).toMatchObject({
      reason: 'manual',
      focus: 'the name of the valve',
    })
    await say(agent, TOKEN)
    expect(last(tree.server.requests).text).toContain('Find the leak')
    expect(await tree.tree.ctx.commands.run('/compact', await tree.agent())).toEqual({
      text: expect.stringContaining('stays as it is'),
    })
  })

  it('is refused while a turn or another one runs, and the turn that comes meanwhile waits for it', async () => {
    const gates = { answer: latch(), summary: latch() }
    const seen = { answer: latch(), summary: latch() }
    const agent = await start({
      window: 100_000,
      otherwise: async request => {
        const which = isSummary(request) ? 'summary' : request.text.includes('SLOW') ? 'answer' : undefined
        if (which) {
          seen[which].resolve()
          await gates[which].promise
        }
        return talkative(request)
      },
    })
    const { compaction } = tree.tree.ctx
    await say(agent, 'first', 'second')
    agent.followup(user('SLOW'))
    await seen.answer.promise
    await expect(compaction.compact(agent)).rejects.toThrow(/COMPACTION_BUSY: a turn is running/)
    gates.answer.resolve()
    await agent.whenIdle()
    const work = compaction.compact(agent)
    await seen.summary.promise
    expect(compaction.running(agent)).toBe(true)
    await expect(compaction.compact(agent)).rejects.toThrow(/COMPACTION_BUSY: a compaction is running/)
    const started = next(tree.tree.ctx, 'session/event', 'step/start')
    agent.followup(user(TOKEN))
    await started
    expect(tree.server.requests.some(({ text }) => text.includes(TOKEN))).toBe(false)
    gates.summary.resolve()
    expect(await work).toMatchObject({ tier: 'summary' })
    await agent.whenIdle()
    const { text } = last(tree.server.requests)
    expect(occurrences(text, TOKEN)).toBe(1)
    expect(text).toContain('Find the leak')
    expect(compaction.running(agent)).toBe(false)
  })

  it('that fails or is cancelled leaves all as it is, and says why', async () => {
    const stop = new AbortController()
    const agent = await start({
      window: 100_000,
      otherwise: request => {
        if (!isSummary(request)) return talkative(request)
        if (!request.text.includes('slowly')) return { fault: '400' }
        stop.abort()
        return { text: 'never', pause: { after: 0, until: new Promise(() => {}) } }
      },
    })
    await say(agent, 'first', 'second', 'third')
    const { compaction } = tree.tree.ctx
    await expect(compaction.compact(agent)).rejects.toThrow(/COMPACTION_FAILED.*was not understood/)
    await expect(compaction.compact(agent, { focus: 'slowly', signal: stop.signal })).rejects.toThrow(
      'COMPACTION_CANCELLED',
    )
    expect(agent.session.replacements).toBe(0)
    expect(ends(agent.session)).toMatchObject([{ error: { code: 'INVALID_REQUEST' } }, { aborted: true }])
  })
})

it('nothing is left of it when it is unloaded in the middle, and the turn goes on', async () => {
  const begun = latch()
  const agent = await start({
    window: 8_000,
    otherwise: request => {
      if (!isSummary(request)) return talkative(request)
      begun.resolve()
      return { text: 'never', pause: { after: 0, until: new Promise(() => {}) } }
    },
  })
  await say(agent, 'a', 'b', 'c', 'd')
  agent.followup(user(TOKEN))
  await begun.promise
  await tree.tree.restart('compaction')
  await agent.whenIdle()
  expect(ends(agent.session)).toMatchObject([{ aborted: true }])
  expect(occurrences(last(tree.server.requests).text, TOKEN)).toBe(1)
  expect(reason(agent)).toEqual({ kind: 'completed' })
  expect(tree.tree.ctx.commands.list().map(({ name }) => name)).toEqual(['compact'])
})

it('switched off it leaves conversations alone, and works by hand', async () => {
  const agent = await start({ window: 6_000, settings: { enabled: false }, otherwise: talkative })
  await say(agent, 'a', 'b', 'c', 'd', 'e')
  expect(ends(agent.session)).toEqual([])
  expect(await tree.tree.ctx.compaction.compact(agent)).toMatchObject({ tier: 'summary' })
})
