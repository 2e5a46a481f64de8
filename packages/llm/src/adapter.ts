/** The seam that a provider's adapter fills. */

import type { LlmRequest, ModelInfo, StreamChunk } from './stream.ts'

/** What a provider takes of images, where that is less than usual. */
export interface ImageRules {
  /** Media types; PNG, JPEG, GIF and WebP when absent. */
  readonly mediaTypes?: readonly string[]
  /** How many a request may hold, 40 when absent. */
  readonly maxCount?: number
  /** Characters of base64 of all images of a request, 16 MiB when absent. */
  readonly maxBase64?: number
}

/**
 * One provider's way to answer. `stream` is one attempt: no retry inside. It gets a normalised request (pairs
 * complete, ids unique, no empty content, valid Unicode) and ends by a `finish` chunk or by throwing; the service
 * turns a throw into `finish` with a failure. It honours `request.signal` within 100 ms and closes its connection
 * when the consumer stops early.
 */
export abstract class LlmAdapter {
  /**
   * What `auto` makes of it: a `remote` one is taken when its credential is there, a `local` one when it answers
   * {@link discover} at once, a `demo` one when nothing else is left, a `named` one never.
   */
  readonly kind: 'remote' | 'local' | 'named' | 'demo' = 'remote'

  abstract stream(request: LlmRequest): AsyncIterable<StreamChunk>

  /** What the provider offers, as far as it is known without asking it; a model that is not listed may still work. */
  models(): readonly ModelInfo[] {
    return []
  }

  /** The service keeps each request to it. Whether a model reads images at all is said by its `ModelInfo.input`. */
  images(): ImageRules {
    return {}
  }

  /** What is known of one model, listed or not; undefined when nothing is. */
  info(id: string): ModelInfo | undefined {
    return this.models().find(model => model.id === id)
  }

  /** The model that is taken when none is named, where that is known without asking. */
  defaultModel(): string | undefined {
    return this.models()[0]?.id
  }

  /**
   * Asks the provider what it has; {@link models} and {@link info} know it from then on. The first is taken when none is
   * named and {@link defaultModel} knows none. Rejects with an `LlmError` when it does not answer.
   */
  async discover(_signal: AbortSignal): Promise<readonly ModelInfo[]> {
    return this.models()
  }

  /** True when a key or another credential is there, so that `auto` may choose this provider. */
  ready(): boolean {
    return true
  }

  /** Names under which its key is looked for, the usual one first: an environment variable, or a stored credential. */
  credentials(): readonly string[] {
    return []
  }

  /** What to do to make {@link ready} true, as an imperative sentence: `set OPENAI_API_KEY`. */
  credentialFix(): string | undefined {
    return undefined
  }
}
