/** One provider reached over HTTP: what is known of it, and the door to the exchanges with it. */

import { type ImageRules, LlmAdapter } from '../adapter.ts'
import type { LlmRequest, ModelInfo, StreamChunk } from '../stream.ts'
import { type Endpoint, needsKey, readEndpoint } from './endpoint.ts'
import type { ExchangeOptions, Exchanges } from './exchange.ts'
import { KnownModels } from './known-models.ts'
import type { Protocol } from './protocol.ts'
import { writtenSecrets } from './settings.ts'

export interface WebAdapterOptions extends Omit<ExchangeOptions, 'protocol' | 'known'> {
  /** Or what loads it, with the first request: a start carries no protocol that it does not speak. */
  readonly protocol: Protocol | (() => Promise<Protocol>)
}

export class WebAdapter extends LlmAdapter {
  override readonly kind: LlmAdapter['kind']
  private readonly options: WebAdapterOptions
  private readonly known: KnownModels
  private opened: Promise<Exchanges> | undefined

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
    const exchanges = await this.open()
    this.known.listed = await exchanges.models(signal)
    return this.known.informed(this.known.listed)
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    const exchanges = await this.open()
    yield* exchanges.answer(request)
  }

  private async open(): Promise<Exchanges> {
    this.opened ??= this.load()
    try {
      return await this.opened
    } catch (error) {
      this.opened = undefined
      throw error
    }
  }

  private async load(): Promise<Exchanges> {
    const { protocol: given } = this.options
    const [{ Exchanges }, protocol] = await Promise.all([
      import('./exchange.ts'),
      typeof given === 'function' ? given() : given,
    ])
    return new Exchanges({ ...this.options, protocol, known: this.known })
  }

  private endpoint(): Endpoint {
    const { entry, settings, credentials } = this.options
    return readEndpoint(entry, settings, credentials)
  }
}
