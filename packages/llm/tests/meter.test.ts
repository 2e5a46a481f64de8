import { readFileSync } from 'node:fs'
import {
  type AssistantMessage,
  createToolResultMessage,
  createUserMessage,
  estimateMessages,
  estimateRequest,
  estimateTokens,
  LlmAdapter,
  type Message,
  type MeterAnchor,
  price,
  TokenMeter,
  type TokenUsage,
} from '@cambium/llm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { adapted, answer, ask, user } from './llm.ts'
import { calibratedError, corpus, errorOf, MODELS, messageOf, table } from './meter-table.ts'

const usage = {
  inputTokens: 1_000_000,
  outputTokens: 100_000,
  cacheReadTokens: 2_000_000,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
}

describe('the estimate', () => {
  const texts = corpus()
  const kinds = [...new Set(texts.map(({ kind }) => kind))]

  describe.each(Object.keys(MODELS))('for the vocabulary %s', vocabulary => {
    it('is within 15 % on the mixed corpus, and on each kind of text', () => {
      expect(Math.abs(errorOf(texts, vocabulary))).toBeLessThan(0.05)
      for (const kind of kinds) {
        const error = errorOf(
          texts.filter(text => text.kind === kind),
          vocabulary,
        )
        expect(Math.abs(error), kind).toBeLessThan(0.15)
      }
    })

    it('is within 25 % for each text, and within 8 % in the middle', () => {
      const errors = texts.map(text => Math.abs(errorOf([text], vocabulary)))
      expect(Math.max(...errors)).toBeLessThan(0.25)
      expect(errors.reduce((sum, error) => sum + error) / errors.length).toBeLessThan(0.08)
    })

    it('is within 15 % after three counted requests, of a model that nobody knows too', () => {
      expect(Math.abs(calibratedError(texts, vocabulary))).toBeLessThan(0.15)
      expect(Math.abs(calibratedError(texts, vocabulary, 'unknown'))).toBeLessThan(0.15)
    })
  })

  it('has the errors that the README says', () => {
    expect(readFileSync(new URL('../README.md', import.meta.url), 'utf8')).toContain(table())
  })

  it('costs the time of a look at each character', () => {
    const text = texts
      .map(text => text.text)
      .join('\n')
      .repeat(40)
    estimateTokens(text)
    const before = process.cpuUsage()
    estimateTokens(text)
    const { user: spent, system } = process.cpuUsage(before)
    // Fifty and more on a machine that has time; ten where ten others run.
    expect(Buffer.byteLength(text) / (spent + system)).toBeGreaterThan(10)
  })

  it('of an unknown text is never negative, and never less for more of it', () => {
    const part = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string(),
      fc.constantFrom('  ', '\n', 'Ab1', '台', '\ud83d'),
    )
    fc.assert(
      fc.property(part, part, (a, b) => {
        expect(estimateTokens(a)).toBeGreaterThanOrEqual(0)
        // What is joined may be cheaper than its parts by the mark that a word takes along.
        expect(estimateTokens(`${a} ${b}`)).toBeGreaterThanOrEqual(estimateTokens(a) - 1)
      }),
    )
  })

  it('covers messages, calls, pictures and tools', () => {
    const message = createUserMessage({ content: 'hello there', source: { kind: 'user' } })
    expect(estimateMessages([message, message])).toBe(2 * estimateMessages([message]))
    const tool = { name: 'read', description: 'Reads a file', parameters: { type: 'object' } }
    expect(estimateRequest({ system: 'Be brief.', messages: [message], tools: [tool] })).toBeGreaterThan(
      estimateMessages([message]) + 10,
    )
  })

  it('counts a picture by its size, as its provider does, and by a middle value where that cannot be read', () => {
    const png = (width: number, height: number) => {
      const bytes = Buffer.alloc(33)
      bytes.write('\x89PNG\r\n\x1a\n', 'latin1')
      bytes.writeUInt32BE(13, 8)
      bytes.write('IHDR', 12, 'latin1')
      bytes.writeUInt32BE(width, 16)
      bytes.writeUInt32BE(height, 20)
      bytes[24] = 8
      return bytes.toString('base64')
    }
    const tokens = (data: string, model: string) => {
      const content = [{ type: 'image' as const, mediaType: 'image/png', data }]
      return estimateMessages([createUserMessage({ content, source: { kind: 'user' } })], model) - 4
    }
    expect(tokens(png(750, 1000), 'claude-sonnet-4-5')).toBe(1000)
    expect(tokens(png(6000, 6000), 'claude-sonnet-4-5')).toBe(1600)
    expect(tokens(png(1024, 1024), 'gpt-4o')).toBe(85 + 4 * 170)
    expect(tokens(png(4096, 1024), 'gpt-4o')).toBe(85 + 4 * 170)
    expect(tokens(png(300, 300), 'gemini-2.5-pro')).toBe(258)
    expect(tokens('AAAA', 'claude-sonnet-4-5')).toBe(1200)
    expect(tokens('AAAA', 'gpt-4o')).toBe(765)
  })
})

const route = { provider: 'p', model: 'm' }
const used = (inputTokens: number, outputTokens = 0, more: Partial<TokenUsage> = {}): TokenUsage => ({
  inputTokens,
  outputTokens,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  ...more,
})
const said = (text: string, reasoning?: string): AssistantMessage => ({
  id: `a-${text}`,
  role: 'assistant',
  content: [...(reasoning ? [{ type: 'reasoning' as const, text: reasoning }] : []), { type: 'text', text }],
  source: { kind: 'model', ...route },
})

describe('calibration', () => {
  const meter = (ratios: readonly number[], size = 10_000) => {
    const meter = new TokenMeter()
    for (const ratio of ratios) meter.calibrate(route, size, size * ratio)
    return meter.factor(route)
  }

  it('takes the middle of the last counts of a route', () => {
    expect(meter([])).toBe(1)
    expect(meter([1.2])).toBe(1.2)
    expect(meter([1.2, 1.3, 1.25])).toBe(1.25)
    expect(meter([1.5, 1.5, 1.5, ...Array<number>(9).fill(0.9)])).toBe(0.9)
  })

  it('is not moved by one that is far off, nor by what cannot be', () => {
    expect(meter([1.2, 1.2, 3.9, 1.2])).toBe(1.2)
    expect(meter([0, 0.001, 100, Number.NaN, Number.POSITIVE_INFINITY])).toBe(1)
    expect(meter([3.9, 3.9, 3.9])).toBe(2)
    expect(meter([0.3, 0.3, 0.3])).toBe(0.5)
  })

  it('believes little of a small request', () => {
    expect(meter([2], 50)).toBe(1)
    expect(meter([1.3, 1.3], 1_000)).toBe(1.3)
  })

  it('knows each route apart, and a bounded number of them', () => {
    const meter = new TokenMeter()
    for (let n = 0; n < 500; n++) meter.calibrate({ provider: 'p', model: `m${n}` }, 10_000, 12_000)
    expect(meter.factor({ provider: 'p', model: 'm499' })).toBe(1.2)
    expect(meter.factor({ provider: 'p', model: 'm0' })).toBe(1)
    expect(meter.factor({ provider: 'q', model: 'm499' })).toBe(1)
  })

  it('learns from every answer that ctx.llm streams', async () => {
    const root = await adapted(
      new (class extends LlmAdapter {
        override async *stream() {
          yield { type: 'block-start' as const, index: 0, blockType: 'text' as const }
          yield { type: 'text-delta' as const, index: 0, text: 'ok' }
          yield { type: 'block-end' as const, index: 0, block: { type: 'text' as const, text: 'ok' } }
          yield { type: 'usage' as const, usage: used(2_000, 1, { cacheReadTokens: 5_000 }) }
          yield { type: 'finish' as const, reason: 'stop' as const }
        }
      })(),
    )
    const messages = [user('lorem ipsum dolor '.repeat(2_000))]
    const before = root.llm.meter.estimate(ask(), { messages })
    await answer(root, { messages })
    expect(root.llm.meter.estimate(ask(), { messages })).toBe(7_000)
    expect(before).toBeLessThan(7_000)
  })
})

describe('the measure of a request', () => {
  const meter = new TokenMeter()
  const system = 'You are under test. '.repeat(20)
  const tools = [{ name: 'read', description: 'Reads a file', parameters: { type: 'object', properties: {} } }]
  const sent = [user('one '.repeat(300)), user('two '.repeat(300))]
  const reply = said('an answer')
  const anchor: MeterAnchor = { route, system, tools, messages: sent, usage: used(900, 50), answer: reply }
  const tokens = (messages: readonly Message[], more: object = {}) =>
    meter.measure({ route, system, tools, messages, anchor, ...more }).tokens

  it('is what the provider counted, and an estimate of what came since', () => {
    expect(tokens(sent)).toBe(900)
    expect(tokens([...sent, reply])).toBe(950)
    const next = user('and now something else')
    expect(meter.measure({ route, system, tools, messages: [...sent, reply, next], anchor })).toEqual({
      tokens: 950 + estimateMessages([next], 'm'),
      anchored: 950,
      estimated: estimateMessages([next], 'm'),
    })
  })

  it('counts the cache, and reasoning only where it is kept', () => {
    const usage = used(100, 500, { cacheReadTokens: 700, cacheWriteTokens: 100, reasoningTokens: 450 })
    expect(tokens([...sent, reply], { anchor: { ...anchor, usage } })).toBe(950)
    const thought = said('an answer', 'because')
    expect(tokens([...sent, thought], { anchor: { ...anchor, usage, answer: thought } })).toBe(1_400)
  })

  it('keeps the count for what is left when history, system or tools were changed', () => {
    const parts = estimateRequest({ system, tools, messages: sent }, 'm')
    const summary = user('a summary')
    const left = 900 * (1 - estimateMessages([sent[0]!], 'm') / parts)
    const replaced = tokens([summary, sent[1]!, reply])
    expect(Math.abs(replaced - (left + 50 + estimateMessages([summary], 'm')))).toBeLessThanOrEqual(2)
    expect(tokens(sent, { system: 'Short.' })).toBeLessThan(900)
    expect(tokens(sent, { tools: [...tools, { ...tools[0]!, name: 'write' }] })).toBeGreaterThan(900)
    expect(tokens(sent, { tools: structuredClone(tools) })).toBe(900)
  })

  it('is estimated from nothing for another model, and where nothing was counted', () => {
    const all = { system, tools, messages: sent }
    const other = { provider: 'p', model: 'deepseek-chat' }
    expect(tokens(sent, { route: other })).toBe(estimateRequest(all, 'deepseek-chat'))
    expect(tokens(sent, { anchor: { ...anchor, usage: used(0) } })).toBe(estimateRequest(all, 'm'))
    expect(tokens(sent, { anchor: undefined })).toBe(estimateRequest(all, 'm'))
  })

  it('is never negative, and never less for more messages, whatever was counted', () => {
    const pool: Message[] = [
      ...sent,
      reply,
      ...corpus().slice(0, 8).map(messageOf),
      createToolResultMessage({ callId: 'c', content: [{ type: 'text', text: 'x'.repeat(500) }] }),
    ]
    const some = fc.subarray(pool)
    fc.assert(
      fc.property(some, some, some, fc.nat(5_000), fc.nat(5_000), (was, now, more, input, output) => {
        const from = { ...anchor, messages: was, usage: used(input, output, { reasoningTokens: output }) }
        const less = tokens(now, { anchor: from })
        expect(less).toBeGreaterThanOrEqual(0)
        const extra = more.filter(message => !now.includes(message))
        expect(tokens([...now, ...extra], { anchor: from })).toBeGreaterThanOrEqual(less)
      }),
    )
  })
})

describe('the price', () => {
  it('prices the cache apart where the provider does', () => {
    expect(price(usage, { id: 'm', price: { input: 3, output: 15, cacheRead: 0.3 } })).toBeCloseTo(3 + 1.5 + 0.6)
    expect(price(usage, { id: 'm', price: { input: 3, output: 15 } })).toBeCloseTo(3 + 1.5 + 6)
  })

  it('is unknown where the model is', () => {
    expect(price(usage, { id: 'm' })).toBeUndefined()
    expect(price(usage, undefined)).toBeUndefined()
  })
})
