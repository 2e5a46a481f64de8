/** What differs between the protocols that providers speak over HTTP: how a request is said, how an answer is read. */

import type { LlmRequest, StreamChunk } from '../stream.ts'
import type { ProviderError } from './failure-code.ts'

/** One protocol in the dialect of one provider. What it remembers of messages it keeps by their identity. */
export interface Protocol {
  /** What an answer is called in messages: `chat completion`. */
  readonly answer: string
  /** Appended to the provider's address, without a slash in front: `chat/completions`. */
  readonly path: string
  /** Where the provider lists its models; `models` where nothing else is said. */
  readonly listPath?: string
  /** The headers that carry a key. */
  authorization(key: string): Readonly<Record<string, string>>
  /** What else the protocol says in headers, of a request or of none when the models are asked for. */
  headers?(request: LlmRequest | undefined): Readonly<Record<string, string>>
  body(request: LlmRequest): Buffer
  /**
   * Learns from a refusal, before anything was answered. True when {@link body} now says the same request in a way that
   * the provider may take: it is sent again, a few times at most.
   */
  amend?(request: LlmRequest, refusal: ProviderError): boolean
  /** A reader for the answer to `request`. */
  reader(request: LlmRequest): AnswerReader
}

/**
 * Reads one answer. `push` takes parsed events, `flush` gives what they brought since, deltas of one block joined, and
 * `end` closes the answer: open blocks, usage, finish. Any of them may throw an `LlmError`.
 */
export interface AnswerReader {
  /** `name` is the event's, where the protocol names its events. An error object inside the stream never gets here. */
  push(event: unknown, name: string | undefined): void
  flush(): StreamChunk[]
  end(): StreamChunk[]
  /** What was counted before the answer broke; it was paid for all the same. */
  usageSoFar(): StreamChunk[]
  /** The provider has said why it stopped: the answer is whole even if the connection breaks now. */
  readonly finished: boolean
  /** Nothing comes after this; what the body still holds need not be waited for. */
  readonly ended: boolean
  /** Why the provider itself says that it failed, when it does so by its reason to stop. */
  readonly broken: string | undefined
  /** Takes the whole answer of a server that does not stream; false when the body is none. */
  whole(body: unknown): boolean
}

/** Thrown by a reader for an error that the provider reports inside its answer: the object that says so. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError'
  readonly error: unknown
  constructor(error: unknown) {
    super('the provider reported an error')
    this.error = error
  }
}
