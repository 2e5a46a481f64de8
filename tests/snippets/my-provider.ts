import type { Context } from '@cambium/core'
import { LlmAdapter, type LlmRequest, type StreamChunk } from '@cambium/llm'

export const name = 'my-provider'
export const inject = ['llm']

class Mine extends LlmAdapter {
  async *stream(_request: LlmRequest): AsyncGenerator<StreamChunk> {
    yield { type: 'block-start', index: 0, blockType: 'text' }
    yield { type: 'text-delta', index: 0, text: 'hi' }
    yield { type: 'block-end', index: 0, block: { type: 'text', text: 'hi' } }
    yield { type: 'finish', reason: 'stop' }
  }
}

export const apply = (ctx: Context) => void ctx.llm.registerAdapter('mine', new Mine())
