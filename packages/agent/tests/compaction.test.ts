/** Compaction over HTTP, with a provider that refuses what is not in order or too long. */

import type { Agent } from '@cambium/agent'
import { createUserMessage, textOf } from '@cambium/llm'
import type { ModelRequest, Reply, ReplyScript } from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { user } from './boot.ts'
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

const WINDOW = 8_000
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SUMMARY = '## Goal\nFind the leak.\n## Next\nLook at the valve.'

/** Answers each request with a long text, and each that asks for a summary as told. */
function talkative(summary: ReplyScript = SUMMARY, count = 1_200): Pick<CompactingOptions, 'otherwise'> {
  return {
    otherwise: request => {
      if (!isSummary(request)) return { text: words(count, 'said'), pieceChars: 10_000 }
      return typeof summary === 'function' ? summary(request) : summary
    },
  }
}

const messagesOf = (request: ModelRequest) => request.body.messages as { role: string; content: unknown }[]
const last = <T>(list: readonly T[]): T => list.at(-1)!
const occurrences = (text: string, part: string) => text.split(part).length - 1

describe('what is old gives way first', () => {
  it('old results of tools are shortened, and no model is asked', async () => {
    const turn = (count: number, text: string): Reply[] => [{ toolCalls: [look(count)] }, { text }]
    const replies = [...turn(1_500, 'one'), ...turn(1_500, 'two'), ...turn(1_500, 'three'), ...turn(900, 'four')]
    const agent = await start({ window: WINDOW, contextWindow: WINDOW, replies })
    await say(agent, 'first', 'second', 'third', 'fourth')
    expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['results', true]])
    tree.server.expectDone()
    expect(tree.server.requests.filter(isSummary)).toEqual([])
    const read = last(tree.server.requests).text
    // The last one, which the model has not answered, is whole.
    expect(occurrences(read, 'characters are left out here')).toBe(2)
    expect(read).toContain(words(900))
    // A person reads them whole.
    expect(readable(agent.session).filter(entry => JSON.stringify(entry).includes(words(1_500)))).toHaveLength(3)
  })

  it('thoughts of turns that are over go next, and those of the running one stay', async () => {
    const thoughts = (mark: string) => `${mark} ${words(1_300, 'hmmmm')}`
    const replies: Reply[] = [
      { reasoning: thoughts('FIRST'), text: 'one' },
      { reasoning: thoughts('SECOND'), text: 'two' },
      { reasoning: thoughts('THIRD'), text: 'three' },
      { reasoning: thoughts('FOURTH'), toolCalls: [look(900)] },
      { text: 'four' },
    ]
    const agent = await start({ window: WINDOW, replies })
    await say(agent, 'first', 'second', 'third', 'fourth')
    const [{ tier } = {}] = ends(agent.session)
    expect(tier).toBe('reasoning')
    const kept = agent.session
      .deriveMessages()
      .flatMap(({ content }) => content.filter(block => block.type === 'reasoning'))
    expect(kept.map(block => (block.type === 'reasoning' ? block.text.slice(0, 6) : ''))).toEqual(['FOURTH'])
    tree.server.expectDone()
    // Chat completions want it back with its calls.
    expect(last(tree.server.requests).text).toContain('"reasoning_content":"FOURTH')
  })

  it('and in a long turn all of its thoughts stay, also those of steps that are old', async () => {
    const replies: Reply[] = [
      { reasoning: `OVER ${words(2_400, 'hmmmm')}`, text: 'one' },
      ...Array.from(
        { length: 7 },
        (_, at): Reply => ({ reasoning: `STEP-${at} ${words(250, 'hmmm')}`, toolCalls: [look(50)] }),
      ),
    ]
    const agent = await start({ window: WINDOW, replies, otherwise: 'two' })
    await say(agent, 'first', 'second')
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'reasoning', fits: true })
    const { text } = last(tree.server.requests)
    expect(text).not.toContain('OVER')
    for (let at = 0; at < 7; at++) expect(text).toContain(`"reasoning_content":"STEP-${at}`)
  })

  it('then a summary takes the place of what was said, and the person stays word for word', async () => {
    const agent = await start({ window: WINDOW, contextWindow: WINDOW, ...talkative() })
    await say(agent, 'PROMPT-1: never touch the red valve', 'PROMPT-2', 'PROMPT-3', 'PROMPT-4', 'PROMPT-5')
    expect(ends(agent.session).map(({ tier, fits }) => [tier, fits])).toEqual([['summary', true]])
    const { text } = last(tree.server.requests)
    expect(text).toContain('Find the leak.')
    for (const prompt of ['PROMPT-1: never touch the red valve', 'PROMPT-2', 'PROMPT-3', 'PROMPT-4', 'PROMPT-5']) {
      expect(occurrences(text, prompt)).toBe(1)
    }
    // The human transcript has all of it still.
    expect(readable(agent.session).map(({ message }) => textOf(message).slice(0, 8))).toEqual(
      [1, 2, 3, 4, 5].flatMap(n => [`PROMPT-${n}`, 'said sai']),
    )
  })

  it('a second compaction right after the first does nothing', async () => {
    const agent = await start({ window: WINDOW, ...talkative() })
    await say(agent, 'a', 'b', 'c')
    const { compaction } = tree.tree.ctx
    expect(await compaction.compact(agent)).toMatchObject({ tier: 'summary' })
    const before = agent.session.seq
    expect(await compaction.compact(agent)).toMatchObject({ why: expect.stringContaining('nothing was said since') })
    expect(agent.session.seq).toBe(before)
  })

  it('a former summary is summed up with the rest, and what the person said before it is still word for word', async () => {
    let n = 0
    const agent = await start({ window: WINDOW, ...talkative(() => `## Goal\nNOTE-${++n}`) })
    await say(agent, 'PROMPT-1', ...Array.from({ length: 14 }, (_, at) => `go on ${at}`))
    expect(ends(agent.session).length).toBeGreaterThan(2)
    expect(ends(agent.session).every(({ fits }) => fits)).toBe(true)
    const { text } = last(tree.server.requests)
    expect(occurrences(text, 'NOTE-')).toBe(1)
    expect(occurrences(text, 'PROMPT-1')).toBe(1)
    const [, second] = tree.server.requests.filter(isSummary)
    expect(second?.text).toContain('NOTE-1')
  })
})

describe('what the person said', () => {
  it('has a budget: the newest stays whole, what has no room is cut in the middle or left to the summary', async () => {
    const agent = await start({ window: WINDOW, contextWindow: WINDOW, ...talkative(SUMMARY, 300) })
    const prompts = Array.from({ length: 8 }, (_, at) => `BEGIN-${at} ${words(450, 'ask')} END-${at}`)
    await say(agent, ...prompts)
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'summary', fits: true })
    const checkpoint = agent.session.events().find(({ type }) => type === 'context/replaced')
    const text = JSON.stringify(checkpoint?.data)
    const whole = prompts.filter(prompt => text.includes(prompt))
    expect(whole.length).toBeGreaterThan(0)
    expect(text).toMatch(/[1-9] earlier ones are left out/)
    const [cut] = /BEGIN-\d [a-z ]+\\n\[… \d+ characters are left out here.*? …\]\\n[a-z ]*END-\d/.exec(text) ?? []
    expect(cut).toContain('all of it is in ')
    // The newest of them, in their order.
    const numbers = [...text.matchAll(/END-(\d)/g)].map(([, n]) => Number(n))
    expect(numbers).toEqual([...numbers].sort())
    const first = numbers[0]!
    expect(numbers).toEqual(numbers.map((_, at) => first + at))
  })

  it('with a picture keeps it, and a result of a tool does not', async () => {
    const agent = await start({ window: WINDOW, ...talkative() })
    const image = { type: 'image' as const, mediaType: 'image/png', data: PIXEL }
    agent.followup(
      createUserMessage({ content: [image, { type: 'text', text: 'PICTURED' }], source: { kind: 'user' } }),
    )
    await agent.whenIdle()
    await say(agent, 'b', 'c', 'd', 'e')
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'summary' })
    expect(occurrences(last(tree.server.requests).text, PIXEL)).toBe(1)
  })
})

describe('the request for a summary', () => {
  it('comes to nothing when what it sums up was changed meanwhile', async () => {
    let agent!: Agent
    agent = await start({
      window: WINDOW,
      ...talkative(() => {
        const [first] = agent.session.surface()
        agent.session.append('context/replaced', { from: first!.seq, to: first!.seq, message: user('CHANGED') })
        return SUMMARY
      }),
    })
    await say(agent, 'a', 'b', 'c', 'd', 'e')
    expect(ends(agent.session)).toMatchObject([{ error: { code: 'CHANGED' } }])
    expect(agent.session.replacements).toBe(1)
    expect(last(tree.server.requests).text).toContain('CHANGED')
  })

  it('is the last request cut short, with the same system and tools, and the instruction behind it', async () => {
    const replies = [1, 2, 3, 4, 5].flatMap((n): Reply[] => [
      { toolCalls: [look(400)] },
      { text: `${n} ${words(1_500, 'said')}` },
    ])
    const agent = await start({ window: 2 * WINDOW, contextWindow: 2 * WINDOW, replies, ...talkative() })
    await say(agent, 'one', 'two', 'three', 'four', 'five', 'six')
    const at = tree.server.requests.findIndex(isSummary)
    const request = tree.server.requests[at]!
    const before = tree.server.requests[at - 1]!
    expect(request.body.tools).toEqual(before.body.tools)
    expect(request.body.model).toBe(before.body.model)
    // Byte by byte: what a provider has in its cache is found by its beginning.
    const list = request.text.slice(request.text.indexOf('"messages":['))
    const shared = list.slice(0, list.lastIndexOf(JSON.stringify(last(messagesOf(request)))))
    expect(shared.length).toBeGreaterThan(30_000)
    expect(before.text.slice(before.text.indexOf('"messages":[')).startsWith(shared)).toBe(true)
    expect(last(messagesOf(request)).role).toBe('user')
    expect(request.body['max_tokens']).toBeGreaterThan(100)
  })

  it('asks the configured model, when there is one', async () => {
    const settings = { model: 'test/cheap' }
    const agent = await start({ window: WINDOW, settings, others: [{ id: 'cheap' }], ...talkative() })
    await say(agent, 'a', 'b', 'c', 'd', 'e')
    expect(tree.server.requests.filter(isSummary).map(({ body }) => body.model)).toEqual(['cheap'])
    expect(ends(agent.session)[0]?.spent?.map(({ model }) => model)).toEqual(['cheap'])
  })

  it('is cut short itself where the one who writes has a smaller window, and pairs stay whole', async () => {
    const replies: Reply[] = Array.from({ length: 6 }, (): Reply[] => [
      { toolCalls: [look(120), look(130)] },
      { text: words(500, 'said') },
    ]).flat()
    const settings = { model: 'test/small' }
    const agent = await start({
      window: WINDOW,
      settings,
      others: [{ id: 'small', contextWindow: 3_000 }],
      replies,
      ...talkative(),
      check: request => (request.body.model === 'small' && request.text.length > 3_000 * 4 ? 'too long' : undefined),
    })
    await say(agent, 'a', 'b', 'c', 'd', 'e', 'f')
    const [request] = tree.server.requests.filter(isSummary)
    expect(request?.problem).toBeUndefined()
    expect(request?.text).toContain('The beginning is left out here')
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'summary', fits: true })
  })

  it('is made once more without tools when the model calls one instead of writing', async () => {
    const agent = await start({
      window: WINDOW,
      ...talkative(({ body }) => (body.tools ? { toolCalls: [look(1)] } : SUMMARY)),
    })
    await say(agent, 'a', 'b', 'c', 'd', 'e')
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'summary' })
    expect(tree.server.requests.filter(isSummary)).toHaveLength(2)
    expect(ends(agent.session)[0]?.spent).toHaveLength(2)
  })

  it('is tried again and falls back like any other request', async () => {
    let failed = 0
    const agent = await start({
      window: WINDOW,
      retry: { fallback: ['test/spare'] },
      others: [{ id: 'spare', contextWindow: WINDOW }],
      ...talkative(({ body }) => (body.model === 'm' && ++failed ? { fault: '503' } : SUMMARY)),
    })
    await say(agent, 'a', 'b', 'c', 'd', 'e')
    expect(failed).toBe(2)
    expect(ends(agent.session)[0]).toMatchObject({ tier: 'summary' })
    expect(ends(agent.session)[0]?.spent?.at(-1)).toMatchObject({ model: 'spare' })
  })
})

describe('a summary that fails', () => {
  const BAD: [string, Reply | string, string][] = [
    ['a server in trouble', { fault: '500' }, 'SERVER'],
    ['an empty answer', { fault: 'empty' }, 'EMPTY_RESPONSE'],
    ['one that is longer than what it sums up', words(6_000, 'blah'), 'SUMMARY_TOO_LONG'],
    ['one that is cut off', { text: 'half a', finish: 'length' }, 'EMPTY_RESPONSE'],
  ]
  for (const [what, reply, code] of BAD) {
    it(`leaves the conversation as it is, and is not asked for without end: ${what}`, async () => {
      const settings = { threshold: 0.3 }
      const agent = await start({ window: 12_000, settings, ...talkative(reply) })
      await say(agent, 'a', 'b', 'c', 'd', 'e', 'f', 'g')
      // Turns d to f try, the last ones do not.
      const failures = ends(agent.session)
      expect(failures).toHaveLength(3)
      for (const { error, tier } of failures) {
        expect(error?.code).toBe(code)
        expect(tier).toBeUndefined()
      }
      expect(agent.session.replacements).toBe(0)
      expect(tree.tree.logs()).toContain(code)
      const { text } = last(tree.server.requests)
      for (const prompt of 'abcdefg') expect(text).toContain(`"content":"${prompt}"`)
    })
  }

  it('gives way to an outline without a model when the conversation no longer fits', async () => {
    const agent = await start({ window: WINDOW, contextWindow: WINDOW, ...talkative({ fault: '500' }) })
    await say(agent, 'PROMPT-1', ...Array.from({ length: 9 }, (_, at) => `go on ${at}`))
    const tiers = ends(agent.session).map(({ tier }) => tier)
    expect(tiers.at(0)).toBeUndefined()
    expect(tiers).toContain('digest')
    const { text, problem } = last(tree.server.requests)
    expect(problem).toBeUndefined()
    expect(text).toContain('no model was there to sum it up')
    expect(occurrences(text, 'PROMPT-1')).toBeGreaterThan(0)
    expect(agent.session.last('turn/end')?.data.reason).toEqual({ kind: 'completed' })
  })

  it('counts for a session that was taken up again, and so does its end', async () => {
    const { tempWorkspace } = await import('@cambium/testkit')
    using home = disposable(tempWorkspace())
    const options = {
      window: 40_000,
      settings: { threshold: 0.1, restTurns: 2 },
      folder: home.path,
      ...talkative({ fault: '500' }),
    }
    const agent = await start(options)
    await say(agent, 'a', 'b', 'c', 'd', 'e', 'f')
    const { id } = agent
    expect(ends(agent.session)).toHaveLength(3)
    const { server } = tree
    await tree.tree.dispose()
    tree = await compacting(options, server)
    const again = (await tree.tree.ctx.agents.resume(id)).agent
    await say(again, 'g')
    expect(ends(again.session)).toHaveLength(3)
    await say(again, 'h')
    // Two turns have rested; one more try, and it rests again.
    expect(ends(again.session)).toHaveLength(4)
    await say(again, 'i')
    expect(ends(again.session)).toHaveLength(4)
    await tree.tree.dispose()
    await server.close()
  })

  it('an interrupt is no failure, and what was said stands', async () => {
    let asked = () => {}
    let interrupted = false
    const begun = new Promise<void>(resolve => {
      asked = resolve
    })
    const agent = await start({
      window: WINDOW,
      settings: { failures: 1 },
      ...talkative(() => {
        if (interrupted) return SUMMARY
        asked()
        return { text: 'never', pause: { after: 0, until: new Promise(() => {}) } }
      }),
    })
    await say(agent, 'a', 'b', 'c', 'd')
    agent.followup(user('LAST'))
    await begun
    agent.cancel({ by: 'user' })
    await agent.whenIdle()
    expect(ends(agent.session)).toMatchObject([{ aborted: true }])
    expect(ends(agent.session)[0]?.error).toBeUndefined()
    expect(agent.session.last('turn/end')?.data.reason).toMatchObject({ kind: 'aborted', by: 'user' })
    expect(textOf(last(agent.session.deriveMessages()))).toBe('LAST')
    expect(agent.session.replacements).toBe(0)
    // One failure would be enough to give up for a while.
    interrupted = true
    await say(agent, 'NEXT')
    expect(ends(agent.session).at(-1)).toMatchObject({ tier: 'summary' })
  })
})

const disposable = <T extends { dispose(): void }>(value: T) =>
  Object.assign(value, { [Symbol.dispose]: () => value.dispose() })
