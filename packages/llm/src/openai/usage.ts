/** What an answer cost, as servers of chat completions count it. */

import type { TokenUsage } from '../stream.ts'
import { countOf, isRecord } from '../web/value.ts'

/** Counts made disjoint: a provider's prompt count includes what its cache gave. */
export function readUsage(usage: Record<string, unknown>, costInUsage: boolean): TokenUsage {
  const prompt = countOf(usage['prompt_tokens'])
  const input = isRecord(usage['prompt_tokens_details']) ? usage['prompt_tokens_details'] : {}
  const output = isRecord(usage['completion_tokens_details']) ? usage['completion_tokens_details'] : {}
  // OpenAI's place, DeepSeek's, Moonshot's, Mistral's.
  const cached =
    input['cached_tokens'] ?? usage['prompt_cache_hit_tokens'] ?? usage['cached_tokens'] ?? usage['num_cached_tokens']
  const cacheReadTokens = Math.min(prompt, countOf(cached))
  const cacheWriteTokens = Math.min(
    prompt - cacheReadTokens,
    countOf(input['cache_write_tokens'] ?? usage['cache_creation_input_tokens']),
  )
  // Some count reasoning into the answer, some beside it; the total tells.
  const outputTokens = Math.max(countOf(usage['completion_tokens']), countOf(usage['total_tokens']) - prompt)
  const { cost } = usage
  return {
    inputTokens: prompt - cacheReadTokens - cacheWriteTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: Math.min(outputTokens, countOf(output['reasoning_tokens'] ?? usage['reasoning_tokens'])),
    ...(costInUsage && typeof cost === 'number' && cost >= 0 ? { cost } : {}),
  }
}
