/** One provider that speaks chat completions: its address, key and dialect, and the course of one exchange. */

import type { IncomingMessage } from 'node:http'
import { LlmAdapter } from '../adapter.ts'
import type { ProviderConfig } from '../openai.ts'
import type { LlmFailure, LlmRequest, ModelInfo, StreamChunk } from '../stream.ts'
import { type Endpoint, headersOf, readEndpoint, usable } from '../web/endpoint.ts'
import {
  type FailureSubject,
  failureFromErrorObject,
  failureFromNetwork,
  failureFromResponse,
  LlmError,
  redact,
} from '../web/failure.ts'
import { isRecord } from '../web/failure-code.ts'
import { AnswerTimeout, type HttpTransport, isWebAddress, readText, release } from '../web/http.ts'
import { NoEventsError, readEvents, SilenceError } from '../web/sse.ts'
import type { RouteEntry } from './presets.ts'
import { RequestWriter } from './request.ts'
import { CompletionTranslator } from './stream.ts'

export interface OpenAiOptions {
  readonly entry: RouteEntry
  readonly settings: ProviderConfig
  readonly transport: HttpTransport
  readonly limits: { readonly connectMs: number; readonly firstEventMs: number; readonly idleMs: number }
}

const MAX_ERROR_BYTES = 64 * 1024
/** A provider that has said why it stopped may still send usage and its end mark; one that does neither is done. */
const FINISHED_MS = 5_000

export class OpenAiAdapter extends LlmAdapter {
  override readonly kind: LlmAdapter['kind']
  private readonly options: OpenAiOptions
  private readonly writer: RequestWriter

  constructor(options: OpenAiOptions) {
    super()
    this.options = options
    this.kind = options.entry.kind
    this.writer = new RequestWriter(options.entry.provider, options.entry.dialect)
  }

  override models(): readonly ModelInfo[] {
    return this.options.entry.models
  }

  override ready(): boolean {
    const { entry, settings } = this.options
    return usable(readEndpoint(entry, settings), entry)
  }

  override credentialFix(): string | undefined {
    const variable = this.options.entry.keys[0]
    return this.kind === 'remote' && variable ? `set ${variable}` : undefined
  }

  override async discover(signal: AbortSignal): Promise<readonly ModelInfo[]> {
    const { entry, transport, limits, settings } = this.options
    const endpoint = readEndpoint(entry, settings)
    const { base } = endpoint
    if (this.knowsModels(base)) return this.models()
    const response = await transport.send({
      url: new URL(`${base}/models`),
      method: 'GET',
      headers: headersOf(endpoint),
      signal,
      connectMs: limits.connectMs,
      answerMs: limits.connectMs,
    })
    try {
      const body: unknown = JSON.parse(await readText(response, 8 * 2 ** 20, limits.connectMs))
      const list = isRecord(body) && Array.isArray(body['data']) ? body['data'] : []
      const ids = list.flatMap(item => (isRecord(item) && typeof item['id'] === 'string' ? [item['id']] : []))
      const known = new Map(this.models().map(model => [model.id, model]))
      const found = ids.filter(id => !/embed/i.test(id)).map(id => known.get(id) ?? { id })
      // The one that is known to be its default comes first where it is there.
      const first = this.models().find(model => ids.includes(model.id))
      return first ? [first, ...found.filter(model => model !== first)] : found.length ? found : this.models()
    } finally {
      response.destroy()
    }
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    const { provider } = this.options.entry
    const endpoint = readEndpoint(this.options.entry, this.options.settings)
    const subject = this.subject(request, endpoint)
    if (!usable(endpoint, this.options.entry)) throw new LlmError(this.missing())
    if (endpoint.key && !/^[\x21-\x7e]+$/.test(endpoint.key)) {
      throw new LlmError({
        code: 'AUTH',
        message: `the key of ${provider} holds characters that no key has`,
        fix: subject.keyVariable ? `put a valid key into ${subject.keyVariable}` : 'correct its apiKey',
      })
    }
    const started = performance.now()
    const response = await this.send(request, endpoint, subject)
    let complete = false
    const translator = new CompletionTranslator()
    try {
      if (response.statusCode! < 200 || response.statusCode! > 299) {
        const body = await readText(response, MAX_ERROR_BYTES, this.options.limits.connectMs)
        throw new LlmError(
          failureFromResponse({ status: response.statusCode!, headers: response.headers, body }, subject),
        )
      }
      yield* this.translate(response, translator, subject, performance.now() - started)
      complete = true
      release(response)
      // What ends the body came along as a rule; a turn of the loop later its connection is free for the next request.
      await new Promise(setImmediate)
      yield* translator.end()
    } catch (error) {
      // What a failed attempt has cost is known now or never.
      if (!request.signal?.aborted && !complete) yield* translator.usageSoFar()
      throw error instanceof LlmError ? error : new LlmError(this.failure(error, subject), error)
    } finally {
      if (!complete) response.destroy()
    }
  }

  private async send(request: LlmRequest, endpoint: Endpoint, subject: FailureSubject): Promise<IncomingMessage> {
    const { transport, limits } = this.options
    if (!isWebAddress(endpoint.base)) {
      const [variable] = this.options.entry.bases
      throw new LlmError({
        code: 'INVALID_REQUEST',
        message: `"${endpoint.base}" is no web address`,
        fix: `correct the base address${variable ? ` in ${variable}` : ''}`,
      })
    }
    const info = this.models().find(model => model.id === request.model)
    const images = info?.input?.includes('image') ?? true
    try {
      return await transport.send({
        url: new URL(subject.url!),
        method: 'POST',
        headers: { ...headersOf(endpoint), 'content-type': 'application/json', accept: 'text/event-stream' },
        body: this.writer.body(request, images),
        ...(request.signal ? { signal: request.signal } : {}),
        connectMs: limits.connectMs,
        answerMs: limits.firstEventMs,
      })
    } catch (error) {
      throw new LlmError(this.failure(error, subject), error)
    }
  }

  private async *translate(
    response: IncomingMessage,
    translator: CompletionTranslator,
    subject: FailureSubject,
    spentMs: number,
  ): AsyncGenerator<StreamChunk> {
    const { firstEventMs, idleMs } = this.options.limits
    const limits = () => ({
      firstMs: Math.max(1, firstEventMs - spentMs),
      idleMs: translator.finished ? Math.min(FINISHED_MS, idleMs) : idleMs,
    })
    let done = false
    try {
      for await (const events of readEvents(response, limits)) {
        for (const { event, data } of events) {
          if (data === '[DONE]') done = true
          else this.take(translator, event, data, subject)
        }
        yield* translator.flush()
        if (done) break
      }
    } catch (error) {
      if (error instanceof NoEventsError) this.takeWhole(translator, error, subject)
      else if (!translator.finished || error instanceof LlmError) {
        yield* translator.flush()
        throw error
      }
    }
    yield* translator.flush()
    const broken = translator.brokenBy()
    if (broken) throw new LlmError({ code: 'SERVER', message: `${subject.provider} broke its answer off: ${broken}` })
    if (done || translator.finished) return
    throw new LlmError({
      code: 'STREAM_CLOSED',
      message: `${subject.provider} closed the stream before its answer was complete`,
    })
  }

  private take(translator: CompletionTranslator, event: string | undefined, data: string, subject: FailureSubject) {
    let chunk: unknown
    try {
      chunk = JSON.parse(data)
    } catch (error) {
      const said = redact(data.slice(0, 200), subject.secrets)
      throw new LlmError(
        { code: 'MALFORMED_RESPONSE', message: `${subject.provider} sent a chunk that is not JSON: ${said}` },
        error,
      )
    }
    const failed = isRecord(chunk) && chunk['error'] !== undefined && chunk['error'] !== null
    if (failed || event === 'error') throw new LlmError(failureFromErrorObject(chunk, subject))
    translator.push(chunk)
  }

  /** A 200 without events: an error, a whole answer from a server that does not stream, or some other page. */
  private takeWhole(translator: CompletionTranslator, { text }: NoEventsError, subject: FailureSubject) {
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      body = undefined
    }
    if (isRecord(body) && Array.isArray(body['choices'])) {
      translator.push(body)
      return
    }
    if (isRecord(body) && (body['error'] !== undefined || body['message'] !== undefined)) {
      throw new LlmError(failureFromErrorObject(body['error'] ?? body, subject))
    }
    throw new LlmError({
      code: 'MALFORMED_RESPONSE',
      message: `${subject.provider} answered with something that is no chat completion: ${redact(text.slice(0, 200), subject.secrets)}`,
      fix: `check the base address ${hostPath(subject.url!)}; most end in /v1`,
    })
  }

  private failure(error: unknown, subject: FailureSubject): LlmFailure {
    const { provider } = subject
    const seconds = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`)
    if (error instanceof AnswerTimeout) {
      return {
        code: 'TIMEOUT',
        message: `${provider} gave no answer within ${seconds(this.options.limits.firstEventMs)}`,
      }
    }
    if (error instanceof SilenceError) {
      const { firstEventMs, idleMs } = this.options.limits
      return {
        code: 'TIMEOUT',
        message: error.begun
          ? `${provider} was silent for ${seconds(idleMs)} in the middle of its answer`
          : `${provider} gave no answer within ${seconds(firstEventMs)}`,
      }
    }
    return failureFromNetwork(error, subject)
  }

  /** Our list is that of the provider's own address; another server has models of its own. */
  private knowsModels(base: string): boolean {
    const { entry, settings } = this.options
    if (settings.models?.length) return true
    return this.kind === 'remote' && base === entry.baseURL && entry.models.length > 0
  }

  private subject(request: LlmRequest, { base, key }: Endpoint): FailureSubject {
    const { entry, settings } = this.options
    return {
      provider: entry.provider,
      model: request.model,
      url: `${base}/chat/completions`,
      keyVariable: settings.apiKey ? undefined : entry.keys[0],
      baseVariable: entry.bases[0],
      models: this.knowsModels(base) ? entry.models.map(model => model.id) : [],
      secrets: key ? [key] : [],
    }
  }

  private missing(): LlmFailure {
    const { provider, keys } = this.options.entry
    return {
      code: 'MISSING_CREDENTIAL',
      message: `no key for ${provider} is set`,
      fix: keys.length ? `set ${keys.join(' or ')}` : 'give the provider an apiKey in the configuration',
    }
  }
}

const hostPath = (url: string) => url.replace(/\/chat\/completions$/, '')
