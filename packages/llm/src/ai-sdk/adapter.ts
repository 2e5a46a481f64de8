/** One provider behind a package of the AI SDK. */

import { LlmAdapter } from '../adapter.ts'
import { mergedInfo } from '../models/merge.ts'
import { lookUpModel } from '../models/table.ts'
import type { LlmFailure, LlmRequest, ModelInfo, StreamChunk } from '../stream.ts'
import type { CredentialSource } from '../web/credentials.ts'
import { type FailureSubject, LlmError } from '../web/failure.ts'
import { isRecord } from '../web/value.ts'
import { failureFromPackage } from './failure.ts'
import type { CallOptions, LanguageModel } from './language-model.ts'
import { effortOptions, mergeOptions, optionsKey } from './options.ts'
import { languageModel, loadFactory, type PackageSettings } from './package.ts'
import { PartStream, PartTimeout } from './part-stream.ts'
import { PartError, PartReader } from './parts.ts'
import { writePrompt } from './prompt.ts'

export interface AiSdkOptions extends PackageSettings {
  /** The file from which the package is looked up. */
  readonly from: string
  /** What its factory gets. */
  readonly options: Readonly<Record<string, unknown>>
  /** Name of the variable or stored credential that goes to the factory as `apiKey`. */
  readonly apiKeyEnv?: string | undefined
  readonly models: readonly ModelInfo[]
  readonly credentials: CredentialSource
  /** Until the first part, and between two, in milliseconds. */
  readonly firstEventMs: number
  readonly idleMs: number
}

export class AiSdkAdapter extends LlmAdapter {
  private readonly options: AiSdkOptions
  /** By the key it was made with: a stored one may change while we run. */
  private made: { readonly key: string | undefined; readonly provider: unknown } | undefined

  constructor(options: AiSdkOptions) {
    super()
    this.options = options
    options.credentials.keep(secretsIn(options.options))
  }

  override models(): readonly ModelInfo[] {
    return this.options.models.map(({ id }) => this.info(id) ?? { id })
  }

  override info(id: string): ModelInfo | undefined {
    const written = this.options.models.find(model => model.id === id)
    // What it costs is the provider's to say, and of which one this is nothing is known.
    return mergedInfo(id, written, lookUpModel(id, ''))
  }

  /** Without `apiKeyEnv` the package finds its credential itself, and whoever configured it means it to be used. */
  override ready(): boolean {
    const { apiKeyEnv } = this.options
    return apiKeyEnv === undefined || this.key() !== undefined
  }

  override credentials(): readonly string[] {
    const { apiKeyEnv } = this.options
    return apiKeyEnv === undefined ? [] : [apiKeyEnv]
  }

  override credentialFix(): string | undefined {
    const { apiKeyEnv } = this.options
    return apiKeyEnv === undefined ? undefined : this.keyFix(apiKeyEnv, 'missing')
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    // A signal of ours: what the package is about ends with the attempt, also where the consumer stops early.
    const own = new AbortController()
    const abort = () => own.abort(request.signal?.reason)
    if (request.signal?.aborted) abort()
    request.signal?.addEventListener('abort', abort)
    let parts: PartStream | undefined
    const reader = new PartReader(request.provider)
    try {
      const started = performance.now()
      parts = await this.open(request, own.signal)
      yield* this.read(parts, reader, performance.now() - started)
    } catch (error) {
      if (!own.signal.aborted) yield* reader.flush()
      throw this.toError(error, request)
    } finally {
      request.signal?.removeEventListener('abort', abort)
      if (reader.finished) parts?.release()
      else {
        parts?.close()
        own.abort()
      }
    }
  }

  // Asking ------------------------------------------------------------------------------------------------------

  private async open(request: LlmRequest, signal: AbortSignal): Promise<PartStream> {
    const { firstEventMs } = this.options
    const opening = this.model(request).then(async model => {
      const { stream } = await model.doStream(callOptions(request, model, signal))
      return stream
    })
    const stream = await bounded(opening, firstEventMs, signal, late => {
      late.cancel().catch(() => {
        // It came too late for anybody to read it.
      })
    })
    return new PartStream(stream, signal)
  }

  private async model({ model, provider }: LlmRequest): Promise<LanguageModel> {
    const { options, apiKeyEnv } = this.options
    const key = this.key()
    if (apiKeyEnv !== undefined && key === undefined) {
      throw new LlmError({
        code: 'MISSING_CREDENTIAL',
        message: `no key for ${provider} is set`,
        fix: this.keyFix(apiKeyEnv, 'missing'),
      })
    }
    if (!this.made || this.made.key !== key) {
      const create = await loadFactory(this.options, this.options.from)
      this.made = { key, provider: create({ ...options, ...(key === undefined ? {} : { apiKey: key }) }) }
    }
    return languageModel(this.made.provider, model, this.options.package)
  }

  private key(): string | undefined {
    const { apiKeyEnv, credentials } = this.options
    return apiKeyEnv === undefined ? undefined : credentials.get(apiKeyEnv)
  }

  // Reading -----------------------------------------------------------------------------------------------------

  private async *read(parts: PartStream, reader: PartReader, spentMs: number): AsyncGenerator<StreamChunk> {
    const { firstEventMs, idleMs } = this.options
    let begun = false
    let silentMs = spentMs
    while (!reader.finished) {
      const asked = performance.now()
      const batch = await parts.next(Math.max(1, (begun ? idleMs : firstEventMs) - silentMs)).catch(error => {
        throw error instanceof PartTimeout ? this.silence(begun) : error
      })
      if (!batch) break
      silentMs += performance.now() - asked
      for (const part of batch) {
        if (!reader.push(part)) continue
        begun = true
        silentMs = 0
      }
      if (silentMs > (begun ? idleMs : firstEventMs)) throw this.silence(begun)
      yield* reader.flush()
    }
    if (reader.finished) return
    throw new LlmError({
      code: 'STREAM_CLOSED',
      message: `${this.options.provider} closed the stream before its answer was complete`,
    })
  }

  // Failures ----------------------------------------------------------------------------------------------------

  private silence(begun: boolean): LlmError {
    const { provider, firstEventMs, idleMs } = this.options
    const message = begun
      ? `${provider} was silent for ${spell(idleMs)} in the middle of its answer`
      : `${provider} gave no answer within ${spell(firstEventMs)}`
    return new LlmError({ code: 'TIMEOUT', message })
  }

  private toError(error: unknown, request: LlmRequest): LlmError {
    if (error instanceof LlmError) return error
    if (error instanceof PartTimeout) return this.silence(false)
    const failure: LlmFailure = failureFromPackage(
      error instanceof PartError ? error.error : error,
      this.subject(request),
    )
    return new LlmError(failure, error)
  }

  private subject({ model }: LlmRequest): FailureSubject {
    const { provider, apiKeyEnv, models, options } = this.options
    const key = this.key()
    return {
      provider,
      model,
      keyFix: apiKeyEnv === undefined ? undefined : this.keyFix(apiKeyEnv, key === undefined ? 'missing' : 'refused'),
      models: models.map(({ id }) => id),
      secrets: [...secretsIn(options), ...(key === undefined ? [] : [key])],
    }
  }

  private keyFix(name: string, state: 'missing' | 'refused'): string {
    const { credentials, provider } = this.options
    return credentials.fix(provider, [name], state)
  }
}

/** What options hold that nobody may see, as far as their names tell. */
function secretsIn(options: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(options).flatMap(([name, value]) => {
    if (isRecord(value)) return secretsIn(value)
    return typeof value === 'string' && /key|token|secret|password|authorization/i.test(name) ? [value] : []
  })
}

function callOptions(request: LlmRequest, model: LanguageModel, abortSignal: AbortSignal): CallOptions {
  const { tools, maxTokens, temperature, stop, effort, providerOptions } = request
  const { specificationVersion: version } = model
  const key = optionsKey(model.provider)
  const asked = effort && version !== 'v4' ? effortOptions(key, effort) : undefined
  const options = mergeOptions(asked, providerOptions)
  return {
    prompt: writePrompt(request, version, key),
    abortSignal,
    ...(tools?.length
      ? {
          tools: tools.map(({ name, description, parameters }) => ({
            type: 'function',
            name,
            description,
            inputSchema: parameters,
          })),
          toolChoice: { type: 'auto' },
        }
      : {}),
    ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(stop?.length ? { stopSequences: [...stop] } : {}),
    ...(effort && version === 'v4' ? { reasoning: effort } : {}),
    ...(options ? { providerOptions: options } : {}),
  }
}

/** `promise`, unless the signal or the time comes first; what comes later is handed to `late`. */
function bounded<T>(promise: Promise<T>, ms: number, signal: AbortSignal, late: (value: T) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    let settled = false
    const settle = (act: () => void) => {
      if (settled) return
      settled = true
      clearTimeout(timer)
      signal.removeEventListener('abort', aborted)
      act()
    }
    const timer = setTimeout(() => settle(() => reject(new PartTimeout('no answer in time'))), ms)
    const aborted = () => settle(() => reject(signal.reason))
    signal.addEventListener('abort', aborted)
    if (signal.aborted) aborted()
    promise.then(
      value => (settled ? late(value) : settle(() => resolve(value))),
      error => settle(() => reject(error)),
    )
  })
}

const spell = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`)
