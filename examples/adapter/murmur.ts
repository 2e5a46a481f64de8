/** Talks to servers that speak Murmur, a protocol made up for this example. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/llm'
import {
  credentialsOf,
  HttpTransport,
  limitFields,
  type ProviderEntry,
  type ProviderSettings,
  providerFields,
  providersOf,
  WebAdapter,
  type WebLimits,
} from '@cambium/llm/web'
import Schema from 'schemastery'
import { Murmur } from './murmur-protocol.ts'

export const name = 'murmur'
export const inject = ['llm']

export interface Config extends WebLimits {
  providers: Record<string, ProviderSettings>
  exclude: string[]
}
export const Config: Schema<Partial<Config>, Config> = Schema.object({
  providers: Schema.dict(Schema.object({ ...providerFields }))
    .default({})
    .description('Further servers, or changes to the built-in one'),
  exclude: Schema.array(Schema.string()).default([]).description('Built-in providers that are not offered'),
  ...limitFields,
}) as Schema<Partial<Config>, Config>

/** What is known without asking anybody: the key is looked for under these names, and `auto` takes the first model. */
const MURMUR: ProviderEntry = {
  provider: 'murmur',
  baseURL: 'https://api.murmur.example/v1',
  keys: ['MURMUR_API_KEY'],
  bases: ['MURMUR_BASE_URL'],
  kind: 'remote',
  models: [
    { id: 'soft', contextWindow: 32_000, input: ['text', 'image'], price: { input: 1, output: 2, cacheRead: 0.1 } },
  ],
  images: { mediaTypes: ['image/png', 'image/jpeg'], maxCount: 10 },
}

export function apply(ctx: Context, config: Config) {
  const transport = new HttpTransport()
  ctx.effect(() => () => transport.dispose(), 'http connections')
  const protocol = new Murmur()
  const credentials = credentialsOf(ctx)
  for (const { entry, settings = {} } of providersOf([MURMUR], config, base => base)) {
    const adapter = new WebAdapter({ entry, settings, protocol, transport, limits: config, credentials })
    ctx.llm.registerAdapter(entry.provider, adapter)
  }
}
