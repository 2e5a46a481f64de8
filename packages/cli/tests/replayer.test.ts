import type { Agent } from '@cambium/agent'
import { createUserMessage } from '@cambium/llm'
import type { SessionEvent, StoredSession } from '@cambium/session'
import {
  type BootedTree,
  bootTree,
  call,
  type FakeAnswer,
  type FakeReply,
  fail,
  fakeModel,
  say,
} from '@cambium/testkit'
import { defineTool, toolResult } from '@cambium/tools'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import { Comparison } from '../src/replay/compare.ts'
import { Replayer, type ReplayOptions } from '../src/replay/replayer.ts'

const TREE = `
- name: '@cambium/llm'
- name: '@cambium/session'
- name: '@cambium/tools'
- name: '@cambium/agent'
- { name: '@cambium/agent/loop', config: { model: fake/model, persona: You are under test. } }
`

const trees: BootedTree[] = []
afterEach(async () => {
  for (const tree of trees.splice(0)) await tree.dispose()
})

async function boot(more = ''): Promise<BootedTree> {
  const tree = await bootTree(TREE + more)
  trees.push(tree)
  return tree
}

const user = (text: string) => createUserMessage({ content: text, source: { kind: 'user' } })
const aside = (text: string) => createUserMessage({ content: text, source: { kind: 'plugin', plugin: 'test' } })

/** The same tools in both trees; what they do counts only in one. */
function offerTools({ ctx }: BootedTree): { ran: string[] } {
  const ran: string[] = []
  const offer = (name: string, execute: (args: never, exec: never) => unknown, more: object = {}) => {
    const body = (args: never, exec: never) => {
      ran.push(name)
      return execute(args, exec)
    }
    ctx.tools.register(defineTool({ name, description: name, parameters: {}, ...more, execute: body as never }))
  }
  const safe = { readOnly: true, isConcurrencySafe: () => true }
  offer('look', () => `looked ${'at '.repeat(ran.length)}`, safe)
  offer('work', () => toolResult({ value: 1, content: 'worked', meta: { kind: 'work' } }))
  offer('break', () => {
    throw new Error('broken')
  })
  offer('note', (_args, exec: { deferContext(message: unknown): void }) => {
    exec.deferContext(aside('a note'))
    return 'noted'
  })
  offer('finish', (_args, exec: { concludeTurn(): void }) => {
    exec.concludeTurn()
    return 'finished'
  })
  ctx.tools.register({
    name: 'typed',
    description: 'typed',
    parameters: { type: 'object' },
    output: { type: 'object', required: ['a'] },
    execute: () => {
      ran.push('typed')
      return { a: 1 }
    },
  } as never)
  return { ran }
}

type Turn = readonly ((agent: () => Agent) => FakeReply)[]

async function record(turns: readonly Turn[], more = '', prepare = (_tree: BootedTree) => {}): Promise<StoredSession> {
  const tree = await boot(more)
  prepare(tree)
  offerTools(tree)
  let agent: Agent
  const model = fakeModel(tree.ctx, [])
  const handle = await tree.ctx.agents.create({ cwd: '/' })
  agent = handle.agent
  for (const [index, turn] of turns.entries()) {
    model.push(...turn.map(step => step(() => agent)), say('over'), say('and over'), say('and out'))
    agent.followup(user(`task ${index}`))
    await agent.whenIdle()
    // What the turn did not ask for is not the next one's.
    while (model.left) (model as unknown as { replies: unknown[] }).replies.shift()
  }
  return { header: agent.session.header, events: [...agent.session.events()], notices: [] }
}

async function replay(
  stored: StoredSession,
  options: Partial<ReplayOptions> = {},
  more = '',
  prepare = (_tree: BootedTree) => {},
) {
  const tree = await boot(more)
  prepare(tree)
  const { ran } = offerTools(tree)
  // Its window is known; asked it is not.
  const model = fakeModel(tree.ctx, [])
  const { signal } = new AbortController()
  const progress = () => {}
  const replayer = new Replayer(tree.ctx, stored, { runTools: false, headers: true, signal, progress, ...options })
  const report = await replayer.run()
  expect(model.requests).toEqual([])
  return { report, ran, tree }
}

const steer = (reply: FakeAnswer) => (agent: () => Agent) => () => {
  agent().steer(user('one more thing'))
  agent().inject(aside('by the way'))
  return reply
}
const cancelled = (reply: FakeAnswer) => (agent: () => Agent) => () => {
  agent().cancel({ by: 'user', reason: 'enough' })
  return reply
}
const plain = (reply: FakeReply) => () => reply
const many = (...names: string[]): FakeAnswer => ({ calls: names.map(name => ({ name })) })

const step = fc.oneof(
  fc.constantFrom('look', 'work', 'break', 'note', 'finish', 'typed', 'absent').map(name => plain(call(name))),
  fc.constantFrom(many('look', 'look', 'work'), many('note', 'note', 'break')).map(plain),
  fc
    .constantFrom<FakeAnswer>(
      say('text', { inputTokens: 5, outputTokens: 1 }),
      { reasoning: 'hm', text: 'thought' },
      { text: 'cut', finish: 'max-tokens' },
      { ...call('work'), finish: 'max-tokens' },
      { text: 'no', finish: 'refusal' },
      { ...fail('SERVER'), usage: { inputTokens: 3 } },
      { text: 'half', ...fail('TRANSPORT') },
      call('look', '{"half'),
    )
    .map(plain),
  fc.constantFrom(call('look'), say('and')).map(steer),
  fc.constantFrom<FakeAnswer>(call('work'), say('stopped'), { hang: true, text: 'half' }).map(cancelled),
)

describe('any history', () => {
  it('is replayed as it was recorded, without running a tool', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 3 }),
        async turns => {
          const stored = await record(turns)
          const { report, ran } = await replay(stored)
          expect(report.divergence).toBeUndefined()
          expect(report).toMatchObject({ same: true, turns: turns.length })
          expect(ran).toEqual([])
          for (const tree of trees.splice(0)) await tree.dispose()
        },
      ),
      { numRuns: 20 },
    )
  }, 60_000)
})

describe('a replay', () => {
  const results = (events: readonly SessionEvent[]) => events.filter(({ type }) => type === 'tool/result')

  it('runs what changes nothing where that is asked for, and names the first other answer', async () => {
    const stored = await record([[plain(call('look')), plain(call('work')), plain(call('look'))]])
    const { report, ran } = await replay(stored, { runTools: true })
    expect(ran).toEqual(['look', 'look'])
    expect(report.divergence).toMatchObject({
      step: 3,
      expected: 'success\nlooked at at at ',
      came: 'success\nlooked at at ',
    })
    expect(results(stored.events)).toHaveLength(3)
  })

  it('names a message that did not come again, one that was not there, and a request too many', async () => {
    const quiet = await record([[plain(say('a'))], [plain(say('b'))]])
    const loud = `
- name: ${JSON.stringify(NOTES)}
`
    const { report } = await replay(quiet, {}, loud)
    expect(report.divergence).toMatchObject({ turn: 1, step: 1, what: 'who a message is from', came: 'plugin notes' })
    const cut = quiet.events.filter(({ type }) => type !== 'assistant/message')
    const numbered = cut.map((event, seq) => ({ ...event, seq })) as SessionEvent[]
    const { report: more } = await replay({ ...quiet, events: numbered })
    expect(more.divergence).toMatchObject({ turn: 1, what: 'a request that was not recorded' })
  })

  it('compacts again as it was compacted: results cut, then a summary, which is the recorded one', async () => {
    const compaction = "- name: '@cambium/agent/compaction'\n"
    const words = (count: number, word: string) => `${word} of the story goes on and on. `.repeat(count)
    const long = (word: string) => plain(say(words(2_200, word), { inputTokens: 10, outputTokens: 10 }))
    const turns: Turn[] = Array.from({ length: 9 }, (_, index) => [
      () => (request: { purpose?: string }) =>
        request.purpose ? say('All of it, in short.') : say(words(2_200, `part ${index}`)),
    ])
    const stored = await record([[plain(call('look'))], ...turns, [long('end')]], compaction)
    const replaced = stored.events.filter(({ type }) => type === 'context/replaced')
    expect(JSON.stringify(replaced)).toContain('All of it, in short.')
    const { report } = await replay(stored, {}, compaction)
    expect(report.divergence).toBeUndefined()
    expect(report).toMatchObject({ same: true, turns: turns.length + 2 })
  })

  it('has no summary where none was had then, and those that were had at their places', async () => {
    const compaction = "- name: '@cambium/agent/compaction'\n"
    const long = (word: string) => say(`${word} of the story goes on and on. `.repeat(2_200))
    let asked = 0
    const turns: Turn[] = Array.from({ length: 24 }, (_, index) => [
      () => (request: { purpose?: string }) => {
        if (!request.purpose) return long(`part ${index}`)
        return asked++ ? say(`All of it, in short, for the ${asked}th time.`) : { text: 'cut', finish: 'max-tokens' }
      },
    ])
    const stored = await record([...turns, [plain(call('look'))]], compaction)
    const ended = stored.events.flatMap(({ type, data }) => (type === 'compaction/ended' ? [data] : []))
    expect(ended).toContainEqual(expect.objectContaining({ error: expect.anything() }))
    expect(ended).toContainEqual(expect.objectContaining({ tier: 'summary' }))
    const { report } = await replay(stored, {}, compaction)
    expect(report.divergence).toBeUndefined()
    expect(report).toMatchObject({ same: true })
  })

  it('measures as a process does that takes the session up, whatever was measured before', async () => {
    const compaction = "- name: '@cambium/agent/compaction'\n"
    const turns: Turn[] = Array.from({ length: 9 }, (_, index) => [
      () => (request: { purpose?: string }) =>
        request.purpose ? say('All of it, in short.') : say(`part ${index} goes on and on. `.repeat(3_000)),
    ])
    const stored = await record(turns, compaction)
    expect(stored.events.map(({ type }) => type)).toContain('context/replaced')
    const header = stored.events.find(({ type }) => type === 'request/header') as SessionEvent<'request/header'>
    const { report } = await replay(stored, {}, compaction, ({ ctx }) => {
      for (let time = 0; time < 9; time++) ctx.llm.meter.calibrate(header.data.config, 5_000, 10_000)
    })
    expect(report.divergence).toBeUndefined()
  })

  it('decides what a person was asked as the person did', async () => {
    const policy = `- name: ${JSON.stringify(ASKING)}\n`
    const answer = async ({ exec }: { exec: { name: string } }) =>
      exec.name === 'look' ? { kind: 'allow' } : { kind: 'deny', reason: 'rather not' }
    const stored = await record([[plain(many('look', 'work'))]], policy, ({ ctx }) => {
      ctx.provide('approval', { request: answer } as never)
    })
    expect(JSON.stringify(results(stored.events))).toContain('rather not')
    const { report } = await replay(stored, {}, policy)
    expect(report.divergence).toBeUndefined()
    expect(report).toMatchObject({ same: true, tools: { replayed: 1 } })
  })

  it('names what was recorded and does not come at all', () => {
    const comparison = new Comparison()
    const place = { turn: 2, step: 1, seq: 7, lane: 'results' } as const
    comparison.expect([{ ...place, noun: 'the result of look', parts: [['the result of look', 'looked']] }])
    comparison.end()
    const what = 'the result of look was recorded and did not come'
    expect(comparison.divergence).toEqual({ turn: 2, step: 1, what, expected: 'looked' })
  })

  it('ends when it is told to, and leaves nothing behind', async () => {
    const stored = await record([[plain(call('work'))], [plain(say('b'))]])
    const stop = new AbortController()
    const { report, tree } = await replay(stored, { signal: stop.signal, progress: () => stop.abort() })
    expect(report).toMatchObject({ same: false, turns: 0 })
    expect(tree.ctx.sessions.list()).toEqual([])
    expect(tree.ctx.agents.list()).toEqual([])
  })
})

/** A plugin that adds a message to each turn. */
const NOTES = `data:text/javascript,${encodeURIComponent(`
export const name = 'notes'
export function apply(ctx) {
  ctx.on('agent/pre-step', async (input, next) => {
    const decision = await next()
    const message = { id: 'gap' + input.turn + input.step, role: 'user', content: [{ type: 'text', text: 'Mind the gap.' }], source: { kind: 'plugin', plugin: 'notes' } }
    return decision.kind === 'enter' ? { ...decision, messages: [message, ...decision.messages] } : decision
  })
}`)}`

/** A policy that lets a person decide. */
const ASKING = `data:text/javascript,${encodeURIComponent(`
export const name = 'asking'
export function apply(ctx) {
  ctx.on('tools/pre-execute', async () => ({ kind: 'ask', reason: 'may it?' }))
}`)}`
