/** Talks to every provider that speaks chat completions; the usual ones need only their key in the environment. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './index.ts'
import { PRESETS } from './openai/presets.ts'
import { ChatCompletions } from './openai/protocol.ts'
import { DIALECT, type Dialect } from './openai/request.ts'
import { WebAdapter } from './web/adapter.ts'
import { credentialsOf } from './web/credentials.ts'
import { HttpTransport } from './web/http.ts'
import { limitFields, type ProviderSettings, providerFields, providersOf, type WebLimits } from './web/settings.ts'

export const name = 'openai'
export const inject = ['llm']

export interface ProviderConfig extends ProviderSettings {
  maxTokensKey?: Dialect['maxTokensKey']
  reasoningKey?: NonNullable<Dialect['reasoningKey']>
  streamUsage?: boolean
}

export interface Config extends WebLimits {
  providers: Record<string, ProviderConfig>
  exclude: string[]
}

const Provider: Schema<ProviderConfig> = Schema.object({
  ...providerFields,
  maxTokensKey: Schema.union(['max_tokens', 'max_completion_tokens'] as const).description('Name of the output limit'),
  reasoningKey: Schema.union(['reasoning_content', 'reasoning'] as const).description(
    'Field in which reasoning goes back with a message; for providers that demand it',
  ),
  streamUsage: Schema.boolean().description('Whether usage is asked for with stream_options'),
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
  for (const { entry, settings } of providersOf(PRESETS, config, base => ({ ...base, dialect: DIALECT }))) {
    const protocol = new ChatCompletions(dialectOf(entry.dialect, settings))
    llm.registerAdapter(
      entry.provider,
      new WebAdapter({
        entry,
        settings: settings ?? {},
        protocol,
        transport,
        limits: config,
        credentials: credentialsOf(ctx),
      }),
    )
  }
}

function dialectOf(dialect: Dialect, { maxTokensKey, reasoningKey, streamUsage }: ProviderConfig = {}): Dialect {
  return {
    ...dialect,
    ...(maxTokensKey ? { maxTokensKey } : {}),
    ...(reasoningKey ? { reasoningKey } : {}),
    ...(streamUsage === undefined ? {} : { streamUsage }),
  }
}
