/** Talks to every provider that speaks chat completions; the usual ones need only their key in the environment. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './index.ts'
import { DIALECT, type Dialect, EFFORT_SPELLINGS, REASONING_KEYS } from './openai/dialect.ts'
import { PRESETS } from './openai/presets.ts'
import { WebAdapter } from './web/adapter.ts'
import { credentialsOf } from './web/credentials.ts'
import { HttpTransport } from './web/http.ts'
import { limitFields, type ProviderSettings, providerFields, providersOf, type WebLimits } from './web/settings.ts'

export const name = 'openai'
export const inject = ['llm']

/** What a person can set of a dialect; `like` spares the rest. */
export interface ProviderConfig extends ProviderSettings, Partial<Pick<Dialect, (typeof QUIRKS)[number]>> {
  like?: string
}

const QUIRKS = ['maxTokensKey', 'reasoningKey', 'effort', 'streamUsage', 'thinkTags', 'schema'] as const

export interface Config extends WebLimits {
  providers: Record<string, ProviderConfig>
  exclude: string[]
}

const Provider: Schema<ProviderConfig> = Schema.object({
  ...providerFields,
  like: Schema.union(PRESETS.map(({ provider }) => provider)).description(
    'The built-in provider whose quirks it shares: it stands before the same servers, or serves its models',
  ),
  maxTokensKey: Schema.union(['max_tokens', 'max_completion_tokens'] as const).description('Name of the output limit'),
  reasoningKey: Schema.union([...REASONING_KEYS]).description(
    'How the reasoning of earlier messages goes back: in that field, as `thinking` parts, or not at all',
  ),
  effort: Schema.union([...EFFORT_SPELLINGS]).description(
    'How the effort is said; `template` is for servers of open weights such as vLLM',
  ),
  streamUsage: Schema.boolean().description('Whether usage is asked for with stream_options'),
  thinkTags: Schema.boolean().description('Whether a text that begins with <think> is reasoning up to </think>'),
  schema: Schema.union(['full', 'subset'] as const).description(
    'Tool schemas as they are, or without references and rarer keywords, as Gemini needs them',
  ),
}) as Schema<ProviderConfig>

export const Config: Schema<Config> = Schema.object({
  providers: Schema.dict(Provider).default({}).description('Further providers, or changes to a built-in one'),
  exclude: Schema.array(Schema.string()).default([]).description('Built-in providers that are left to other plugins'),
  ...limitFields,
}) as Schema<Config>

export function apply(ctx: Context, config: Config) {
  const transport = new HttpTransport()
  ctx.effect(() => () => transport.dispose(), 'http connections')
  const { llm } = ctx
  const warn = (text: string) => ctx.logger.warn(text)
  const credentials = credentialsOf(ctx)
  for (const { entry, settings } of providersOf(PRESETS, config, base => ({ ...base, dialect: DIALECT }))) {
    const like = settings?.like === undefined ? entry : PRESETS.find(({ provider }) => provider === settings.like)
    llm.registerAdapter(
      entry.provider,
      new WebAdapter({
        entry,
        settings: settings ?? {},
        protocol: async () => {
          const { ChatCompletions } = await import('./openai/protocol.ts')
          return new ChatCompletions((like ?? entry).dialect, quirksOf(settings), warn)
        },
        transport,
        limits: config,
        credentials,
      }),
    )
  }
}

function quirksOf(settings: ProviderConfig = {}): Partial<Dialect> {
  const set = QUIRKS.filter(key => settings[key] !== undefined)
  return Object.fromEntries(set.map(key => [key, settings[key]]))
}
