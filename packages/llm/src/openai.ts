/** Talks to every provider that speaks chat completions; the usual ones need only their key in the environment. */

import { type Context, HarnessError, MAX_TIMER_MS } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './index.ts'
import { OpenAiAdapter } from './openai/adapter.ts'
import { ROUTES, type RouteEntry } from './openai/presets.ts'
import { DIALECT, type Dialect } from './openai/request.ts'
import type { ModelInfo } from './stream.ts'
import { HttpTransport, isWebAddress } from './web/http.ts'

export const name = 'openai'
export const inject = ['llm']

export interface ModelConfig {
  id: string
  contextWindow?: number
  maxOutputTokens?: number
  input?: ('text' | 'image')[]
  price?: { input?: number; output?: number; cacheRead?: number; cacheWrite?: number }
}

export interface ProviderConfig {
  baseURL?: string
  apiKey?: string
  apiKeyEnv?: string
  headers?: Record<string, string>
  models?: (string | ModelConfig)[]
  maxTokensKey?: Dialect['maxTokensKey']
  reasoningKey?: NonNullable<Dialect['reasoningKey']>
  streamUsage?: boolean
}

export interface Config {
  providers: Record<string, ProviderConfig>
  exclude: string[]
  connectMs: number
  firstEventMs: number
  idleMs: number
}

const Model: Schema<ModelConfig> = Schema.object({
  id: Schema.string().required().description('As the provider calls it'),
  contextWindow: Schema.natural().description('Tokens of input and output together'),
  maxOutputTokens: Schema.natural().description('Most tokens of one answer'),
  input: Schema.array(Schema.union(['text', 'image'] as const)).description('What the model reads'),
  price: Schema.object({
    input: Schema.number().min(0),
    output: Schema.number().min(0),
    cacheRead: Schema.number().min(0),
    cacheWrite: Schema.number().min(0),
  }).description('US dollars for a million tokens; without input and output the price is unknown'),
}) as Schema<ModelConfig>

const Provider: Schema<ProviderConfig> = Schema.object({
  baseURL: Schema.string().description('Address that /chat/completions is appended to; most end in /v1'),
  apiKey: Schema.string().description('The key; better named by !env than written down'),
  apiKeyEnv: Schema.string().description('Environment variable that holds the key, read with each request'),
  headers: Schema.dict(Schema.string()).description('Sent along with each request'),
  models: Schema.array(Schema.union([Schema.string(), Model])).description('What it offers; the first is its default'),
  maxTokensKey: Schema.union(['max_tokens', 'max_completion_tokens'] as const).description('Name of the output limit'),
  reasoningKey: Schema.union(['reasoning_content', 'reasoning'] as const).description(
    'Field in which reasoning goes back with a message; for providers that demand it',
  ),
  streamUsage: Schema.boolean().description('Whether usage is asked for with stream_options'),
}) as Schema<ProviderConfig>

const ms = () => Schema.natural().min(1).max(MAX_TIMER_MS)

export const Config: Schema<Config> = Schema.object({
  providers: Schema.dict(Provider).default({}).description('Further providers, or changes to a built-in one'),
  exclude: Schema.array(Schema.string()).default([]).description('Built-in providers that are left to other plugins'),
  connectMs: ms().default(10_000).description('Bound of connecting, in milliseconds'),
  firstEventMs: ms().default(300_000).description('Longest silence before an answer begins'),
  idleMs: ms().default(120_000).description('Longest silence within an answer'),
}) as Schema<Config>

export function apply(ctx: Context, config: Config) {
  const transport = new HttpTransport()
  ctx.effect(() => () => transport.dispose(), 'http connections')
  const { llm } = ctx
  const { connectMs, firstEventMs, idleMs } = config
  // Configured ones first: they are what somebody chose, so `auto` tries them before the rest of the table.
  const builtIn = new Map(ROUTES.map(entry => [entry.provider, entry]))
  const names = new Set([...Object.keys(config.providers), ...builtIn.keys()])
  for (const provider of names) {
    const settings = config.providers[provider]
    if (!settings && config.exclude.includes(provider)) continue
    const entry = settings ? configured(provider, settings, builtIn.get(provider)) : builtIn.get(provider)!
    const limits = { connectMs, firstEventMs, idleMs }
    llm.registerAdapter(provider, new OpenAiAdapter({ entry, settings: settings ?? {}, transport, limits }))
  }
}

function configured(provider: string, settings: ProviderConfig, known: RouteEntry | undefined): RouteEntry {
  const { baseURL = '' } = settings
  if (baseURL ? !isWebAddress(baseURL) : !known) {
    const problem = baseURL ? `"${baseURL}" is no web address` : 'it has no address'
    throw new HarnessError('LLM_ADDRESS_INVALID', `the provider ${provider} cannot be used: ${problem}`, {
      fix: `give providers.${provider}.baseURL an address such as https://models.example.com/v1`,
    })
  }
  const base = known ?? {
    provider,
    baseURL: '',
    keys: [`${provider.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_API_KEY`],
    bases: [],
    kind: 'remote',
    dialect: DIALECT,
    models: [],
  }
  const { apiKeyEnv, models, maxTokensKey, reasoningKey, streamUsage } = settings
  const dialect: Dialect = {
    ...base.dialect,
    ...(maxTokensKey ? { maxTokensKey } : {}),
    ...(reasoningKey ? { reasoningKey } : {}),
    ...(streamUsage === undefined ? {} : { streamUsage }),
  }
  return {
    ...base,
    ...(baseURL ? { baseURL, bases: [], kind: 'remote' } : {}),
    keys: apiKeyEnv ? [apiKeyEnv] : base.keys,
    models: models?.length ? models.map(toModel) : base.models,
    dialect,
  }
}

/** Lists and maps that nobody wrote come out of the schema empty; they mean unknown. */
function toModel(value: string | ModelConfig): ModelInfo {
  if (typeof value === 'string') return { id: value }
  const { input, price, ...rest } = value
  const { input: read, output: written, ...cache } = price ?? {}
  return {
    ...rest,
    ...(input?.length ? { input } : {}),
    ...(read === undefined || written === undefined ? {} : { price: { input: read, output: written, ...cache } }),
  }
}
