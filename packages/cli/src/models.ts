/** Lists the providers and models of the tree that it stands in: the heart of `cambium models`. */

import { type Context, nearest } from '@cambium/core'
import { type LlmFailure, type ModelInfo, type ProviderInfo, type Route, toFailure } from '@cambium/llm'
import type {} from '@cambium/loader'
import type {} from '@cambium/store/credentials'
import Schema from 'schemastery'
import { EXIT } from './exit-code.ts'
import { describeFailure } from './failure.ts'
import { renderProviders } from './models/render.ts'
import type { KeyState, ProviderReport } from './models/report.ts'
import { jsonText, plural } from './printable.ts'
import { lookAt, processSurface, type Surface } from './surface.ts'

export const name = 'models'
export const inject = ['llm']

export interface Config {
  words: string[]
  json: boolean
  offline: boolean
}
export const Config: Schema<Config> = Schema.object({
  words: Schema.array(Schema.string())
    .default([])
    .description('A provider, and words that must be in `provider/model`'),
  json: Schema.boolean().default(false).description('One JSON object instead of a table'),
  offline: Schema.boolean().default(false).description('Asks nobody'),
})

/** At once; each has a connection and a list in memory. */
const PARALLEL = 6
/** What a provider may take to list its models. */
const LIST_MS = 6_000

export function apply(ctx: Context, config: Config) {
  ctx.app.main(signal => new ModelsRun(ctx, config, signal).run())
}

class ModelsRun {
  private readonly ctx: Context
  private readonly config: Config
  private readonly ended: AbortSignal
  private readonly surface: Surface

  constructor(ctx: Context, config: Config, ended: AbortSignal) {
    this.ctx = ctx
    this.config = config
    this.ended = ended
    this.surface = ctx.get('surface') ?? processSurface()
  }

  async run(): Promise<number> {
    const { ctx, config, surface } = this
    const all = ctx.llm.list()
    const { named, words } = this.selection(all)
    const chosen = named ? [named] : all
    const failures = config.offline ? new Map<string, LlmFailure>() : await this.ask(chosen, named !== undefined)
    const auto = await this.auto(all)
    if (this.ended.aborted) return EXIT.failed
    const asked = new Set(config.offline ? [] : chosen.filter(info => asks(info, named !== undefined)).map(provider))
    const providers = ctx.llm
      .list()
      .filter(({ provider }) => !named || provider === named.provider)
      .map(info => this.report(info, asked, failures, auto.route))
      .map(report => ({ ...report, models: report.models.filter(model => fits(report, model, words)) }))
      .filter(report => !words.length || report.models.length)
    if (!providers.length) return this.nothing(all)
    surface.stdout.write(
      config.json ? jsonText({ auto: auto.json, providers }, 2) : await this.table(providers, auto, words, named),
    )
    return named && failures.has(named.provider) ? EXIT.failed : EXIT.done
  }

  /** A first word that is a provider names it; all others are looked for. */
  private selection(all: readonly ProviderInfo[]): { named: ProviderInfo | undefined; words: readonly string[] } {
    const [first = '', ...rest] = this.config.words.map(word => word.toLowerCase())
    const named = all.find(info => info.provider.toLowerCase() === first)
    return { named, words: named ? rest : [first, ...rest].filter(Boolean) }
  }

  /** Those that did not answer, each with why. */
  private async ask(chosen: readonly ProviderInfo[], named: boolean): Promise<Map<string, LlmFailure>> {
    const { ctx, surface, ended } = this
    const open = chosen.filter(info => asks(info, named))
    const failures = new Map<string, LlmFailure>()
    let done = 0
    const show = () =>
      surface.notes.set(`asking ${plural(open.length, 'provider')} for their models · ${done} have answered`)
    const next = open.values()
    const work = async () => {
      for (const { provider } of next) {
        show()
        try {
          await ctx.llm.discover(provider, AbortSignal.any([ended, AbortSignal.timeout(LIST_MS)]))
        } catch (error) {
          failures.set(provider, toFailure(error))
        }
        done++
      }
    }
    await Promise.all(Array.from({ length: PARALLEL }, work))
    surface.notes.set('')
    return failures
  }

  /** What `auto` takes. Without asking it is the first provider with a key, which needs nobody to answer. */
  private async auto(all: readonly ProviderInfo[]): Promise<Auto> {
    if (this.config.offline) {
      const first = all.find(({ kind, ready, models }) => kind === 'remote' && ready && models.length)
      const route = first && { provider: first.provider, model: first.models[0]!.id }
      return { route, json: route ?? null }
    }
    try {
      const { route, notice } = await this.ctx.llm.resolve('auto')
      return { route, notice, json: { ...route, ...(notice ? { notice } : {}) } }
    } catch {
      // Nothing can be used: each provider's row says what to do.
      return { route: undefined, json: null }
    }
  }

  private report(
    info: ProviderInfo,
    asked: ReadonlySet<string>,
    failures: ReadonlyMap<string, LlmFailure>,
    auto: Route | undefined,
  ): ProviderReport {
    const { provider, kind, ready, fix, models } = info
    const failure = failures.get(provider)
    const taken = (id: string) => auto?.provider === provider && auto.model === id
    const listed = auto?.provider === provider && !models.some(({ id }) => id === auto.model)
    return {
      provider,
      kind,
      ready,
      key: this.keyOf(info),
      ...(fix && !ready ? { fix } : {}),
      asked: asked.has(provider),
      ...(failure ? { failure } : {}),
      models: [...(listed ? [{ id: auto.model }] : []), ...models].map(model =>
        taken(model.id) ? { ...model, auto: true } : model,
      ),
    }
  }

  private keyOf({ provider, kind, ready, credentials }: ProviderInfo): KeyState {
    const stored = new Map(
      this.ctx
        .get('credentials')
        ?.list()
        .map(({ name, from }) => [name, from]),
    )
    for (const name of credentials) {
      const from = stored.get(name) ?? (process.env[name]?.trim() ? 'environment' : undefined)
      if (from) return { state: 'present', from, name }
    }
    if (this.ctx.get('auth')?.loggedIn(provider)) return { state: 'present', from: 'login' }
    if (!ready) return { state: 'missing', ...(credentials[0] ? { name: credentials[0] } : {}) }
    // A remote one that looks nowhere else was given its key.
    return kind === 'remote' && !credentials.length
      ? { state: 'present', from: 'configuration' }
      : { state: 'not needed' }
  }

  private nothing(all: readonly ProviderInfo[]): number {
    const { config, surface } = this
    const said = config.words.join(' ')
    const near = nearest(config.words[0] ?? '', all.map(provider))
    const fix = near ? `did you mean cambium models ${near}?` : `the providers are ${all.map(provider).join(', ')}`
    const message = said ? `no provider or model is called "${said}"` : 'the tree has no provider'
    surface.notes.print(describeFailure({ message, ...(all.length ? { fix } : {}) }))
    return EXIT.usage
  }

  private async table(
    providers: readonly ProviderReport[],
    { notice }: Auto,
    words: readonly string[],
    named: ProviderInfo | undefined,
  ): Promise<string> {
    const { stdout } = this.surface
    const { terminal, color } = lookAt(stdout, this.ctx.app.env)
    const width = terminal ? (stdout.columns ?? 80) : Number.POSITIVE_INFINITY
    const { createColors } = (await import('picocolors')).default
    const whole = words.length > 0 || named !== undefined
    return renderProviders(providers, { width, colors: createColors(color), whole, notice })
  }
}

interface Auto {
  readonly route: Route | undefined
  readonly notice?: string | undefined
  readonly json: object | null
}

const provider = (info: ProviderInfo) => info.provider

/** One that must be named is asked when it is. */
const asks = ({ kind, ready }: ProviderInfo, named: boolean) => ready && kind !== 'demo' && (named || kind !== 'named')

function fits({ provider }: ProviderReport, { id }: ModelInfo, words: readonly string[]): boolean {
  const route = `${provider}/${id}`.toLowerCase()
  return words.every(word => route.includes(word))
}
