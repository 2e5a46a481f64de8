/** Talks to every provider that has a package for the AI SDK, once its user has installed that: Bedrock, Vertex, Cohere, … */

import type { Context } from '@cambium/core'
import Schema from 'schemastery'
import { AiSdkAdapter } from './ai-sdk/adapter.ts'
import { treeFileOf } from './ai-sdk/package.ts'
import type {} from './index.ts'
import { credentialsOf } from './web/credentials.ts'
import { limitFields, type ModelConfig, providerFields, toModel } from './web/settings.ts'

export const name = 'ai-sdk'
export const inject = ['llm']

export interface ProviderConfig {
  package: string
  create?: string
  options: Record<string, unknown>
  apiKeyEnv?: string
  models: (string | ModelConfig)[]
}

export interface Config {
  providers: Record<string, ProviderConfig>
  firstEventMs: number
  idleMs: number
}

const Provider: Schema<ProviderConfig> = Schema.object({
  package: Schema.string().required().description('Package of the provider, as installed beside the tree'),
  create: Schema.string().description('Name of its factory; found by itself where only one begins with create'),
  options: Schema.dict(Schema.any()).default({}).description('What the factory gets, as its own documentation says'),
  apiKeyEnv: providerFields.apiKeyEnv.description(
    'Name of the environment variable or stored credential that the factory gets as apiKey',
  ),
  models: providerFields.models.default([]),
}) as Schema<ProviderConfig>

const { firstEventMs, idleMs } = limitFields

export const Config: Schema<Config> = Schema.object({
  providers: Schema.dict(Provider).default({}).description('Providers by the names that they get here'),
  firstEventMs,
  idleMs,
}) as Schema<Config>

export function apply(ctx: Context, config: Config) {
  const { llm } = ctx
  const from = treeFileOf(ctx)
  const credentials = credentialsOf(ctx)
  for (const [provider, { models, apiKeyEnv, create, ...settings }] of Object.entries(config.providers)) {
    llm.registerAdapter(
      provider,
      new AiSdkAdapter({
        ...settings,
        provider,
        from,
        create: create || undefined,
        apiKeyEnv: apiKeyEnv || undefined,
        models: models.map(toModel),
        credentials,
        firstEventMs: config.firstEventMs,
        idleMs: config.idleMs,
      }),
    )
  }
}
