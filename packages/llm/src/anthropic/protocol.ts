/** The Messages API: `POST <base>/messages`, answered by named events up to `message_stop`. */

import type { LlmRequest } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import type { Protocol } from '../web/protocol.ts'
import { MessagesWriter, type WriterOptions } from './request.ts'
import { MessagesReader } from './stream.ts'

export interface MessagesOptions extends WriterOptions {
  readonly authorization: 'x-api-key' | 'bearer'
}

const BINDING = 'thinking-binding-controls-2026-08-01'

export class Messages implements Protocol {
  readonly answer = 'message'
  readonly path = 'messages'
  readonly listPath = 'models?limit=1000'
  private readonly scheme: MessagesOptions['authorization']
  private readonly writer: MessagesWriter

  constructor({ authorization, ...options }: MessagesOptions) {
    this.scheme = authorization
    this.writer = new MessagesWriter(options)
  }

  authorization(key: string): Record<string, string> {
    return this.scheme === 'bearer' ? { authorization: `Bearer ${key}` } : { 'x-api-key': key }
  }

  headers(request: LlmRequest | undefined): Record<string, string> {
    const beta = request && this.writer.binds(request) ? { 'anthropic-beta': BINDING } : {}
    return { 'anthropic-version': '2023-06-01', ...beta }
  }

  body(request: LlmRequest): Buffer {
    return this.writer.body(request)
  }

  amend(request: LlmRequest, refusal: ProviderError): boolean {
    return this.writer.amend(request, refusal)
  }

  reader(): MessagesReader {
    return new MessagesReader()
  }
}
