/** The providers that need no configuration: where they are, which variable holds the key, how they differ. */

import type { ProviderEntry } from '../web/provider.ts'
import { DIALECT, type Dialect, type ModelQuirk, SKIP_SIGNATURE } from './dialect.ts'

export interface Preset extends ProviderEntry {
  readonly dialect: Dialect
}

type More = Partial<Omit<Preset, 'dialect' | 'models'>> & { dialect?: Partial<Dialect> }

function remote(provider: string, baseURL: string, models: readonly string[], more: More = {}): Preset {
  const prefix = provider.toUpperCase().replace(/[^A-Z0-9]+/g, '_')
  return {
    provider,
    baseURL,
    keys: [`${prefix}_API_KEY`],
    bases: [`${prefix}_BASE_URL`],
    kind: 'remote',
    ...more,
    models: models.map(id => ({ id })),
    dialect: { ...DIALECT, ...more.dialect },
  }
}

const local = (provider: string, baseURL: string, more: More) =>
  remote(provider, baseURL, [], { kind: 'local', path: '/v1', ...more })

/** Reasons by itself: told by a developer, and refusing what would steer its sampling. */
const OPENAI_MODELS: readonly ModelQuirk[] = [
  {
    pattern: /^(o[1-9]|gpt-[5-9](?!.*-chat)|codex-)/,
    dialect: { systemRole: 'developer', refuses: ['temperature', 'stop'] },
  },
  { pattern: /^(gpt-[34]|chatgpt|gpt-[5-9].*-chat)/, dialect: { effort: 'none' } },
]

/** In the order in which `auto` tries them. */
export const PRESETS: readonly Preset[] = [
  remote(
    'openai',
    'https://api.openai.com/v1',
    ['gpt-5', 'gpt-5-mini', 'gpt-5-nano', 'gpt-5.6', 'gpt-5.5', 'gpt-4.1', 'gpt-4.1-mini', 'gpt-4o'],
    {
      dialect: {
        maxTokensKey: 'max_completion_tokens',
        cacheKey: true,
        thinkTags: false,
        models: OPENAI_MODELS,
      },
    },
  ),
  remote('deepseek', 'https://api.deepseek.com', ['deepseek-flash', 'deepseek-v4-pro'], {
    dialect: { reasoningKey: 'reasoning_content', effort: 'thinking+reasoning_effort', thinkTags: false },
  }),
  remote(
    'gemini',
    'https://generativelanguage.googleapis.com/v1beta/openai',
    ['gemini-3.8-flash', 'gemini-3.1-pro-preview', 'gemini-2.5-pro', 'gemini-2.5-flash'],
    {
      keys: ['GEMINI_API_KEY', 'GOOGLE_API_KEY'],
      images: { mediaTypes: ['image/png', 'image/jpeg', 'image/webp'] },
      dialect: {
        thinkTags: false,
        effort: 'none',
        schema: 'subset',
        models: [
          { pattern: /^gemini-(2\.5|[3-9])|^gemini-.*latest/, dialect: { effort: 'reasoning_effort' } },
          { pattern: /^gemini-[3-9]|^gemini-.*latest/, dialect: { unsignedCall: SKIP_SIGNATURE } },
        ],
      },
    },
  ),
  remote(
    'openrouter',
    'https://openrouter.ai/api/v1',
    ['anthropic/claude-sonnet-4.5', 'openai/gpt-5', 'google/gemini-2.5-pro'],
    { dialect: { effort: 'reasoning', reasoningKey: 'reasoning', thinkTags: false, costInUsage: true, models: [] } },
  ),
  remote('groq', 'https://api.groq.com/openai/v1', ['openai/gpt-oss-120b', 'openai/gpt-oss-20b'], {
    // A request with an image may hold 4 MB, words included.
    images: { maxCount: 5, maxBase64: 3 * 2 ** 20 },
    dialect: {
      maxTokensKey: 'max_completion_tokens',
      effort: 'none',
      models: [{ pattern: /^gpt-oss/, dialect: { effort: 'reasoning_effort', reasoningKey: 'reasoning' } }],
    },
  }),
  remote(
    'mistral',
    'https://api.mistral.ai/v1',
    ['mistral-medium-latest', 'mistral-large-latest', 'codestral-latest', 'mistral-small-latest'],
    {
      images: { maxCount: 8 },
      dialect: {
        streamUsage: false,
        callIdLength: 9,
        plainIds: true,
        thinkTags: false,
        effort: 'none',
        models: [
          {
            pattern: /^(magistral-|mistral-(small-(latest|2603)|medium-(latest|2604|3[.-]5)|large-4))/,
            dialect: { effort: 'reasoning_effort', reasoningKey: 'thinking' },
          },
        ],
      },
    },
  ),
  remote('xai', 'https://api.x.ai/v1', ['grok-4.7', 'grok-4.5', 'grok-4.3'], {
    images: { mediaTypes: ['image/png', 'image/jpeg'] },
    dialect: {
      thinkTags: false,
      effort: 'none',
      models: [
        { pattern: /^grok-(3-mini|[4-9]|code|latest|build)/, dialect: { refuses: ['stop'] } },
        // Grok 4, 4.1 and 4.20 reason as they like and refuse to be told.
        { pattern: /^grok-(3-mini|4\.[3-9](?!\d)|[5-9]|latest)/, dialect: { effort: 'reasoning_effort' } },
      ],
    },
  }),
  remote('together', 'https://api.together.xyz/v1', ['moonshotai/Kimi-K2.6', 'deepseek-ai/DeepSeek-V4-Pro'], {
    dialect: { reasoningKey: 'reasoning' },
  }),
  remote(
    'fireworks',
    'https://api.fireworks.ai/inference/v1',
    ['accounts/fireworks/models/kimi-k2p6', 'accounts/fireworks/models/gpt-oss-120b'],
    { dialect: { reasoningKey: 'reasoning_content' } },
  ),
  remote('moonshot', 'https://api.moonshot.ai/v1', ['kimi-k2.6', 'kimi-k3'], {
    dialect: {
      reasoningKey: 'reasoning_content',
      thinkTags: false,
      models: [
        { pattern: /^kimi-/, dialect: { refuses: ['temperature'] } },
        { pattern: /^kimi-k2/, dialect: { effort: 'thinking' } },
      ],
    },
  }),
  remote('zai', 'https://api.z.ai/api/paas/v4', ['glm-5.1', 'glm-4.7', 'glm-4.6'], {
    keys: ['ZAI_API_KEY', 'ZHIPU_API_KEY'],
    dialect: { reasoningKey: 'reasoning_content', effort: 'thinking', thinkTags: false, streamUsage: false },
  }),
  remote('cerebras', 'https://api.cerebras.ai/v1', ['gpt-oss-120b', 'zai-glm-4.7'], {
    dialect: {
      maxTokensKey: 'max_completion_tokens',
      effort: 'none',
      models: [{ pattern: /^(gpt-oss|zai-glm)/, dialect: { effort: 'reasoning_effort' } }],
    },
  }),
  remote('nvidia', 'https://integrate.api.nvidia.com/v1', ['openai/gpt-oss-120b']),
  local('ollama', 'http://127.0.0.1:11434/v1', {
    bases: ['OLLAMA_HOST'],
    alsoLists: ['api/ps'],
    dialect: { reasoningKey: 'reasoning' },
  }),
  local('lmstudio', 'http://127.0.0.1:1234/v1', { alsoLists: ['api/v0/models'] }),
  // Their usual ports are those of half the servers of this world: they are asked only when somebody names them.
  local('vllm', 'http://127.0.0.1:8000/v1', {
    kind: 'named',
    dialect: { reasoningKey: 'reasoning', effort: 'template' },
  }),
  local('llama.cpp', 'http://127.0.0.1:8080/v1', {
    kind: 'named',
    dialect: { reasoningKey: 'reasoning_content', effort: 'template' },
  }),
]
