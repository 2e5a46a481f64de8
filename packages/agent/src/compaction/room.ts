/** How long a request may be: the model's window, what was learnt of it, and what is left for the answer. */

import type { LlmCallConfig, ModelInfo } from '@cambium/llm'
import type { LearnedWindow } from './contract.ts'

export interface Room {
  readonly window: number
  /** Input tokens of a request that leaves room for its answer. */
  readonly limit: number
  /** Above it the conversation is made shorter. */
  readonly threshold: number
}

/** An answer is given as much as it may have, but no model's output limit takes more of its window than this. */
const MOST_OUTPUT = 0.4
/** Where no output limit is known. */
const USUAL_OUTPUT = 0.1
/** Of a size that was refused and no window named: what may be true of the next request. */
const BELOW_REFUSED = 0.9

/** Undefined where nobody knows how long a request may be. */
export function roomOf(
  config: LlmCallConfig,
  info: ModelInfo | undefined,
  learned: LearnedWindow | undefined,
  threshold: number,
): Room | undefined {
  const window = Math.min(info?.contextWindow ?? Number.POSITIVE_INFINITY, learned?.tokens ?? Number.POSITIVE_INFINITY)
  if (!Number.isFinite(window)) return undefined
  if (learned && !learned.exact && learned.tokens === window) {
    // What was refused had its output limit beside it already.
    const limit = Math.floor(window * BELOW_REFUSED)
    return { window, limit, threshold: Math.floor(limit * threshold) }
  }
  const output = Math.min(config.maxTokens ?? info?.maxOutputTokens ?? window * USUAL_OUTPUT, window * MOST_OUTPUT)
  const limit = Math.floor(window - output)
  return { window, limit, threshold: Math.floor(limit * threshold) }
}

const LEAST_WINDOW = 256
const NAMED_LIMIT = [
  />\s*(\d[\d,_]*)/,
  /(?:max(?:imum)?|limit|allowed|window|context (?:size|length))\D{0,60}?(\d[\d,_]*)/i,
  /(\d[\d,_]*)(?:\s*tokens?)?\s*(?:max(?:imum)?|limit)\b/i,
]

/** What the words of a refusal tell: the window, and how long the request was by the provider's count. */
export function readRefusal(message: string): { window?: number; counted?: number } {
  const number = (text: string | undefined) => Number((text ?? '').replace(/[,_]/g, ''))
  let window: number | undefined
  for (const wording of NAMED_LIMIT) {
    const value = number(wording.exec(message)?.[1])
    if (value >= LEAST_WINDOW) {
      window = value
      break
    }
  }
  if (window === undefined) return {}
  const counts = [...message.matchAll(/\d[\d,_]*/g)].map(([text]) => number(text)).filter(count => count > window)
  return { window, ...(counts.length ? { counted: Math.max(...counts) } : {}) }
}
