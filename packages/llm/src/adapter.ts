/** The seam that a provider's adapter fills. */

import type { LlmRequest, ModelInfo, StreamChunk } from './stream.ts'

/**
 * One provider's way to answer. `stream` is one attempt: no retry inside. It gets a normalised request (pairs
 * complete, ids unique, no empty content, valid Unicode) and ends by a `finish` chunk or by throwing; the service
 * turns a throw into `finish` with a failure. It honours `request.signal` within 100 ms and closes its connection
 * when the consumer stops early.
 */
export abstract class LlmAdapter {
  abstract stream(request: LlmRequest): AsyncIterable<StreamChunk>

  /** What the provider offers, as far as it is known without asking it; a model that is not listed may still work. */
  models(): readonly ModelInfo[] {
    return []
  }

  /** True when a key or another credential is there, so that `auto` may choose this provider. */
  ready(): boolean {
    return true
  }
}
