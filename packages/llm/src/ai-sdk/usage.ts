import type { TokenUsage } from '../stream.ts'
import { isRecord } from '../web/value.ts'

/** Counts made disjoint; undefined where the provider gave none. */
export function readUsage(usage: unknown, metadata: unknown): TokenUsage | undefined {
  if (!isRecord(usage)) return undefined
  const { inputTokens: input, outputTokens: output } = usage
  if (isRecord(input) || isRecord(output)) return split(isRecord(input) ? input : {}, isRecord(output) ? output : {})
  if (!isCount(input) && !isCount(output)) return undefined
  return joined(usage, isRecord(metadata) ? metadata : {})
}

/** Since the third version the counts are told apart. */
function split(input: Record<string, unknown>, output: Record<string, unknown>): TokenUsage | undefined {
  if (![...Object.values(input), ...Object.values(output)].some(isCount)) return undefined
  const cacheReadTokens = countOf(input['cacheRead'])
  const cacheWriteTokens = countOf(input['cacheWrite'])
  const fresh = Math.max(0, countOf(input['total']) - cacheReadTokens - cacheWriteTokens)
  const reasoning = countOf(output['reasoning'])
  const outputTokens = isCount(output['total']) ? countOf(output['total']) : countOf(output['text']) + reasoning
  return {
    inputTokens: isCount(input['noCache']) ? countOf(input['noCache']) : fresh,
    outputTokens,
    cacheReadTokens,
    cacheWriteTokens,
    reasoningTokens: Math.min(outputTokens, reasoning),
  }
}

/** The second version leaves open whether the input count includes what the cache gave: these say it without. */
const APART = ['anthropic', 'bedrock']

function joined(usage: Record<string, unknown>, metadata: Record<string, unknown>): TokenUsage {
  const all = countOf(usage['inputTokens'])
  const read = countOf(usage['cachedInputTokens'])
  const apart = read > all || APART.some(name => name in metadata)
  const outputTokens = countOf(usage['outputTokens'])
  return {
    inputTokens: apart ? all : all - read,
    outputTokens,
    cacheReadTokens: read,
    cacheWriteTokens: writtenIn(metadata),
    reasoningTokens: Math.min(outputTokens, countOf(usage['reasoningTokens'])),
  }
}

function writtenIn(metadata: Record<string, unknown>): number {
  for (const name of APART) {
    const own = metadata[name]
    if (!isRecord(own)) continue
    const { usage } = own
    return countOf(own['cacheCreationInputTokens'] ?? (isRecord(usage) ? usage['cacheWriteInputTokens'] : undefined))
  }
  return 0
}

const isCount = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)
const countOf = (value: unknown): number => (isCount(value) && value > 0 ? Math.round(value) : 0)
