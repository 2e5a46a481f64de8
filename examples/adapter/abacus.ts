/** A model that does sums, in this process: the smallest adapter that keeps the whole contract. */

import { type Context, sleep } from '@cambium/core'
import { LlmAdapter, LlmError, type LlmRequest, type ModelInfo, type StreamChunk, textOf } from '@cambium/llm'

export const name = 'abacus'
export const inject = ['llm']

export function apply(ctx: Context) {
  ctx.llm.registerAdapter('abacus', new Abacus())
}

class Abacus extends LlmAdapter {
  // `auto` never takes it: it is used when somebody names it.
  override readonly kind = 'named'

  override models(): readonly ModelInfo[] {
    return [{ id: 'beads', contextWindow: 1_000, input: ['text'], price: { input: 0, output: 0 } }]
  }

  override async *stream({ messages, signal }: LlmRequest): AsyncGenerator<StreamChunk> {
    const asked = textOf(messages.at(-1)!)
    const [, a, operator, b] = /(\d+)\s*([-+*/])\s*(\d+)/.exec(asked) ?? []
    if (!operator) {
      const message = 'an abacus does sums, and nothing else'
      throw new LlmError({ code: 'UNSUPPORTED_CONTENT', message, fix: 'ask for one, such as 12 * 7' })
    }
    const text = String(calculate(Number(a), operator, Number(b)))
    yield { type: 'block-start', index: 0, blockType: 'text' }
    for (const digit of text) {
      // What takes time ends with the signal; whoever cancelled has been answered already.
      await sleep(5, signal)
      if (signal?.aborted) return
      yield { type: 'text-delta', index: 0, text: digit }
    }
    yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    const counts = { inputTokens: asked.length, outputTokens: text.length }
    yield { type: 'usage', usage: { ...counts, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 } }
    yield { type: 'finish', reason: 'stop' }
  }
}

function calculate(a: number, operator: string, b: number): number {
  if (operator === '+') return a + b
  if (operator === '-') return a - b
  return operator === '*' ? a * b : a / b
}
