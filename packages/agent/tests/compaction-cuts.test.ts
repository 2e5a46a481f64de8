/** Where a conversation is cut: at no place is a call torn from its result, in what stays and in what is summed up. */

import { type Message, TokenMeter } from '@cambium/llm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { balancedCuts, cutAtOrBefore, cutFor } from '../src/compaction/cuts.ts'
import { cutMiddle, OLD_RESULT_CHARS, shortenResult, withoutReasoning } from '../src/compaction/shorten.ts'
import { summaryInput } from '../src/compaction/summariser.ts'
import { user } from './boot.ts'
import { unpaired, words } from './compacting.ts'

let ids = 0
const said = (...calls: string[]): Message => ({
  id: `m${++ids}`,
  role: 'assistant',
  content: [
    { type: 'text', text: words(40) },
    ...calls.map(id => ({ type: 'tool-call' as const, id, name: 'look', arguments: '{}' })),
  ],
  source: { kind: 'model', provider: 'p', model: 'm' },
})
const result = (toolCallId: string, text = words(60)): Message => ({
  id: `m${++ids}`,
  role: 'user',
  content: [{ type: 'tool-result', toolCallId, content: [{ type: 'text', text }] }],
  source: { kind: 'tool', callId: toolCallId },
})

/** As a loop logs it: three calls at once, one aborted, a steer between; an id that is used again; a result that came twice. */
const HISTORY: readonly Message[] = [
  user('first'),
  said('a', 'b', 'c'),
  result('a'),
  result('b', 'Interrupted before this call was started.'),
  user('steered'),
  result('c'),
  said('d'),
  result('d'),
  said(),
  user('second'),
  said('a'),
  result('a'),
  result('a'),
  said('e', 'f'),
  result('f'),
  result('e'),
]

const whole = (messages: readonly Message[]) => {
  // A second result of one call is no pair of its own.
  const seen = new Set<Message>()
  const results = new Set<string>()
  for (const message of messages) {
    for (const block of message.content) {
      if (block.type === 'tool-call') results.delete(block.id)
      if (block.type !== 'tool-result') continue
      if (results.has(block.toolCallId)) seen.add(message)
      results.add(block.toolCallId)
    }
  }
  return unpaired(messages.filter(message => !seen.has(message)))
}

describe('a cut', () => {
  it('asked for at every place leaves both parts whole', () => {
    const cuts = balancedCuts(HISTORY)
    for (let at = 0; at <= HISTORY.length; at++) {
      const place = cutAtOrBefore(cuts, at)
      expect(place).toBeLessThanOrEqual(at)
      expect([at, whole(HISTORY.slice(0, place)), whole(HISTORY.slice(place))]).toEqual([at, [], []])
    }
    expect(cuts.flatMap((safe, at) => (safe ? [at] : []))).toEqual([0, 1, 6, 8, 9, 10, 13, 16])
  })

  it('for any budget leaves both parts whole, and what is unread behind it', () => {
    const prices = HISTORY.map(() => 10)
    const cuts = balancedCuts(HISTORY)
    for (let tokens = 0; tokens <= 200; tokens += 5) {
      const place = cutFor(prices, cuts, { tokens, unread: 13 })
      expect(place).toBeLessThanOrEqual(13)
      expect(whole(HISTORY.slice(place))).toEqual([])
      if (place < 13) expect((HISTORY.length - place) * 10).toBeLessThanOrEqual(tokens)
    }
  })

  it('of what the summariser reads, however little that is, tears nothing', () => {
    const envelope = { config: { provider: 'p', model: 'm' }, system: 'You are under test.', tools: [] }
    const llm = { meter: new TokenMeter() }
    const task = { messages: HISTORY.slice(0, 13), envelope, maxTokens: 500, focus: undefined }
    const lengths = new Set<number>()
    for (let limit = 100; limit < 2_500; limit += 20) {
      const messages = summaryInput(task, llm, limit)
      lengths.add(messages.length)
      expect([limit, whole(messages)]).toEqual([limit, []])
      const size = llm.meter.estimate(envelope.config, { system: envelope.system, messages })
      if (limit > 1_000) expect(size).toBeLessThanOrEqual(limit)
    }
    expect(lengths.size).toBeGreaterThan(4)
  })
})

describe('what is shortened', () => {
  const units = fc
    .array(fc.constantFrom('a', '漢', '🙂', '👩‍👩‍👧', '\n', ' '), { maxLength: 4_000 })
    .map(list => list.join(''))

  it('keeps its beginning and its end, and no half of a character', () => {
    fc.assert(
      fc.property(units, fc.integer({ min: 16, max: 3_000 }), (text, chars) => {
        const cut = cutMiddle(text, chars)
        expect(cut).not.toMatch(/\p{Surrogate}/u)
        expect(cut.length).toBeLessThanOrEqual(Math.max(text.length, chars + 120))
        // Whole characters of the beginning and of the end, as far as the first and last few go.
        const [head = ''] = text
        expect(cut.startsWith(head) && cut.endsWith([...text].at(-1) ?? '')).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  it('is not shortened again', () => {
    fc.assert(
      fc.property(fc.array(units, { maxLength: 3 }), fc.boolean(), (texts, pictured) => {
        const image = { type: 'image' as const, mediaType: 'image/png', data: 'AAAA' }
        const message: Message = {
          ...result('a'),
          role: 'user',
          content: [
            {
              type: 'tool-result',
              toolCallId: 'a',
              content: [...texts.map(text => ({ type: 'text' as const, text })), ...(pictured ? [image] : [])],
            },
          ],
        }
        const once = shortenResult(message)
        expect(shortenResult(once)).toBe(once)
        expect(JSON.stringify(once)).not.toContain('AAAA')
        const [block] = once.content
        const length =
          block?.type === 'tool-result'
            ? JSON.stringify(block.content.map(item => 'text' in item && item.text)).length
            : 0
        expect(length).toBeLessThan(2 * OLD_RESULT_CHARS + 500)
      }),
      { numRuns: 60 },
    )
  })

  it('an answer without its thoughts keeps its calls, and nothing that belongs to a thought', () => {
    const replay = { type: 'thinking', signature: 'x' }
    const message: Message = {
      ...said(),
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm', replay },
        { type: 'text', text: 'I look.' },
        { type: 'tool-call', id: 'a', name: 'look', arguments: '{}', replay },
      ],
    }
    expect(withoutReasoning(message).content).toEqual([
      { type: 'text', text: 'I look.' },
      { type: 'tool-call', id: 'a', name: 'look', arguments: '{}' },
    ])
    expect(withoutReasoning(said('b'))).toMatchObject({ role: 'assistant' })
    const plain = said('b')
    expect(withoutReasoning(plain)).toBe(plain)
  })
})
