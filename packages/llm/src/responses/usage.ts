import type { TokenUsage } from '../stream.ts'
import { countOf, isRecord } from '../web/value.ts'

/** Counts made disjoint: the input count includes what the cache gave. */
export function readUsage(usage: Record<string, unknown>): TokenUsage {
  const all = countOf(usage['input_tokens'])
  const input = isRecord(usage['input_tokens_details']) ? usage['input_tokens_details'] : {}
  const output = isRecord(usage['output_tokens_details']) ? usage['output_tokens_details'] : {}
  const cacheReadTokens = Math.min(all, countOf(input['cached_tokens']))
  const cacheWriteTokens = Math.min(all - cacheReadTokens, countOf(input['cache_write_tokens']))
  const outputTokens = countOf(usage['output_tokens'])
  return {
    inputTokens: all - cacheReadTokens - cacheWriteTokens,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: Math.min(outputTokens, countOf(output['reasoning_tokens'])),
  }
}
