/** One attempt at a provider as its consumer sees it: in order, ending by a `finish`, never throwing, cancelled at once. */

import { setMaxListeners } from 'node:events'
import { sleep } from '@cambium/core'
import type { LlmAdapter } from '../adapter.ts'
import type { LlmFailure, LlmRequest, StreamChunk, TokenUsage } from '../stream.ts'
import { LlmError, redactFailure, toFailure } from '../web/failure.ts'
import { Grammar, type GrammarOptions } from './grammar.ts'

type Step = IteratorResult<StreamChunk, undefined>
const ENDED: Step = { done: true, value: undefined }
/** What a consumer that stops early waits for the adapter's clean-up at most. */
const CLOSE_MS = 100
const CANCELLED = Symbol('cancelled')

const cancelled = (): LlmFailure => ({ code: 'ABORTED', message: 'the request was cancelled' })

export interface AttemptOptions extends GrammarOptions {
  readonly adapter: LlmAdapter
  readonly request: LlmRequest
  /** Hears what the provider counted. */
  readonly counted: (usage: TokenUsage) => void
  /** Hears what an adapter's clean-up throws; nobody else could. */
  readonly closingFailed: (error: unknown) => void
}

/** Starts with the first `next`. Cancelling answers at once, even while the adapter hangs. */
export class Attempt implements AsyncIterableIterator<StreamChunk, undefined> {
  private readonly options: AttemptOptions
  private readonly grammar: Grammar
  private readonly own = new AbortController()
  private iterator: AsyncIterator<StreamChunk> | undefined
  private done = false
  private cancel: (() => void) | undefined

  constructor(options: AttemptOptions) {
    this.options = options
    this.grammar = new Grammar(options)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<Step> {
    if (this.done) return ENDED
    const { signal } = this.options.request
    if (signal?.aborted) return this.end('aborted', cancelled())
    try {
      const step = await this.pull(signal)
      if (step === CANCELLED || signal?.aborted) return this.end('aborted', cancelled())
      if (step.done) {
        const { provider } = this.options
        throw new LlmError({ code: 'STREAM_CLOSED', message: `the answer of ${provider} ended before it was complete` })
      }
      const chunk = this.grammar.check(step.value)
      if (chunk.type === 'usage') this.options.counted(chunk.usage)
      if (chunk.type !== 'finish') return { done: false, value: chunk }
      void this.close(true)
      return { done: false, value: chunk.failure ? { ...chunk, failure: redactFailure(chunk.failure) } : chunk }
    } catch (error) {
      return signal?.aborted ? this.end('aborted', cancelled()) : this.end('error', toFailure(error))
    }
  }

  /** Ends the adapter's work, and waits for that unless the adapter hangs. */
  async return(): Promise<Step> {
    const closing = this.close()
    if (closing) await Promise.race([closing, sleep(CLOSE_MS)])
    return ENDED
  }

  private pull(signal: AbortSignal | undefined): Promise<IteratorResult<StreamChunk> | typeof CANCELLED> {
    this.iterator ??= this.start(signal)
    const { iterator } = this
    return new Promise((resolve, reject) => {
      this.cancel = () => resolve(CANCELLED)
      iterator.next().then(resolve, reject)
    })
  }

  private start(signal: AbortSignal | undefined): AsyncIterator<StreamChunk> {
    // Any number of requests may have one signal; Node would warn of a leak from the eleventh on.
    if (signal) setMaxListeners(0, signal)
    signal?.addEventListener('abort', this.aborted)
    const { adapter, request } = this.options
    return adapter.stream({ ...request, signal: this.own.signal })[Symbol.asyncIterator]()
  }

  private readonly aborted = () => {
    this.own.abort(this.options.request.signal?.reason)
    this.cancel?.()
  }

  private end(reason: 'error' | 'aborted', failure: LlmFailure): Step {
    void this.close()
    return { done: false, value: { type: 'finish', reason, failure: redactFailure(failure) } }
  }

  /** `complete`: the adapter has said all, so that it may keep its connection for the next request. */
  private close(complete = false): Promise<unknown> | undefined {
    if (this.done) return undefined
    this.done = true
    this.options.request.signal?.removeEventListener('abort', this.aborted)
    this.cancel?.()
    // The signal first: an adapter that awaits its network cannot act on `return` before that wait has ended.
    if (!complete) this.own.abort()
    const closing = this.iterator?.return?.()
    return closing?.then(undefined, this.options.closingFailed)
  }
}
