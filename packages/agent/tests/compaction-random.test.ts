/** Compaction of conversations as wild as logs can be, again and again, with a session taken up in between. */

import type {} from '@cambium/agent/compaction'
import { type AssistantBlock, LlmAdapter, type LlmRequest, type Message, type StreamChunk, textOf } from '@cambium/llm'
import { contextTokens, foldSurface, type Session, type SessionEvent, type SessionId } from '@cambium/session'
import { bootTree } from '@cambium/testkit'
import type { Agent } from '@cambium/tools'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { SPINE, user } from './boot.ts'
import { ends, readable, unpaired, words } from './compacting.ts'

const WINDOW = 6_000
/** What a request may have: the model's answers have 600 of the window. */
const LIMIT = 5_400
const ROUTE = { provider: 'wild', model: 'wild' }
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

type Behaviour = 'good' | 'fails' | 'empty' | 'long' | 'calls' | 'cut'

class Wild extends LlmAdapter {
  behaviour: Behaviour = 'good'
  answer = 'fine'
  readonly requests: LlmRequest[] = []
  readonly summaries: LlmRequest[] = []

  override models() {
    return [{ id: 'wild', contextWindow: WINDOW }]
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    const summing = request.purpose === 'compaction'
    ;(summing ? this.summaries : this.requests).push(request)
    if (summing && this.behaviour === 'fails') {
      return yield { type: 'finish', reason: 'error', failure: { code: 'INVALID_REQUEST', message: 'no' } }
    }
    const text = summing
      ? { good: 'A NOTE', long: words(9_000), cut: 'half', empty: '', calls: '' }[this.behaviour as 'good']
      : this.answer
    if (text) {
      yield { type: 'block-start', index: 0, blockType: 'text' }
      yield { type: 'text-delta', index: 0, text }
      yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    }
    if (summing && this.behaviour === 'calls') {
      const block: AssistantBlock = { type: 'tool-call', id: 'x', name: 'none', arguments: '{}' }
      yield { type: 'block-start', index: 1, blockType: 'tool-call' }
      yield { type: 'block-end', index: 1, block }
      return yield { type: 'finish', reason: 'tool-calls' }
    }
    yield { type: 'finish', reason: summing && this.behaviour === 'cut' ? 'max-tokens' : 'stop' }
  }
}

const text = fc.oneof(
  { weight: 5, arbitrary: fc.nat(300).map(count => words(count + 1, 'lorem')) },
  { weight: 2, arbitrary: fc.nat(3_000).map(count => words(count + 1, 'ipsum')) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('漢字かな'.repeat(600), '🙂👩‍👩‍👧'.repeat(300), '', ' \n', 'x'.repeat(20_000)),
  },
  fc.string({ unit: 'binary', maxLength: 40 }),
)

interface Step {
  readonly said: string
  readonly thought: string | undefined
  readonly replay: boolean
  readonly results: readonly { readonly text: string; readonly image: boolean; readonly aborted: boolean }[]
  readonly steered: string | undefined
}
interface Turn {
  readonly prompt: string
  readonly image: boolean
  readonly steps: readonly Step[]
}

const step: fc.Arbitrary<Step> = fc.record({
  said: text,
  thought: fc.option(text, { nil: undefined }),
  replay: fc.boolean(),
  results: fc.array(fc.record({ text, image: fc.boolean(), aborted: fc.boolean() }), { maxLength: 4 }),
  steered: fc.option(text, { nil: undefined, freq: 4 }),
})
const turns: fc.Arbitrary<Turn[]> = fc.array(
  fc.record({ prompt: text, image: fc.boolean(), steps: fc.array(step, { maxLength: 5 }) }),
  { minLength: 1, maxLength: 6 },
)

/** The events of such a conversation, as a loop would have logged them. */
function logOf(list: readonly Turn[]): SessionEvent[] {
  const events: SessionEvent[] = []
  const add = (type: string, data: unknown) => {
    events.push({ seq: events.length, time: 1, type, data } as SessionEvent)
  }
  const image = { type: 'image', mediaType: 'image/png', data: PNG }
  let ids = 0
  add('request/header', { config: ROUTE, system: 'You are under test.' })
  for (const [index, { prompt, image: pictured, steps }] of list.entries()) {
    const turn = index + 1
    add('turn/start', { turn })
    const content = [{ type: 'text', text: prompt }, ...(pictured ? [image] : [])]
    add('user/message', { message: { id: `p${++ids}`, role: 'user', content, source: { kind: 'user' } } })
    for (const [at, { said, thought, replay, results, steered }] of steps.entries()) {
      const where = { turn, step: at + 1 }
      add('step/start', where)
      if (steered !== undefined) add('user/message', { message: user(steered) })
      const calls = results.map(() => ({ type: 'tool-call', id: `c${++ids}`, name: 'none', arguments: '{"a":1}' }))
      const reasoning =
        thought === undefined
          ? []
          : [{ type: 'reasoning', text: thought, ...(replay ? { replay: { type: 'thinking', signature: 'x' } } : {}) }]
      const source = { kind: 'model', ...ROUTE }
      const content = [...reasoning, ...(said ? [{ type: 'text', text: said }] : []), ...calls]
      add('assistant/message', {
        ...where,
        message: { id: `a${++ids}`, role: 'assistant', content, source },
        finish: calls.length ? 'tool-calls' : 'stop',
      })
      for (const [n, result] of results.entries()) {
        const toolCallId = calls[n]!.id
        const block = {
          type: 'tool-result',
          toolCallId,
          content: [
            { type: 'text', text: result.aborted ? 'Interrupted.' : result.text },
            ...(result.image ? [image] : []),
          ],
          ...(result.aborted ? { isError: true } : {}),
        }
        add('tool/result', {
          ...where,
          message: { id: `r${++ids}`, role: 'user', content: [block], source: { kind: 'tool', callId: toolCallId } },
          ...(result.aborted ? { error: { code: 'ABORTED', message: 'Interrupted.' } } : {}),
        })
      }
      add('step/end', where)
    }
    add('turn/end', { turn, reason: { kind: 'completed' } })
  }
  return events
}

let tree: Awaited<ReturnType<typeof bootTree>>
const wild = new Wild()
/** Of the conversation's requests, when they were made. */
const sizes: number[] = []
beforeAll(async () => {
  tree = await bootTree(`${SPINE}
- { name: '@cambium/llm/retry', config: { maxAttempts: 1 } }
- { name: '@cambium/agent/compaction' }
`)
  tree.ctx.llm.registerAdapter('wild', wild)
  tree.ctx.on('llm/stream', (request, next) => {
    const session = tree.ctx.sessions.get(request.sessionId as SessionId)
    const { system = '', tools = [] } = request
    if (!request.purpose)
      sizes.push(contextTokens(session!, tree.ctx.llm.meter, { route: ROUTE, system, tools }).tokens)
    return next()
  })
})
afterAll(() => tree.dispose())

const LATE = 'The call was interrupted; its outcome is unknown'
const shown = (request: LlmRequest) => JSON.stringify(request.messages)
const occurrences = (list: readonly Message[], part: string) =>
  list.reduce((sum, message) => sum + textOf(message).split(part).length - 1, 0)

function checkSession(session: Session) {
  expect(unpaired(session.deriveMessages())).toEqual([])
  expect(foldSurface(session.events())).toEqual(session.surface())
}

async function checked(agent: Agent, token: string) {
  const { session } = agent
  const before = readable(session)
  const asked = wild.requests.length
  agent.followup(user(token))
  await agent.whenIdle()
  expect(session.last('turn/end')?.data.reason).toEqual({ kind: 'completed' })
  checkSession(session)
  expect(readable(session).slice(0, before.length)).toEqual(before)
  for (const size of sizes.splice(0)) expect(size).toBeLessThanOrEqual(LIMIT)
  for (const request of wild.requests.slice(asked)) {
    expect(tree.ctx.llm.meter.estimate(ROUTE, request)).toBeLessThanOrEqual(WINDOW)
    expect(occurrences(request.messages, token)).toBe(1)
    expect(shown(request)).not.toContain(LATE)
  }
  for (const request of wild.summaries) expect(shown(request)).not.toContain(LATE)
}

it('whatever was said, the next request fits, pairs are whole, and the last words of the person are in it once', async () => {
  let n = 0
  const tiers = new Set<unknown>()
  await fc.assert(
    fc.asyncProperty(
      turns,
      fc.array(fc.tuple(fc.constantFrom<Behaviour[]>('good', 'good', 'fails', 'empty', 'long', 'calls', 'cut'), text), {
        minLength: 1,
        maxLength: 5,
      }),
      async (history, rounds) => {
        wild.summaries.length = 0
        let events: readonly SessionEvent[] = logOf(history)
        for (const [behaviour, answer] of rounds) {
          // A session that is taken up is made of its events, and of nothing else.
          const { agent, dispose } = await tree.ctx.agents.create({ model: 'wild/wild', seed: events })
          wild.behaviour = behaviour
          wild.answer = `said ${answer}`
          await checked(agent, `TOKEN-${++n}-`)
          for (const { tier } of ends(agent.session)) tiers.add(tier)
          // By hand as well, and then again, which finds nothing to do.
          if (n % 3 === 0) {
            const compact = () => tree.ctx.compaction.compact(agent).catch((error: Error) => error)
            const first = await compact()
            checkSession(agent.session)
            if (!(first instanceof Error) && first.tier) {
              const { seq } = agent.session
              expect(await compact()).toMatchObject({ why: expect.any(String) })
              expect(agent.session.seq).toBe(seq)
            }
          }
          const { tokens } = contextTokens(agent.session, tree.ctx.llm.meter, { route: ROUTE })
          expect(tokens).toBeGreaterThan(0)
          events = agent.session.events()
          await dispose()
        }
      },
    ),
    { numRuns: Number(process.env['RUNS'] ?? 20) },
  )
  for (const tier of ['summary', 'digest']) expect(tiers).toContain(tier)
})
