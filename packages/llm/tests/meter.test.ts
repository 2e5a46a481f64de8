import { createUserMessage, estimateMessages, estimateRequest, estimateTokens, price } from '@cambium/llm'
import { describe, expect, it } from 'vitest'

const usage = {
  inputTokens: 1_000_000,
  outputTokens: 100_000,
  cacheReadTokens: 2_000_000,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
}

describe('the estimate', () => {
  it('is near what tokenizers count, in several scripts', () => {
    // Counts of the o200k vocabulary.
    const counted: [string, number][] = [
      ['The quick brown fox jumps over the lazy dog.', 10],
      ['const result = await fetch(url + "/api/v1/items?id=" + id, { method: "POST" })', 24],
      ['{"file_path":"/home/user/project/src/index.ts","offset":120,"limit":40}', 20],
      ['吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。', 32],
      ['我们昨天在北京的一家小餐馆里吃了很好吃的饺子。', 19],
      ['Съешь же ещё этих мягких французских булок, да выпей чаю.', 19],
    ]
    for (const [text, tokens] of counted) {
      expect(estimateTokens(text)).toBeGreaterThan(tokens * 0.8)
      expect(estimateTokens(text)).toBeLessThan(tokens * 1.5)
    }
  })

  it('covers messages, calls, pictures and tools', () => {
    const message = createUserMessage({ content: 'hello there', source: { kind: 'user' } })
    expect(estimateMessages([message, message])).toBe(2 * estimateMessages([message]))
    const tool = { name: 'read', description: 'Reads a file', parameters: { type: 'object' } }
    expect(estimateRequest({ system: 'Be brief.', messages: [message], tools: [tool] })).toBeGreaterThan(
      estimateMessages([message]) + 10,
    )
    expect(
      estimateMessages([{ ...message, content: [{ type: 'image', mediaType: 'image/png', data: 'AAAA' }] }]),
    ).toBeGreaterThan(1_000)
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
