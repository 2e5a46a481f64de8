/** How providers differ that speak chat completions. Each field is one that a provider really needs. */

import type { JsonObject } from '@cambium/core'

export const EFFORT_SPELLINGS = [
  'reasoning_effort',
  'reasoning',
  'thinking',
  'thinking+reasoning_effort',
  'template',
  'none',
] as const
export const REASONING_KEYS = ['reasoning_content', 'reasoning', 'thinking', 'none'] as const

export interface Dialect {
  /** Name of the output limit; OpenAI's reasoning models refuse the older one. */
  readonly maxTokensKey: 'max_tokens' | 'max_completion_tokens'
  /** Asks for usage with `stream_options`; some refuse that and send it anyway. */
  readonly streamUsage: boolean
  /** Who says the system prompt. */
  readonly systemRole: 'system' | 'developer'
  /** Fields that are left out, since the request would be refused. */
  readonly refuses: readonly ('temperature' | 'stop')[]
  /**
   * How the reasoning of a message goes back to the provider that made it: by a key of the message, or as `thinking`
   * parts of its content. DeepSeek demands `reasoning_content` on every message with calls, '' where nothing was thought.
   * `none`: it refuses any, or makes nothing of it.
   */
  readonly reasoningKey: (typeof REASONING_KEYS)[number]
  /** A text that begins with `<think>` is reasoning up to `</think>`: what servers without a parser pass on. */
  readonly thinkTags: boolean
  /**
   * `reasoning_effort`, the usual one · `reasoning: { effort }` · `thinking: { type: enabled|disabled }`, alone or with
   * `reasoning_effort` · `chat_template_kwargs` of a server of open weights · not at all.
   */
  readonly effort: (typeof EFFORT_SPELLINGS)[number]
  /** Sends the session's id, by which the provider finds its prompt cache. */
  readonly cacheKey: boolean
  /** Longest call id; a longer one is replaced by a digest. Exactly that many letters and digits where `plainIds`. */
  readonly callIdLength: number
  readonly plainIds: boolean
  /** `subset`: tool schemas without references and without what OpenAPI 3.0 does not know. */
  readonly schema: 'full' | 'subset'
  /** Stands with the first call of a message that the model did not make itself, where calls must be signed. */
  readonly unsignedCall?: JsonObject
  /** `usage.cost` is what the provider charges, in US dollars. */
  readonly costInUsage: boolean
  /** What differs for some of its models; of rows that fit, later ones win. */
  readonly models: readonly ModelQuirk[]
}

/** What Google takes in place of the signature of a call that no model of its own has made. */
export const SKIP_SIGNATURE: JsonObject = {
  extra_content: { google: { thought_signature: 'skip_thought_signature_validator' } },
}

export interface ModelQuirk {
  /** Of the model's name in lower case, without the path before it. */
  readonly pattern: RegExp
  readonly dialect: Partial<Omit<Dialect, 'models'>>
}

/** What a server takes of which nothing is known. */
export const DIALECT: Dialect = {
  maxTokensKey: 'max_tokens',
  streamUsage: true,
  systemRole: 'system',
  refuses: [],
  reasoningKey: 'none',
  thinkTags: true,
  effort: 'reasoning_effort',
  cacheKey: false,
  callIdLength: 40,
  plainIds: false,
  schema: 'full',
  costInUsage: false,
  // Wherever they are served.
  models: [
    {
      pattern: /^(o[1-9]|gpt-[5-9](?!.*-chat))(-|\.|$)/,
      dialect: { maxTokensKey: 'max_completion_tokens', refuses: ['temperature', 'stop'] },
    },
  ],
}

/** The dialect for one model. `settings` are what a person has set; they win. */
export function dialectFor(dialect: Dialect, model: string, settings: Partial<Dialect> = {}): Dialect {
  const name = model.toLowerCase().replace(/^.*\//, '')
  const quirks = dialect.models.filter(({ pattern }) => pattern.test(name)).map(quirk => quirk.dialect)
  return Object.assign({}, dialect, ...quirks, settings) as Dialect
}

/** The fields that say an effort. `none` turns reasoning off where that has a spelling of its own. */
export function effortFields(spelling: Dialect['effort'], effort: string | undefined): JsonObject {
  if (!effort) return {}
  const on = effort !== 'none'
  switch (spelling) {
    case 'reasoning_effort':
      return { reasoning_effort: effort }
    case 'reasoning':
      return { reasoning: { effort } }
    case 'thinking':
      return { thinking: { type: on ? 'enabled' : 'disabled' } }
    case 'thinking+reasoning_effort':
      return { thinking: { type: on ? 'enabled' : 'disabled' }, ...(on ? { reasoning_effort: effort } : {}) }
    case 'template':
      // gpt-oss reads the one, Qwen and DeepSeek the other; a template ignores what it does not name.
      return on
        ? { reasoning_effort: effort, chat_template_kwargs: { enable_thinking: true, reasoning_effort: effort } }
        : { chat_template_kwargs: { enable_thinking: false } }
    case 'none':
      return {}
  }
}
