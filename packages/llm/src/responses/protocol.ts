/** The Responses API: `POST <base>/responses`, answered by typed events. */

import type { LlmRequest } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import type { Protocol } from '../web/protocol.ts'
import { type ResponsesDialect, ResponseWriter } from './request.ts'
import { ResponseReader } from './stream.ts'

export interface ResponsesOptions extends ResponsesDialect {
  /** The header that carries the key, where it is not a bearer token. */
  readonly keyHeader?: string
  /** Azure's `api-version`. */
  readonly apiVersion?: string
}

export class Responses implements Protocol {
  readonly answer = 'response'
  readonly path: string
  readonly listPath: string
  private readonly writer: ResponseWriter
  private readonly keyHeader: string | undefined

  constructor({ keyHeader, apiVersion, ...dialect }: ResponsesOptions) {
    const query = apiVersion ? `?api-version=${encodeURIComponent(apiVersion)}` : ''
    this.path = `responses${query}`
    this.listPath = `models${query}`
    this.keyHeader = keyHeader?.toLowerCase()
    this.writer = new ResponseWriter(dialect)
  }

  authorization(key: string): Readonly<Record<string, string>> {
    return this.keyHeader ? { [this.keyHeader]: key } : { authorization: `Bearer ${key}` }
  }

  body(request: LlmRequest): Buffer {
    return this.writer.body(request)
  }

  amend(request: LlmRequest, refusal: ProviderError): boolean {
    return this.writer.amend(request, refusal)
  }

  reader(): ResponseReader {
    return new ResponseReader()
  }
}
