/** Talks to OpenAI, and to every server that speaks the Responses API: reasoning goes back as it came. */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import type {} from './index.ts'
import { OPENAI, officialIsMeant } from './responses/openai.ts'
import { WebAdapter, type WebAdapterOptions } from './web/adapter.ts'
import { credentialsOf } from './web/credentials.ts'
import { HttpTransport } from './web/http.ts'
import { limitFields, type ProviderSettings, providerFields, providersOf, type WebLimits } from './web/settings.ts'

export const name = 'responses'
export const inject = ['llm']

export interface ProviderConfig extends ProviderSettings {
  reasoning?: boolean
  keyHeader?: string
  apiVersion?: string
}

export interface Config extends WebLimits {
  providers: Record<string, ProviderConfig>
  exclude: string[]
}

const Provider: Schema<ProviderConfig> = Schema.object({
  ...providerFields,
  reasoning: Schema.boolean().description('Whether its models reason, where their names do not tell'),
  keyHeader: Schema.string().description('Header that carries the key in place of a bearer token; `api-key` for Azure'),
  apiVersion: Schema.string().description(
    'The `api-version` that is appended to the address, as older ones of Azure want',
  ),
}) as Schema<ProviderConfig>

export const Config: Schema<Config> = Schema.object({
  providers: Schema.dict(Provider).default({}).description('Further providers, or changes to openai-responses'),
  exclude: Schema.array(Schema.string()).default([]).description('openai-responses, where it is not wanted'),
  ...limitFields,
}) as Schema<Config>

export function apply(ctx: Context, config: Config) {
  const transport = new HttpTransport()
  ctx.effect(() => () => transport.dispose(), 'http connections')
  const { llm } = ctx
  const credentials = credentialsOf(ctx)
  for (const { entry, settings = {} } of providersOf([OPENAI], config, base => base)) {
    const { reasoning, apiVersion, keyHeader = azureHeader(entry.baseURL) } = settings
    const protocol = async () => {
      const { Responses } = await import('./responses/protocol.ts')
      return new Responses({
        ...(reasoning === undefined ? {} : { reasoning }),
        ...(apiVersion ? { apiVersion } : {}),
        ...(keyHeader ? { keyHeader } : {}),
      })
    }
    const options: WebAdapterOptions = { entry, settings, protocol, transport, limits: config, credentials }
    const official = entry.provider === OPENAI.provider && !settings.baseURL && !settings.apiKey
    llm.registerAdapter(entry.provider, official ? new OfficialAdapter(options) : new WebAdapter(options))
  }
}

/** The provider's own address, with a key that may be meant for another one. */
class OfficialAdapter extends WebAdapter {
  override ready(): boolean {
    return officialIsMeant() && super.ready()
  }
}

const azureHeader = (address: string): string | undefined =>
  /\.azure\.(com|us|cn)$/.test(URL.canParse(address) ? new URL(address).hostname : '') ? 'api-key' : undefined
