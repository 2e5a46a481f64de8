/** The providers that need no configuration: where they are, which variable holds the key, how they differ. */

import type { ModelInfo } from '../stream.ts'
import type { ProviderEntry } from '../web/endpoint.ts'
import { DIALECT, type Dialect } from './request.ts'

export interface Preset extends ProviderEntry {
  readonly dialect: Dialect
}

type Price = readonly [input: number, output: number, cacheRead?: number, cacheWrite?: number]

/** `size` in thousands of tokens. Prices are the providers' list prices of late 2025; a configured model overrides them. */
function model(id: string, size?: number, price?: Price, images = false): ModelInfo {
  const [input = 0, output = 0, cacheRead, cacheWrite] = price ?? []
  return {
    id,
    ...(size === undefined ? {} : { contextWindow: size * 1000 }),
    input: images ? ['text', 'image'] : ['text'],
    ...(price
      ? {
          price: {
            input,
            output,
            ...(cacheRead === undefined ? {} : { cacheRead }),
            ...(cacheWrite === undefined ? {} : { cacheWrite }),
          },
        }
      : {}),
  }
}

function remote(
  provider: string,
  baseURL: string,
  models: readonly ModelInfo[],
  more: Partial<Omit<Preset, 'dialect'>> & { dialect?: Partial<Dialect> } = {},
): Preset {
  const prefix = provider.toUpperCase()
  return {
    provider,
    baseURL,
    keys: [`${prefix}_API_KEY`],
    bases: [`${prefix}_BASE_URL`],
    kind: 'remote',
    models,
    ...more,
    dialect: { ...DIALECT, ...more.dialect },
  }
}

const local = (provider: string, baseURL: string, bases: readonly string[]) =>
  remote(provider, baseURL, [], { kind: 'local', keys: [`${provider.toUpperCase()}_API_KEY`], bases, path: '/v1' })

/** In the order in which `auto` tries them. */
export const PRESETS: readonly Preset[] = [
  remote(
    'openai',
    'https://api.openai.com/v1',
    [
      model('gpt-5', 400, [1.25, 10, 0.125], true),
      model('gpt-5-mini', 400, [0.25, 2, 0.025], true),
      model('gpt-5-nano', 400, [0.05, 0.4, 0.005], true),
      model('gpt-4.1', 1047.576, [2, 8, 0.5], true),
      model('gpt-4.1-mini', 1047.576, [0.4, 1.6, 0.1], true),
      model('gpt-4o', 128, [2.5, 10, 1.25], true),
    ],
    { dialect: { maxTokensKey: 'max_completion_tokens', cacheKey: true } },
  ),
  remote(
    'deepseek',
    'https://api.deepseek.com',
    [model('deepseek-chat', 128, [0.28, 0.42, 0.028]), model('deepseek-reasoner', 128, [0.28, 0.42, 0.028])],
    { dialect: { reasoningKey: 'reasoning_content' } },
  ),
  remote(
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/openai',
    [model('gemini-2.5-pro', 1048.576, undefined, true), model('gemini-2.5-flash', 1048.576, undefined, true)],
    { keys: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'] },
  ),
  remote(
    'openrouter',
    'https://openrouter.ai/api/v1',
    [
      model('anthropic/claude-sonnet-4.5', 200, undefined, true),
      model('openai/gpt-5', 400, undefined, true),
      model('deepseek/deepseek-chat', 128),
    ],
    { dialect: { effort: 'object' } },
  ),
  remote('groq', 'https://api.groq.com/openai/v1', [
    model('openai/gpt-oss-120b', 131.072),
    model('llama-3.3-70b-versatile', 131.072),
  ]),
  remote('mistral', 'https://api.mistral.ai/v1', [model('devstral-medium-latest'), model('mistral-large-latest')], {
    dialect: { streamUsage: false, callIdLength: 9, plainIds: true },
  }),
  remote('xai', 'https://api.x.ai/v1', [model('grok-4', 256, undefined, true), model('grok-code-fast-1', 256)]),
  remote('together', 'https://api.together.xyz/v1', [model('Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8')]),
  remote('fireworks', 'https://api.fireworks.ai/inference/v1', [model('accounts/fireworks/models/deepseek-v3p1')]),
  local('ollama', 'http://127.0.0.1:11434/v1', ['OLLAMA_HOST']),
  local('lmstudio', 'http://127.0.0.1:1234/v1', ['LMSTUDIO_BASE_URL']),
]
