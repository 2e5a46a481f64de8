/** One provider reached over HTTP: its address and credential, and the course of one exchange in its protocol. */

import type { IncomingMessage } from 'node:http'
import { type ImageRules, LlmAdapter } from '../adapter.ts'
import type { LlmFailure, LlmRequest, ModelInfo, StreamChunk } from '../stream.ts'
import type { CredentialSource } from './credentials.ts'
import { type Endpoint, needsKey, type ProviderEntry, readEndpoint } from './endpoint.ts'
import {
  type FailedResponse,
  type FailureSubject,
  failureFromErrorObject,
  failureFromNetwork,
  failureFromResponse,
  LlmError,
  quote,
  shownAddress,
} from './failure.ts'
import { isRecord, readProviderError } from './failure-code.ts'
import { AnswerTimeout, type HttpTransport, isWebAddress, readText, release } from './http.ts'
import { KnownModels } from './known-models.ts'
import { AnswerError, type AnswerReader, type Protocol } from './protocol.ts'
import type { ProviderSettings, WebLimits } from './settings.ts'
import { NoEventsError, readEvents, SilenceError } from './sse.ts'

export interface WebAdapterOptions {
  readonly entry: ProviderEntry
  readonly settings: ProviderSettings
  readonly protocol: Protocol
  readonly transport: HttpTransport
  readonly limits: WebLimits
  readonly credentials: CredentialSource
}

type Headers = Readonly<Record<string, string>>

const MAX_ERROR_BYTES = 64 * 1024
/** A provider that has said why it stopped may still send usage and its end mark; one that does neither is done. */
const FINISHED_MS = 5_000
/** So many times the wait for a first event may a provider send events in which nothing is said, such as `ping`. */
const SIGNS_OF_LIFE = 3
/** How often a protocol may say a refused request in another way. */
const MAX_AMENDMENTS = 4

export class WebAdapter extends LlmAdapter {
  override readonly kind: LlmAdapter['kind']
  private readonly options: WebAdapterOptions
  private readonly known: KnownModels

  constructor(options: WebAdapterOptions) {
    super()
    this.options = options
    this.kind = options.entry.kind
    this.known = new KnownModels(options.entry, options.settings)
    options.credentials.keep(writtenSecrets(options.settings))
  }

  override models(): readonly ModelInfo[] {
    return this.known.all()
  }

  override info(id: string): ModelInfo | undefined {
    return this.known.info(id)
  }

  override images(): ImageRules {
    const { entry, settings } = this.options
    return settings.maxImages === undefined ? (entry.images ?? {}) : { ...entry.images, maxCount: settings.maxImages }
  }

  override ready(): boolean {
    const { entry, credentials } = this.options
    const endpoint = this.endpoint()
    return endpoint.key !== undefined || !needsKey(endpoint, entry) || credentials.loggedIn(entry.provider)
  }

  override credentials(): readonly string[] {
    return this.options.settings.apiKey ? [] : this.options.entry.keys
  }

  override credentialFix(): string | undefined {
    const { entry, credentials } = this.options
    const { provider, keys } = entry
    return this.kind === 'remote' && keys[0] ? credentials.fix(provider, keys.slice(0, 1), 'missing') : undefined
  }

  override defaultModel(): string | undefined {
    return this.known.defaultModel()
  }

  override async discover(signal: AbortSignal): Promise<readonly ModelInfo[]> {
    const { transport, limits, entry, protocol } = this.options
    const endpoint = this.endpoint()
    const path = protocol.listPath ?? 'models'
    const address = `${endpoint.base}/${path}`
    const subject = { ...this.subject({ model: '' }, endpoint), url: address }
    this.requireUsable(endpoint, subject)
    const leased = await this.lease(endpoint, signal, false)
    // Most starts ask for no list.
    const { listModels } = await import('./listing.ts')
    this.known.listed = await listModels({
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
    return this.known.informed(this.known.listed)
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    const endpoint = this.endpoint()
    const subject = this.subject(request, endpoint)
    this.requireUsable(endpoint, subject)
    const started = performance.now()
    const response = await this.accepted(request, endpoint, subject)
    const reader = this.options.protocol.reader(request)
    let complete = false
    try {
      yield* this.read(response, reader, subject, performance.now() - started)
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
    if (key && !/^[\x21-\x7e]+$/.test(key)) {
      throw new LlmError({
        code: 'AUTH',
        message: `the key of ${provider} holds characters that no key has`,
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
      if (amended < MAX_AMENDMENTS && protocol.amend?.(request, readProviderError(refused.body))) continue
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

  // Reading -----------------------------------------------------------------------------------------------------

  private async *read(
    response: IncomingMessage,
    reader: AnswerReader,
    subject: FailureSubject,
    spentMs: number,
  ): AsyncGenerator<StreamChunk> {
    const { firstEventMs, idleMs } = this.options.limits
    const finishedMs = Math.min(FINISHED_MS, idleMs)
    const limits = () => ({
      firstMs: Math.max(1, firstEventMs - spentMs),
      idleMs: reader.finished ? finishedMs : idleMs,
    })
    const quietMs = firstEventMs * SIGNS_OF_LIFE
    let quietSince = performance.now()
    let finished = false
    let done = false
    try {
      for await (const events of readEvents(response, limits)) {
        for (const { event, data } of events) {
          if (data === '[DONE]') done = true
          else this.take(reader, event, data, subject)
          // What stands behind the end is not read, whether it came along with it or later.
          if (done || reader.ended) break
        }
        const said = reader.flush()
        yield* said
        if (done || reader.ended) break
        const now = performance.now()
        if (said.length || finished !== reader.finished) {
          quietSince = now
          finished = reader.finished
        } else if (finished && now - quietSince > finishedMs) break
        else if (now - quietSince > quietMs) throw this.onlyAlive(subject, quietMs)
      }
    } catch (error) {
      if (error instanceof NoEventsError) this.takeWhole(reader, error, subject)
      else if (!reader.finished || error instanceof LlmError || error instanceof AnswerError) {
        yield* reader.flush()
        throw error
      }
    }
    yield* reader.flush()
    if (reader.broken) {
      throw new LlmError({
        code: 'SERVER',
        message: `${subject.provider} broke its answer off: ${quote(reader.broken, subject.secrets)}`,
      })
    }
    if (done || reader.finished) return
    throw new LlmError({
      code: 'STREAM_CLOSED',
      message: `${subject.provider} closed the stream before its answer was complete`,
    })
  }

  private take(reader: AnswerReader, name: string | undefined, data: string, subject: FailureSubject) {
    let event: unknown
    try {
      event = JSON.parse(data)
    } catch (error) {
      const said = quote(data, subject.secrets, 200)
      throw new LlmError(
        { code: 'MALFORMED_RESPONSE', message: `${subject.provider} sent a chunk that is not JSON: ${said}` },
        error,
      )
    }
    const failed = isRecord(event) && event['error'] !== undefined && event['error'] !== null
    if (failed || name === 'error') throw new AnswerError(event)
    reader.push(event, name)
  }

  /** A 200 without events: an error, a whole answer from a server that does not stream, or some other page. */
  private takeWhole(reader: AnswerReader, { text }: NoEventsError, subject: FailureSubject) {
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      body = undefined
    }
    if (reader.whole(body)) return
    if (isRecord(body) && (body['error'] !== undefined || body['message'] !== undefined)) {
      throw new AnswerError(body['error'] ?? body)
    }
    const { protocol } = this.options
    const said = quote(text, subject.secrets, 200)
    throw new LlmError({
      code: 'MALFORMED_RESPONSE',
      message: `${subject.provider} answered with something that is no ${protocol.answer}: ${said}`,
      fix: `check the base address ${shownAddress(subject.base!)}; most end in /v1`,
    })
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

  private onlyAlive({ provider }: FailureSubject, ms: number): LlmError {
    return new LlmError({
      code: 'TIMEOUT',
      message: `${provider} has sent nothing for ${spell(ms)} but signs that it is still there`,
    })
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
      models: this.known.isOurs(base) ? entry.models.map(model => model.id) : [],
      secrets: [...(key ? [key] : []), ...writtenSecrets({ headers })],
    }
  }
}

/** What the configuration itself says that lets somebody in: a key, the token of a header. */
function writtenSecrets({ apiKey, headers = {} }: ProviderSettings): string[] {
  const named = Object.entries(headers).filter(([name]) => /auth|key|token|secret|cookie/i.test(name))
  const values = named.map(([, value]) => value.replace(/^[A-Za-z]+\s+/, '').trim())
  return [...(apiKey ? [apiKey.trim()] : []), ...values]
}

const isGood = ({ statusCode = 0 }: IncomingMessage) => statusCode >= 200 && statusCode < 300

const spell = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`)
