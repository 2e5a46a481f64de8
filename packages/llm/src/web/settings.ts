/** What a person may configure of a provider, the same for every protocol. */

import { HarnessError, MAX_TIMER_MS } from '@cambium/core'
import Schema from 'schemastery'
import type { ModelInfo } from '../stream.ts'
import { isWebAddress } from './http.ts'
import type { ProviderEntry } from './provider.ts'

export interface ModelConfig {
  id: string
  contextWindow?: number
  maxOutputTokens?: number
  input?: ('text' | 'image')[]
  price?: { input?: number; output?: number; cacheRead?: number; cacheWrite?: number }
}

export interface ProviderSettings {
  baseURL?: string
  apiKey?: string
  apiKeyEnv?: string
  headers?: Record<string, string>
  models?: (string | ModelConfig)[]
  maxImages?: number
}

/** Bounds of waiting, in milliseconds. */
export interface WebLimits {
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

/** Schema fields of {@link ProviderSettings}, to which a protocol adds its own. */
export const providerFields: Record<keyof ProviderSettings, Schema> = {
  baseURL: Schema.string().description('Its address, up to where the protocol goes on; most end in /v1'),
  apiKey: Schema.string().description('The key; better named by !env than written down'),
  apiKeyEnv: Schema.string().description('Name of the environment variable or stored credential that holds the key'),
  headers: Schema.dict(Schema.string()).description('Sent along with each request'),
  models: Schema.array(Schema.union([Schema.string(), Model])).description('What it offers; the first is its default'),
  maxImages: Schema.natural().min(1).description('Images that a request may hold; the oldest give way'),
}

const ms = () => Schema.natural().min(1).max(MAX_TIMER_MS)

/** Schema fields of {@link WebLimits}. */
export const limitFields: Record<keyof WebLimits, Schema> = {
  connectMs: ms().default(10_000).description('Bound of connecting, in milliseconds'),
  firstEventMs: ms()
    .default(300_000)
    .description(
      'Longest silence before an answer begins; three times as long may a provider say only that it is still there',
    ),
  idleMs: ms().default(120_000).description('Longest silence within an answer'),
}

/**
 * The providers that a plugin offers: its own ones and those of the configuration, which come first: they are what
 * somebody chose, so `auto` tries them before the rest.
 */
export function providersOf<E extends ProviderEntry, S extends ProviderSettings>(
  builtIn: readonly E[],
  config: { readonly providers: Readonly<Record<string, S>>; readonly exclude: readonly string[] },
  blank: (base: ProviderEntry) => E,
): { readonly entry: E; readonly settings: S | undefined }[] {
  const known = new Map(builtIn.map(entry => [entry.provider, entry]))
  const names = new Set([...Object.keys(config.providers), ...known.keys()])
  const offered = [...names].filter(provider => config.providers[provider] || !config.exclude.includes(provider))
  return offered.map(provider => {
    const settings = config.providers[provider]
    const entry = known.get(provider)
    return { entry: settings ? configured(provider, settings, entry, blank) : entry!, settings }
  })
}

function configured<E extends ProviderEntry>(
  provider: string,
  settings: ProviderSettings,
  known: E | undefined,
  blank: (base: ProviderEntry) => E,
): E {
  const { baseURL = '', apiKeyEnv, models } = settings
  if (baseURL ? !isWebAddress(baseURL) : !known) {
    const problem = baseURL ? `"${baseURL}" is no web address` : 'it has no address'
    throw new HarnessError('LLM_ADDRESS_INVALID', `the provider ${provider} cannot be used: ${problem}`, {
      fix: `give providers.${provider}.baseURL an address such as https://models.example.com/v1`,
    })
  }
  const keys = [`${provider.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}_API_KEY`]
  const base = known ?? blank({ provider, baseURL: '', keys, bases: [], kind: 'remote', models: [] })
  return {
    ...base,
    ...(baseURL ? { baseURL, bases: [], kind: 'remote' } : {}),
    keys: apiKeyEnv ? [apiKeyEnv] : base.keys,
    models: models?.length ? models.map(toModel) : base.models,
  }
}

/** Lists and maps that nobody wrote come out of the schema empty; they mean unknown. */
export function toModel(value: string | ModelConfig): ModelInfo {
  if (typeof value === 'string') return { id: value }
  const { input, price, ...rest } = value
  const { input: read, output: written, ...cache } = price ?? {}
  return {
    ...rest,
    ...(input?.length ? { input } : {}),
    ...(read === undefined || written === undefined ? {} : { price: { input: read, output: written, ...cache } }),
  }
}

/** What the configuration itself says that lets somebody in: a key, the token of a header. */
export function writtenSecrets({ apiKey, headers = {} }: ProviderSettings): string[] {
  const named = Object.entries(headers).filter(([name]) => /auth|key|token|secret|cookie/i.test(name))
  const values = named.map(([, value]) => value.replace(/^[A-Za-z]+\s+/, '').trim())
  return [...(apiKey ? [apiKey.trim()] : []), ...values]
}
