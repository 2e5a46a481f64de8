import { lookUpModel, price } from '@cambium/llm'
import { describe, expect, it } from 'vitest'

describe('the table of models', () => {
  it('knows window, longest answer, pictures, efforts and price of a common model', () => {
    expect(lookUpModel('gpt-5')).toEqual({
      id: 'gpt-5',
      contextWindow: 400_000,
      maxOutputTokens: 128_000,
      input: ['text', 'image'],
      efforts: ['minimal', 'low', 'medium', 'high'],
      price: { input: 1.25, output: 10, cacheRead: 0.125 },
    })
    expect(lookUpModel('gpt-4.1')).not.toHaveProperty('efforts')
  })

  it.each([
    ['anthropic/claude-sonnet-4.5', 'claude-sonnet-4-5'],
    ['claude-sonnet-4-5-20250929', 'claude-sonnet-4-5'],
    ['claude-sonnet-4-5@20250929', 'claude-sonnet-4-5'],
    ['us.anthropic.claude-sonnet-4-5-20250929-v1:0', 'claude-sonnet-4-5'],
    ['claude-3-5-haiku-latest', 'claude-3-5-haiku'],
    ['gpt-4o-2024-11-20', 'gpt-4o'],
    ['models/gemini-2.5-pro', 'gemini-2.5-pro'],
    ['accounts/fireworks/models/glm-4p6', 'glm-4.6'],
    ['moonshotai/Kimi-K2-Instruct-0905', 'kimi-k2-0905'],
    ['deepseek/deepseek-chat:free', 'deepseek-chat'],
    ['gpt-oss:20b', 'gpt-oss-20b'],
    ['grok-4.1-fast', 'grok-4-1-fast'],
  ])('takes %s for %s', (id, same) => {
    const found = lookUpModel(id)
    expect(found).toEqual({ ...lookUpModel(same), id })
    expect(found).toHaveProperty('contextWindow')
  })

  it.each([
    'gpt-5-chat-latest',
    'gpt-5-mini-turbo',
    'ft:gpt-4o-2024-08-06:me::abc',
    'gpt-4o:extended',
    'mistral-large-2411',
    'kimi-k2',
    'claude-sonnet-4-5-20',
    'llama3.3:70b',
    'my-model',
    '',
  ])('does not guess what %j is', id => {
    expect(lookUpModel(id)).toBeUndefined()
  })

  it('has a snapshot of its own where that differs', () => {
    expect(lookUpModel('gpt-4o-2024-05-13')?.price).toEqual({ input: 5, output: 15 })
    expect(lookUpModel('gpt-4o-2024-05-13')?.maxOutputTokens).toBe(4096)
  })

  it("tells the vendor's price of the vendor alone", () => {
    expect(lookUpModel('claude-sonnet-4-5', 'anthropic')).toHaveProperty('price')
    expect(lookUpModel('claude-sonnet-4-5', 'openrouter')).not.toHaveProperty('price')
    expect(lookUpModel('openai/gpt-oss-120b')).not.toHaveProperty('price')
    expect(lookUpModel('gpt-5', 'openai-responses')).toHaveProperty('price')
  })

  it('knows the price of a long request, which is by its input, cached or not', () => {
    const cost = (inputTokens: number, cacheReadTokens: number) =>
      price(
        { inputTokens, outputTokens: 1_000_000, cacheReadTokens, cacheWriteTokens: 0, reasoningTokens: 0 },
        lookUpModel('gpt-5.5'),
      )
    expect(cost(272_000, 0)).toBeCloseTo(0.272 * 5 + 30)
    expect(cost(1_000, 272_000)).toBeCloseTo(0.001 * 10 + 0.272 * 1 + 45)
  })
})
