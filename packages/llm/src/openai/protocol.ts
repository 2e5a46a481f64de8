/** Chat completions: `POST <base>/chat/completions` with a bearer key, answered by `data:` events up to `[DONE]`. */

import type { LlmRequest } from '../stream.ts'
import type { Protocol } from '../web/protocol.ts'
import { type Dialect, RequestWriter } from './request.ts'
import { CompletionReader } from './stream.ts'

export class ChatCompletions implements Protocol {
  readonly answer = 'chat completion'
  readonly path = 'chat/completions'
  private readonly writer: RequestWriter

  constructor(dialect: Dialect) {
    this.writer = new RequestWriter(dialect)
  }

  authorization(key: string) {
    return { authorization: `Bearer ${key}` }
  }

  body(request: LlmRequest): Buffer {
    return this.writer.body(request)
  }

  reader(): CompletionReader {
    return new CompletionReader()
  }
}
