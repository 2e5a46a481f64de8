import { estimateMessages, estimateRequest, type Message, TokenMeter, type TokenUsage } from '@cambium/llm'
import { contextTokens, type Session } from '@cambium/session'
import { beforeEach, describe, expect, it } from 'vitest'
import { type Booted, boot, bootStore, scratch, user } from './boot.ts'

const config = { provider: 'p', model: 'm' }
const used = (inputTokens: number, outputTokens: number): TokenUsage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
})
const LONG = 'Some words that are read as an instruction. '.repeat(40)

let booted: Booted
let meter: TokenMeter
let session: Session
beforeEach(async () => {
  booted = await boot()
  meter = new TokenMeter()
  session = booted.ctx.sessions.create()
})

const header = (to: Session, more = {}) => to.append('request/header', { config, system: 'Be brief.', ...more })
const hear = (to: Session, text: string) => to.append('user/message', { message: user(text) })
const answer = (to: Session, text: string, usage?: TokenUsage) =>
  to.append('assistant/message', {
    turn: 1,
    step: 1,
    message: {
      id: `m-${to.seq}`,
      role: 'assistant',
      content: [{ type: 'text', text }],
      source: { kind: 'model', ...config },
    },
    ...(usage ? { usage } : {}),
    finish: 'stop',
  })
const tokens = (of = session, by = meter) => contextTokens(of, by).tokens
const estimated = (messages: readonly Message[]) => estimateMessages(messages, 'm')

describe('the size of the next request', () => {
  it('is estimated before the first answer', () => {
    header(session)
    const { message } = hear(session, LONG).data
    expect(contextTokens(session, meter)).toEqual({
      anchored: 0,
      estimated: estimateRequest({ system: 'Be brief.', messages: [message] }, 'm'),
      tokens: estimateRequest({ system: 'Be brief.', messages: [message] }, 'm'),
    })
    expect(tokens(booted.ctx.sessions.create())).toBe(0)
  })

  it('rests on the last answer that was counted, and estimates what came after it', () => {
    header(session)
    hear(session, LONG)
    answer(session, 'yes', used(500, 20))
    expect(tokens()).toBe(520)
    const { message: next } = hear(session, LONG).data
    expect(tokens()).toBe(520 + estimated([next]))
    session.append('request/failed', { turn: 1, step: 1, attempt: 1, failure: { code: 'SERVER', message: 'no' } })
    answer(session, 'uncounted', undefined)
    expect(contextTokens(session, meter).anchored).toBe(520)
    answer(session, 'counted', used(2_000, 30))
    expect(contextTokens(session, meter)).toEqual({ tokens: 2_030, anchored: 2_030, estimated: 0 })
  })

  it('is the same whether it was asked at each event or only at the end', () => {
    const other = booted.ctx.sessions.create()
    for (const to of [session, other]) {
      header(to)
      for (let n = 1; n <= 20; n++) {
        hear(to, `${LONG}${n}`)
        if (to === session) tokens()
        answer(to, `answer ${n}`, n % 3 ? used(n * 300, 10) : undefined)
        if (to === session) tokens()
      }
    }
    const of = (to: Session) => contextTokens(to, new TokenMeter())
    expect(of(session)).toEqual(of(other))
  })

  it('falls when a part of the history is replaced, and goes up again by the next count', () => {
    header(session)
    const from = hear(session, LONG.repeat(5))
    const to = answer(session, 'a', used(4_000, 10))
    hear(session, 'and now')
    const before = tokens()
    session.append('context/replaced', { from: from.seq, to: to.seq, message: user('what was before') })
    expect(tokens()).toBeLessThan(before / 4)
    expect(tokens()).toBeGreaterThan(0)
    answer(session, 'b', used(321, 9))
    expect(tokens()).toBe(330)
  })

  it('may be asked about another system prompt, other tools and another model', () => {
    header(session, { tools: [{ name: 'read', description: 'Reads', parameters: { type: 'object' } }] })
    hear(session, LONG)
    answer(session, 'yes', used(500, 20))
    expect(contextTokens(session, meter, { system: LONG }).tokens).toBeGreaterThan(520)
    expect(contextTokens(session, meter, { tools: [] }).tokens).toBeLessThan(520)
    expect(contextTokens(session, meter, { route: { provider: 'q', model: 'n' } }).anchored).toBe(0)
  })

  it('is right after the session was taken up again, and the log has taught the meter', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const session = first.ctx.sessions.create()
    header(session)
    const sent = hear(session, LONG.repeat(20)).data.message
    const real = Math.round(1.3 * estimateRequest({ system: 'Be brief.', messages: [sent] }, 'm'))
    answer(session, 'yes', used(real, 20))
    hear(session, LONG)
    await first.stop()
    const second = await bootStore(folder)
    const again = await second.ctx.sessions.resume(session.id)
    const fresh = new TokenMeter()
    const tail = estimated([again.deriveMessages().at(-1)!])
    expect(Math.abs(tokens(again, fresh) - (real + 20 + 1.3 * tail))).toBeLessThanOrEqual(2)
    expect(fresh.factor(config)).toBeCloseTo(1.3, 2)
  })

  it('leaves out what a damaged log has broken', () => {
    header(session)
    hear(session, LONG)
    answer(session, 'yes', used(500, 20))
    const broken = session.events().map(event => (event.seq === 2 ? { ...event, data: { usage: 'many' } } : event))
    const seeded = booted.ctx.sessions.create(undefined, { seed: broken as ReturnType<Session['events']> })
    expect(contextTokens(seeded, meter)).toMatchObject({ anchored: 0 })
  })

  it('costs what is new: 5,000 messages are measured in less than a millisecond a step', () => {
    header(session)
    for (let n = 0; n < 2_500; n++) {
      hear(session, `${LONG}${n}`)
      answer(session, `answer ${n}`, used(n * 100 + 1, 5))
    }
    tokens()
    const times = Array.from({ length: 15 }, (_, n) => {
      hear(session, `more ${n}`)
      answer(session, 'so it is', used(300_000 + n, 5))
      hear(session, `and more ${n}`)
      const startedAt = process.cpuUsage()
      tokens()
      const { user, system } = process.cpuUsage(startedAt)
      return user + system
    })
    expect(times.sort((a, b) => a - b)[7]! / 1000).toBeLessThan(1)
  })
})
