/** A model whose every answer a test decides: an adapter with a queue of replies and a record of requests. */

import type { Context } from '@cambium/core'
import {
  type AssistantBlock,
  type FinishReason,
  LlmAdapter,
  type LlmFailure,
  type LlmFailureCode,
  type LlmRequest,
  type StreamChunk,
  type TokenUsage,
} from '@cambium/llm'

/** What one request is answered with; a function may look at the request, and may wait. */
export type FakeReply = FakeAnswer | ((request: LlmRequest) => FakeAnswer | Promise<FakeAnswer>)

export interface FakeAnswer {
  readonly reasoning?: string
  /** Given as an array, one delta each. */
  readonly text?: string | readonly string[]
  readonly calls?: readonly { readonly name: string; readonly args?: unknown; readonly id?: string }[]
  readonly usage?: Partial<TokenUsage>
  readonly finish?: FinishReason
  readonly failure?: LlmFailure
  /** After the deltas of `text`: waits for ever, until the request is aborted. */
  readonly hang?: boolean
  /** Awaited after the deltas of `text` and before the rest. */
  readonly pause?: Promise<unknown>
}

export const say = (text: string, usage?: Partial<TokenUsage>): FakeAnswer => ({ text, ...(usage ? { usage } : {}) })
export const call = (name: string, args: unknown = {}, id?: string): FakeAnswer => ({
  calls: [{ name, args, ...(id ? { id } : {}) }],
})
export const fail = (code: LlmFailureCode, message = `the provider failed with ${code}`): FakeAnswer => ({
  finish: 'error',
  failure: { code, message },
})

export class FakeModel extends LlmAdapter {
  /** Every request, in order, as the adapter got it. */
  readonly requests: LlmRequest[] = []
  private readonly replies: FakeReply[]
  private count = 0
  private readonly waiting: { count: number; resolve: () => void }[] = []

  constructor(replies: readonly FakeReply[]) {
    super()
    this.replies = [...replies]
  }

  /** Resolves when the adapter has got that many requests. */
  asked(count: number): Promise<void> {
    if (this.requests.length >= count) return Promise.resolve()
    return new Promise(resolve => this.waiting.push({ count, resolve }))
  }

  /** Adds replies behind those that are left. */
  push(...replies: FakeReply[]): void {
    this.replies.push(...replies)
  }

  get left(): number {
    return this.replies.length
  }

  override models() {
    return [{ id: 'model', contextWindow: 100_000, price: { input: 1, output: 2 } }]
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    this.requests.push(request)
    for (const { count, resolve } of this.waiting) if (this.requests.length >= count) resolve()
    const reply = this.replies.shift()
    if (!reply) throw new Error(`request ${this.requests.length} was not expected`)
    const answer = typeof reply === 'function' ? await reply(request) : reply
    yield* this.answer(answer, request.signal)
  }

  private async *answer(answer: FakeAnswer, signal: AbortSignal | undefined): AsyncGenerator<StreamChunk> {
    let index = 0
    const block = function* (full: AssistantBlock, deltas: Iterable<StreamChunk>): Generator<StreamChunk> {
      yield { type: 'block-start', index, blockType: full.type }
      yield* deltas
      yield { type: 'block-end', index: index++, block: full }
    }
    if (answer.reasoning) {
      const { reasoning: text } = answer
      yield* block({ type: 'reasoning', text }, [{ type: 'reasoning-delta', index, text }])
    }
    if (answer.text) {
      const parts = typeof answer.text === 'string' ? [answer.text] : answer.text
      yield { type: 'block-start', index, blockType: 'text' }
      for (const text of parts) yield { type: 'text-delta', index, text }
      if (answer.pause) await answer.pause
      if (answer.hang) await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
      if (answer.finish !== 'error') {
        yield { type: 'block-end', index: index++, block: { type: 'text', text: parts.join('') } }
      }
    } else if (answer.hang) {
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)))
    }
    for (const made of answer.calls ?? []) {
      const id = made.id ?? `call-${++this.count}`
      const text = typeof made.args === 'string' ? made.args : JSON.stringify(made.args ?? {})
      yield* block({ type: 'tool-call', id, name: made.name, arguments: text }, [
        { type: 'tool-call-delta', index, id, name: made.name, argumentsDelta: text },
      ])
    }
    const none = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
    if (answer.usage) yield { type: 'usage', usage: { ...none, ...answer.usage } }
    const reason = answer.finish ?? (answer.calls?.length ? 'tool-calls' : 'stop')
    yield { type: 'finish', reason, ...(answer.failure ? { failure: answer.failure } : {}) }
  }
}

/** Offers a {@link FakeModel} as provider `fake` (route `fake/model`) for as long as `ctx`'s plugin lives. */
export function fakeModel(ctx: Context, replies: readonly FakeReply[] = []): FakeModel {
  const model = new FakeModel(replies)
  ctx.llm.registerAdapter('fake', model)
  return model
}
