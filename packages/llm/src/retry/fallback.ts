/** Which routes stand in for one that is down, and which ones are down. */

import { HarnessError, nearest } from '@cambium/core'
import type { LlmService } from '../service.ts'
import type { LlmCallConfig, LlmFailure, LlmFailureCode, Route } from '../stream.ts'

/**
 * Failures of a route, which another one need not have. Not among them: what the request itself is wrong with, which
 * would fail anywhere (INVALID_REQUEST, UNSUPPORTED_CONTENT, CONTEXT_WINDOW_EXCEEDED), what a person wanted (ABORTED),
 * and what nobody understands (UNKNOWN).
 */
const OF_THE_ROUTE: ReadonlySet<LlmFailureCode> = new Set<LlmFailureCode>([
  'AUTH',
  'EMPTY_RESPONSE',
  'MALFORMED_RESPONSE',
  'MISSING_CREDENTIAL',
  'NO_ADAPTER',
  'QUOTA',
  'RATE_LIMIT',
  'SERVER',
  'STREAM_CLOSED',
  'TIMEOUT',
  'TRANSPORT',
  'UNKNOWN_MODEL',
])

export const routeName = ({ provider, model }: Route): string => `${provider}/${model}`

export interface FallbackOptions {
  readonly llm: LlmService
  /** As written: `provider/model`. */
  readonly fallback: readonly string[]
  readonly coolDownMs: number
  /** A provider that asks for a longer wait than this is left alone for as long as it asks. */
  readonly maxRetryAfterMs: number
}

interface Mark {
  readonly failure: LlmFailure
  readonly until: number
}

export class Fallback {
  private readonly options: FallbackOptions
  private readonly routes: readonly Route[]
  private readonly marks = new Map<string, Mark>()

  /** @throws `LLM_UNKNOWN_ROUTE` for a route whose provider nobody offers */
  constructor(options: FallbackOptions) {
    this.options = options
    const providers = options.fallback.length ? options.llm.list().map(({ provider }) => provider) : []
    this.routes = options.fallback.map((written, at) => {
      const slash = written.indexOf('/')
      const route = { provider: written.slice(0, slash), model: written.slice(slash + 1) }
      if (providers.includes(route.provider)) return route
      const near = nearest(route.provider, providers)
      throw new HarnessError('LLM_UNKNOWN_ROUTE', `fallback[${at}]: no provider is called "${route.provider}"`, {
        fix: near
          ? `did you mean ${near}/${route.model}?`
          : `use one of ${providers.join(', ') || 'a provider whose row stands above this one'}`,
      })
    })
  }

  /** Routes that could not be used now, since their provider has no credential. */
  unready(): Route[] {
    return this.routes.filter(route => !this.ready(route))
  }

  /** The failure for which a route is left alone, and for how long still; undefined for one that is not. */
  down(route: Route): { readonly failure: LlmFailure; readonly restMs: number } | undefined {
    const name = routeName(route)
    const mark = this.marks.get(name)
    if (!mark) return undefined
    const restMs = mark.until - performance.now()
    if (restMs > 0) return { failure: mark.failure, restMs }
    this.marks.delete(name)
    return undefined
  }

  /** From now on a route is left alone for a while. */
  mark(route: Route, failure: LlmFailure): void {
    const { coolDownMs, maxRetryAfterMs } = this.options
    const wish = failure.retryAfterMs ?? 0
    this.marks.set(routeName(route), {
      failure,
      until: performance.now() + (wish > maxRetryAfterMs ? wish : coolDownMs),
    })
  }

  clear(route: Route): void {
    this.marks.delete(routeName(route))
  }

  /** What takes the place of a route that failed so: the first that is usable and not among `tried`. */
  after(route: Route, failure: LlmFailure, tried?: ReadonlySet<string>): Route | undefined {
    if (!OF_THE_ROUTE.has(failure.code)) return undefined
    const self = routeName(route)
    return this.routes.find(other => {
      const name = routeName(other)
      return name !== self && !tried?.has(name) && !this.down(other) && this.ready(other)
    })
  }

  /** The same request for another route: what only the first one's model or provider understands is left out. */
  standIn(config: LlmCallConfig, to: Route): LlmCallConfig {
    const { provider, model, effort, maxTokens, temperature, stop, insteadOf = { provider, model } } = config
    const info = this.options.llm.modelInfo(to)
    return {
      provider: to.provider,
      model: to.model,
      insteadOf,
      ...(effort !== undefined && info?.efforts?.includes(effort) ? { effort } : {}),
      ...(maxTokens === undefined ? {} : { maxTokens: Math.min(maxTokens, info?.maxOutputTokens ?? maxTokens) }),
      ...(temperature === undefined ? {} : { temperature }),
      ...(stop === undefined ? {} : { stop }),
    }
  }

  private ready({ provider }: Route): boolean {
    return this.options.llm.list().some(entry => entry.provider === provider && entry.ready)
  }
}
