/** What a refusal tells of a model's dialect, where nothing was known of it: how the same request may be taken. */

import type { LlmRequest } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import { type Dialect, SKIP_SIGNATURE } from './dialect.ts'

interface Rule {
  /** In the words of the refusal, or in the field that it names. */
  readonly says: RegExp
  /** What the dialect is instead; undefined where the request was not about that. */
  readonly then: (dialect: Dialect, request: LlmRequest) => Partial<Dialect> | undefined
}

const MISSING: readonly Rule[] = [
  {
    says: /reasoning_content.{0,80}(must|missing|required)|missing.{0,20}reasoning_content/i,
    then: ({ reasoningKey }) =>
      reasoningKey === 'reasoning_content' ? undefined : { reasoningKey: 'reasoning_content' },
  },
  {
    says: /missing.{0,20}thought_signature/i,
    then: ({ unsignedCall }) => (unsignedCall ? undefined : { unsignedCall: SKIP_SIGNATURE }),
  },
  {
    says: /function_declarations|(invalid|unsupported).{0,40}\bschema\b|\bschema\b.{0,60}(invalid|unsupported|not supported)/i,
    then: ({ schema }, { tools }) => (schema === 'full' && tools?.length ? { schema: 'subset' } : undefined),
  },
]

const UNSUPPORTED =
  /unsupported|not (supported|allowed|permitted|recognized)|unrecognized|unknown (name|field|parameter|argument)|unexpected (field|keyword|parameter)|extra (inputs|fields)|does not (support|accept)|invalid (role|message role)/i

const REFUSED: readonly Rule[] = [
  {
    says: /\btemperature\b/,
    then: ({ refuses }, { temperature }) => refusing(refuses, 'temperature', temperature !== undefined),
  },
  { says: /\bstop\b/, then: ({ refuses }, { stop }) => refusing(refuses, 'stop', stop !== undefined) },
  {
    says: /\b(reasoning_effort|reasoning\.effort|reasoning effort|thinking|chat_template_kwargs)\b/i,
    then: ({ effort: spelling }, { effort }) => (effort && spelling !== 'none' ? { effort: 'none' } : undefined),
  },
  {
    says: /\bmax_tokens\b/,
    then: ({ maxTokensKey }, { maxTokens }) =>
      maxTokens && maxTokensKey === 'max_tokens' ? { maxTokensKey: 'max_completion_tokens' } : undefined,
  },
  {
    says: /\bmax_completion_tokens\b/,
    then: ({ maxTokensKey }, { maxTokens }) =>
      maxTokens && maxTokensKey === 'max_completion_tokens' ? { maxTokensKey: 'max_tokens' } : undefined,
  },
  { says: /\bstream_options\b/, then: ({ streamUsage }) => (streamUsage ? { streamUsage: false } : undefined) },
  { says: /\bprompt_cache_key\b/, then: ({ cacheKey }) => (cacheKey ? { cacheKey: false } : undefined) },
  {
    says: /\bdeveloper\b/,
    then: ({ systemRole }) => (systemRole === 'developer' ? { systemRole: 'system' } : undefined),
  },
  {
    says: /\breasoning_content\b|\breasoning\b/,
    then: ({ reasoningKey }) => (reasoningKey === 'none' ? undefined : { reasoningKey: 'none' }),
  },
]

function refusing(refuses: Dialect['refuses'], field: Dialect['refuses'][number], said: boolean) {
  return said && !refuses.includes(field) ? { refuses: [...refuses, field] } : undefined
}

/** The dialect in which the refused request may be taken; undefined where the refusal is about something else. */
export function amended(dialect: Dialect, request: LlmRequest, refusal: ProviderError): Dialect | undefined {
  const { message, codes, param } = refusal
  const unsupported = UNSUPPORTED.test(message) || codes.some(code => /^unsupported_|^unknown_parameter$/.test(code))
  const rules = unsupported ? [...MISSING, ...REFUSED] : MISSING
  // The field that it names comes first: its words may quote others.
  for (const text of param ? [param, message] : [message]) {
    for (const { says, then } of rules) {
      const change = says.test(text) ? then(dialect, request) : undefined
      if (change) return { ...dialect, ...change }
    }
  }
  return undefined
}
