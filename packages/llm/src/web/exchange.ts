/** The exchanges with one provider: what goes out, with which credential, and what comes of it. */

import type { IncomingMessage } from 'node:http'
import type { LlmFailure, LlmRequest, ModelInfo, StreamChunk } from '../stream.ts'
import type { CredentialSource } from './credentials.ts'
import { type Endpoint, needsKey, readEndpoint } from './endpoint.ts'
import {
  type FailedResponse,
  type FailureSubject,
  failureFromErrorObject,
  failureFromNetwork,
  failureFromResponse,
  LlmError,
  shownAddress,
} from './failure.ts'
import { readProviderError } from './failure-code.ts'
import { AnswerTimeout, type HttpTransport, isWebAddress, readText, release } from './http.ts'
import type { KnownModels } from './known-models.ts'
import { AnswerError, type Protocol } from './protocol.ts'
import type { ProviderEntry } from './provider.ts'
import { readAnswer } from './reading.ts'
import { type ProviderSettings, type WebLimits, writtenSecrets } from './settings.ts'
import { SilenceError, spell } from './sse.ts'

export interface ExchangeOptions {
  readonly entry: ProviderEntry
  readonly settings: ProviderSettings
  readonly protocol: Protocol
  readonly transport: HttpTransport
  readonly limits: WebLimits
  readonly credentials: CredentialSource
  readonly known: KnownModels
}

type Headers = Readonly<Record<string, string>>

const MAX_ERROR_BYTES = 64 * 1024
/** How often a protocol may say a refused request in another way. */
const MAX_AMENDMENTS = 4
/** Refusals of an account or of a moment: whatever they quote, nothing of them is about how a request is said. */
const PASSING: ReadonlySet<number> = new Set([401, 402, 408, 429, 502, 503, 504, 529])

export class Exchanges {
  private readonly options: ExchangeOptions

  constructor(options: ExchangeOptions) {
    this.options = options
  }

  /** What the provider lists. */
  async models(signal: AbortSignal): Promise<readonly ModelInfo[]> {
    const { transport, limits, entry, protocol } = this.options
    const endpoint = this.endpoint()
    const path = protocol.listPath ?? 'models'
    const address = `${endpoint.base}/${path}`
    const subject = { ...this.subject({ model: '' }, endpoint), url: address }
    this.requireUsable(endpoint, subject)
    const leased = await this.lease(endpoint, signal, false)
    // Most exchanges are none about models.
    const { listModels } = await import('./listing.ts')
    return listModels({
      get: url =>
        transport.send({
          url: new URL(url),
          method: 'GET',
          headers: this.headers(endpoint, leased, undefined),
          signal,
          connectMs: limits.connectMs,
          answerMs: limits.connectMs,
        }),
      address,
      also: (entry.alsoLists ?? []).map(list => new URL(`/${list}`, endpoint.base).href),
      known: entry.models,
      subject,
      readMs: limits.connectMs,
    })
  }

  async *answer(request: LlmRequest): AsyncGenerator<StreamChunk> {
    const endpoint = this.endpoint()
    const subject = this.subject(request, endpoint)
    this.requireUsable(endpoint, subject)
    const started = performance.now()
    const response = await this.accepted(request, endpoint, subject)
    const { protocol, limits } = this.options
    const reader = protocol.reader(request)
    let complete = false
    try {
      yield* readAnswer({ response, reader, protocol, subject, limits, spentMs: performance.now() - started })
      complete = true
      release(response)
      // What ends the body came along as a rule; a turn of the loop later its connection is free for the next request.
      await new Promise(setImmediate)
      yield* reader.end()
    } catch (error) {
      // What a failed attempt has cost is known now or never.
      if (!request.signal?.aborted && !complete) yield* reader.usageSoFar()
      throw this.toError(error, subject)
    } finally {
      if (!complete) response.destroy()
    }
  }

  // Sending -----------------------------------------------------------------------------------------------------

  private endpoint(): Endpoint {
    const { entry, settings, credentials } = this.options
    return readEndpoint(entry, settings, credentials)
  }

  private requireUsable(endpoint: Endpoint, subject: FailureSubject): void {
    const { entry, credentials } = this.options
    const { provider, keys, bases } = entry
    const { key, base } = endpoint
    if (key === undefined && needsKey(endpoint, entry) && !credentials.loggedIn(provider)) {
      throw new LlmError({
        code: 'MISSING_CREDENTIAL',
        message: `no key for ${provider} is set`,
        fix: keys.length
          ? credentials.fix(provider, keys, 'missing')
          : 'give the provider an apiKey in the configuration',
      })
    }
    // Shells and files of variables leave quotes around a key, which its provider would only call wrong.
    if (key && !/^(?!(["'`]).*\1$)[\x21-\x7e]+$/.test(key)) {
      throw new LlmError({
        code: 'AUTH',
        message: `the key of ${provider} holds blanks, quotes or other characters that no key has`,
        fix: subject.keyFix ?? 'correct its apiKey',
      })
    }
    if (isWebAddress(base)) return
    throw new LlmError({
      code: 'INVALID_REQUEST',
      message: `"${shownAddress(base)}" is no web address`,
      fix: `correct the base address${bases[0] ? ` in ${bases[0]}` : ''}`,
    })
  }

  /** The answer, once the provider has taken the request. */
  private async accepted(request: LlmRequest, endpoint: Endpoint, subject: FailureSubject): Promise<IncomingMessage> {
    for (let amended = 0; ; amended++) {
      const response = await this.send(request, endpoint, subject)
      if (isGood(response)) return response
      const refused = await this.refusal(response)
      const { protocol } = this.options
      const may = amended < MAX_AMENDMENTS && !PASSING.has(refused.status)
      if (may && protocol.amend?.(request, readProviderError(refused.body))) continue
      throw new LlmError(failureFromResponse(refused, subject))
    }
  }

  /** A login that is refused is refreshed once; nothing has been answered then. */
  private async send(request: LlmRequest, endpoint: Endpoint, subject: FailureSubject): Promise<IncomingMessage> {
    const { signal } = request
    const { protocol, transport, limits } = this.options
    const exchange = async (leased: Headers | undefined) => {
      return transport.send({
        url: new URL(subject.url!),
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'text/event-stream',
          ...this.headers(endpoint, leased, request),
        },
        body: protocol.body(request),
        ...(signal ? { signal } : {}),
        connectMs: limits.connectMs,
        answerMs: limits.firstEventMs,
      })
    }
    try {
      const leased = await this.lease(endpoint, signal, false)
      const response = await exchange(leased)
      if (!leased || response.statusCode !== 401) return response
      response.destroy()
      return await exchange(await this.lease(endpoint, signal, true))
    } catch (error) {
      throw this.toError(error, subject)
    }
  }

  /** What a login gives, where there is no key. */
  private async lease(
    { key }: Endpoint,
    signal: AbortSignal | undefined,
    fresh: boolean,
  ): Promise<Headers | undefined> {
    const { credentials, entry } = this.options
    if (key !== undefined || !credentials.loggedIn(entry.provider)) return undefined
    return credentials.headers(entry.provider, { fresh, signal })
  }

  private headers(
    { key, headers }: Endpoint,
    leased: Headers | undefined,
    request: LlmRequest | undefined,
  ): Record<string, string> {
    const { protocol } = this.options
    const said = protocol.headers?.(request) ?? {}
    const access = (key ? protocol.authorization(key) : leased) ?? {}
    const all: Record<string, string> = { 'user-agent': 'cambium' }
    for (const [written, value] of [said, access, headers].flatMap(Object.entries<string>)) {
      const name = written.toLowerCase()
      // A list of features: what a login or the configuration asks for comes on top of what the protocol needs.
      all[name] = name === 'anthropic-beta' && all[name] ? `${all[name]},${value}` : value
    }
    return all
  }

  // Failures ----------------------------------------------------------------------------------------------------

  private async refusal(response: IncomingMessage): Promise<FailedResponse> {
    const { connectMs } = this.options.limits
    try {
      const body = await readText(response, MAX_ERROR_BYTES, connectMs)
      return { status: response.statusCode!, headers: response.headers, body }
    } finally {
      release(response)
    }
  }

  private toError(error: unknown, subject: FailureSubject): LlmError {
    if (error instanceof LlmError) return error
    if (error instanceof AnswerError) return new LlmError(failureFromErrorObject(error.error, subject))
    return new LlmError(this.waitedTooLong(error, subject) ?? failureFromNetwork(error, subject), error)
  }

  private waitedTooLong(error: unknown, { provider }: FailureSubject): LlmFailure | undefined {
    const { firstEventMs, idleMs } = this.options.limits
    if (error instanceof SilenceError && error.begun) {
      return { code: 'TIMEOUT', message: `${provider} was silent for ${spell(idleMs)} in the middle of its answer` }
    }
    if (!(error instanceof SilenceError) && !(error instanceof AnswerTimeout)) return undefined
    return { code: 'TIMEOUT', message: `${provider} gave no answer within ${spell(firstEventMs)}` }
  }

  private subject(request: Pick<LlmRequest, 'model'>, { base, key, headers }: Endpoint): FailureSubject {
    const { entry, settings, protocol, credentials } = this.options
    const { provider, keys } = entry
    return {
      provider,
      model: request.model,
      url: `${base}/${protocol.path}`,
      base,
      keyFix: settings.apiKey || !keys.length ? undefined : credentials.fix(provider, keys, 'refused'),
      baseVariable: entry.bases[0],
      models: this.options.known.isOurs(base) ? entry.models.map(model => model.id) : [],
      secrets: [...(key ? [key] : []), ...writtenSecrets({ headers })],
    }
  }
}

const isGood = ({ statusCode = 0 }: IncomingMessage) => statusCode >= 200 && statusCode < 300
