/** How many tokens something has, and what a request cost. */

import type { ModelInfo, TokenUsage } from './stream.ts'

export {
  estimateMessages,
  estimateRequest,
  estimateTokens,
  estimateTools,
  type RequestParts,
} from './meter/estimate.ts'
export { type Measurement, type MeterAnchor, type MeterInput, TokenMeter } from './meter/token-meter.ts'

/** US dollars of one request: what the provider says that it charges, else by the model's price, else undefined. */
export function price(usage: TokenUsage, info: ModelInfo | undefined): number | undefined {
  if (usage.cost !== undefined) return usage.cost
  const prices = info?.price
  if (!prices) return undefined
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = usage
  const long = prices.above && inputTokens + cacheReadTokens + cacheWriteTokens > prices.above.tokens
  const { input, output, cacheRead = input, cacheWrite = input } = long ? prices.above : prices
  const micro =
    inputTokens * input + cacheReadTokens * cacheRead + cacheWriteTokens * cacheWrite + outputTokens * output
  return micro / 1_000_000
}

export function addUsage(a: TokenUsage | undefined, b: TokenUsage): TokenUsage {
  if (!a) return b
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    cacheReadTokens: a.cacheReadTokens + b.cacheReadTokens,
    cacheWriteTokens: a.cacheWriteTokens + b.cacheWriteTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    // A sum that lacks a part would be told as the whole.
    ...(a.cost === undefined || b.cost === undefined ? {} : { cost: a.cost + b.cost }),
  }
}
