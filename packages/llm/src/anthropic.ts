/** Talks to Claude, and to every other provider that speaks the Messages API. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { ANTHROPIC } from './anthropic/models.ts'
import type { MessagesOptions } from './anthropic/protocol.ts'
import type {} from './index.ts'
import { lookUpModel } from './models/table.ts'
import type { ModelInfo } from './stream.ts'
import { WebAdapter } from './web/adapter.ts'
import { credentialsOf } from './web/credentials.ts'
import { withVersion } from './web/endpoint.ts'
import { HttpTransport } from './web/http.ts'
import { limitFields, type ProviderSettings, providerFields, providersOf, type WebLimits } from './web/settings.ts'

export const name = 'anthropic'
export const inject = ['llm']

export interface ProviderConfig extends ProviderSettings {
  authorization?: MessagesOptions['authorization']
  cache?: MessagesOptions['cache']
  thinking?: NonNullable<MessagesOptions['thinking']>
}

export interface Config extends WebLimits {
  providers: Record<string, ProviderConfig>
  exclude: string[]
}

const Provider: Schema<ProviderConfig> = Schema.object({
  ...providerFields,
  baseURL: Schema.string().description('Its address; /v1 is appended where no version stands at its end'),
  authorization: Schema.union(['x-api-key', 'bearer'] as const).description(
    'How the key is sent: x-api-key by default',
  ),
  cache: Schema.union([Schema.const(false), Schema.const('5m'), Schema.const('1h')] as const).description(
    'How long the provider is asked to keep a prompt, so that the next request pays less for it: 5m by default; false for not at all',
  ),
  thinking: Schema.union(['adaptive', 'budget', 'none'] as const).description(
    'How an effort is said: by its name (adaptive), as a number of tokens (budget), or never (none); by default as the model is known to want it, a number for unknown ones',
  ),
}) as Schema<ProviderConfig>

export const Config: Schema<Config> = Schema.object({
  providers: Schema.dict(Provider)
    .default({})
    .description('Further providers that speak the Messages API, or changes to anthropic'),
  exclude: Schema.array(Schema.string()).default([]).description('Built-in providers that are left to other plugins'),
  ...limitFields,
}) as Schema<Config>

export function apply(ctx: Context, config: Config) {
  const transport = new HttpTransport()
  ctx.effect(() => () => transport.dispose(), 'http connections')
  const { llm } = ctx
  const credentials = credentialsOf(ctx)
  for (const { entry: written, settings = {} } of providersOf([ANTHROPIC], config, base => base)) {
    const entry = { ...written, baseURL: withVersion(written.baseURL, '/v1') }
    const { authorization = 'x-api-key', cache = '5m', thinking } = settings
    const info = (model: string): ModelInfo => ({ ...lookUpModel(model), ...adapter.info(model), id: model })
    const protocol = async () => {
      const { Messages } = await import('./anthropic/protocol.ts')
      return new Messages({ authorization, cache, thinking, info })
    }
    const adapter: WebAdapter = new WebAdapter({ entry, settings, protocol, transport, limits: config, credentials })
    llm.registerAdapter(entry.provider, adapter)
  }
}
