/** `ctx.llm`: the registry of adapters and the one door to a model. */

import {
  type Context,
  HarnessError,
  nearest,
  ScopedRegistry,
  type ScopeKey,
  Service,
  scopeOf,
  waterfall,
} from '@cambium/core'
import type { LlmAdapter } from './adapter.ts'
import { Attempt } from './answer/attempt.ts'
import { ImageRefusals, SecondTry } from './answer/image-refusal.ts'
import { TokenMeter } from './meter.ts'
import { type Normalised, normaliseRequest } from './request/normalise.ts'
import { resolveRoute } from './resolve.ts'
import type { LlmRequest, ModelInfo, Route, StreamChunk } from './stream.ts'
import { LlmError } from './web/failure.ts'

export interface ProviderInfo {
  readonly provider: string
  readonly kind: LlmAdapter['kind']
  /** A credential is there, or none is needed. */
  readonly ready: boolean
  /** Names under which its key is looked for; none where it needs none, or is told it by the configuration. */
  readonly credentials: readonly string[]
  /** What to do to make it ready. */
  readonly fix?: string
  /** As far as they are known. */
  readonly models: readonly ModelInfo[]
}

export interface LlmService {
  /**
   * Offers an adapter as a provider for as long as the calling plugin lives; returns the undo.
   * @throws `LLM_DUPLICATE_PROVIDER`, `LLM_PROVIDER_NAME`
   */
  registerAdapter(provider: string, adapter: LlmAdapter): () => void
  /**
   * One provider attempt, normalised and wrapped by `llm/stream`. Never throws for what a provider or an adapter does:
   * the last chunk is always a `finish`.
   */
  stream(request: LlmRequest): AsyncIterable<StreamChunk>
  /**
   * How large a request is, in tokens: the provider's own count of the last one, and an estimate of what came since that
   * is calibrated by every answer of this process. `contextTokens` of `@cambium/session` asks it about a session.
   */
  readonly meter: TokenMeter
  /**
   * What is known about a model: context window, price. Configuration counts before what the provider listed when it was
   * last asked, that before the table that is shipped. Undefined when nothing is known; the model may work all the same.
   */
  modelInfo(route: Route): ModelInfo | undefined
  /** Providers in row order. Nobody is asked. */
  list(): ProviderInfo[]
  /** Asks a provider what it has. @throws `LlmError` when it does not answer, with what to do */
  discover(provider: string, signal: AbortSignal): Promise<readonly ModelInfo[]>
  /**
   * Turns what a person says (`provider/model`, a provider alone, or `auto`) into a route, with a notice where the choice
   * was ours. @throws `LLM_UNKNOWN_ROUTE`, `LLM_MISSING_CREDENTIAL` in one sentence with what to do.
   */
  resolve(selection: string): Promise<{ route: Route; notice?: string }>
}

declare module 'cordis' {
  interface Context {
    /** Models: adapters by provider, the choice of a route, and one attempt at an answer as a stream. */
    llm: LlmService
  }
  interface Events {
    /** waterfall: around one provider attempt; synchronous, returns the stream. */
    'llm/stream'(request: LlmRequest, next: () => AsyncIterable<StreamChunk>): AsyncIterable<StreamChunk>
  }
}

export class LlmRuntime extends Service implements LlmService {
  private readonly adapters = new ScopedRegistry<LlmAdapter>({
    noun: 'provider',
    duplicateCode: 'LLM_DUPLICATE_PROVIDER',
  })
  readonly meter = new TokenMeter()
  private readonly images = new ImageRefusals()

  constructor(ctx: Context) {
    super(ctx, 'llm')
  }

  registerAdapter(provider: string, adapter: LlmAdapter): () => void {
    if (!/^[^\s/]+$/.test(provider) || provider === 'auto') {
      throw new HarnessError('LLM_PROVIDER_NAME', `nobody could choose a provider called "${provider}"`, {
        fix: 'give it a name without blanks and slashes that is not auto: routes are written <provider>/<model>',
      })
    }
    return this.adapters.register(this.ctx, provider, adapter)
  }

  stream(request: LlmRequest): AsyncIterable<StreamChunk> {
    const { ctx } = this
    const { provider, scope = scopeOf(ctx) } = request
    // Adapter, history and tools are taken now: a reload while the answer streams must not mix two generations.
    const adapter = this.adapters.get(provider, scope)
    const reads = adapter?.info(request.model)?.input
    const route = `${provider}/${request.model}`
    const normalise = () =>
      normaliseRequest(request, {
        images: reads?.includes('image') ?? true,
        ...(adapter ? { imageRules: adapter.images() } : {}),
        refused: image => this.images.isRefused(image, route),
      })
    const start = (normal: Normalised) =>
      new Attempt({
        adapter: adapter!,
        provider,
        request: normal.request,
        taken: request.takenCallIds ? [normal.callIds, request.takenCallIds] : [normal.callIds],
        toolNames: normal.toolNames,
        counted: usage => this.meter.learn(request, normal.request, usage),
        closingFailed: error => ctx.logger.debug(`closing a stream of ${provider} failed: %o`, error),
      })
    const normal = normalise()
    const attempt = () => {
      if (!adapter) return failed(this.noAdapter(provider, scope))
      if (normal.problem) return failed(normal.problem)
      const first = start(normal)
      if (!normal.images.length) return first
      return new SecondTry({
        first,
        taken: () => this.images.take(normal.images, route),
        refused: ({ message }) => {
          ctx.logger.warn(`an image is left out: ${message}`)
          const undo = this.images.refuse(normal.images, route)
          return { attempt: start(normalise()), undo }
        },
      })
    }
    const stream: unknown = waterfall(ctx, scope, 'llm/stream', normal.request, attempt)
    return isStream(stream) ? stream : failed(noStream())
  }

  modelInfo({ provider, model }: Route): ModelInfo | undefined {
    return this.adapters.get(provider, scopeOf(this.ctx))?.info(model)
  }

  list(): ProviderInfo[] {
    const entries = [...this.adapters.entries(scopeOf(this.ctx))]
    return entries.map(([provider, adapter]) => {
      const fix = adapter.credentialFix()
      return {
        provider,
        kind: adapter.kind,
        ready: adapter.ready(),
        credentials: adapter.credentials(),
        ...(fix === undefined ? {} : { fix }),
        models: adapter.models(),
      }
    })
  }

  async discover(provider: string, signal: AbortSignal): Promise<readonly ModelInfo[]> {
    const scope = scopeOf(this.ctx)
    const adapter = this.adapters.get(provider, scope)
    if (!adapter) throw this.noAdapter(provider, scope)
    return adapter.discover(signal)
  }

  resolve(selection: string): Promise<{ route: Route; notice?: string }> {
    return resolveRoute(selection, this.adapters.entries(scopeOf(this.ctx)))
  }

  private noAdapter(provider: string, scope: ScopeKey | undefined): LlmError {
    const names = [...this.adapters.entries(scope).keys()]
    const near = nearest(provider, names)
    return new LlmError({
      code: 'NO_ADAPTER',
      message: `no adapter offers the provider "${provider}"`,
      fix: near ? `did you mean ${near}?` : names.length ? `use one of ${names.join(', ')}` : 'mount an adapter',
    })
  }
}

const isStream = (value: unknown): value is AsyncIterable<StreamChunk> =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as AsyncIterable<StreamChunk>)[Symbol.asyncIterator] === 'function'

const noStream = () =>
  new LlmError({
    code: 'UNKNOWN',
    message: 'a listener of llm/stream answered with no stream',
    fix: 'return next(), or what wraps it, and not from an async function',
  })

async function* failed({ failure }: LlmError): AsyncGenerator<StreamChunk> {
  yield { type: 'finish', reason: 'error', failure }
}
