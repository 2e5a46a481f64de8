/** How many tokens something has, roughly, and what a request cost. */

import type { JsonObject } from '@cambium/core'
import type { ContentBlock, Message } from './message.ts'
import type { ModelInfo, TokenUsage, ToolSchema } from './stream.ts'

/** Providers scale pictures down to about this, whatever their size. */
const IMAGE_TOKENS = 1_200
/** Role, separators and what else surrounds a message. */
const MESSAGE_TOKENS = 4

/**
 * Tokens of a text, estimated from its characters without a vocabulary: words of a Latin script count a quarter token a
 * character, digits and punctuation more, other alphabets half a token, and Chinese, Japanese and Korean one each.
 */
export function estimateTokens(text: string): number {
  let quarters = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= 0x2e80) quarters += 4
    else if (code >= 0x80) quarters += 2
    else if (code === 32 || (code >= 97 && code <= 122) || (code >= 65 && code <= 90)) quarters += 1
    else quarters += 1.6
  }
  return Math.ceil(quarters / 4)
}

const counted = new WeakMap<object, number>()

function remembered<T extends object>(value: T, count: (value: T) => number): number {
  let tokens = counted.get(value)
  if (tokens === undefined) {
    tokens = count(value)
    counted.set(value, tokens)
  }
  return tokens
}

/** Tokens of a message or of several; each is counted once in its life. */
export function estimateMessages(messages: readonly Message[]): number {
  let sum = 0
  for (const message of messages) {
    sum += remembered(message, ({ content }) => {
      return content.reduce((tokens, block) => tokens + blockTokens(block), MESSAGE_TOKENS)
    })
  }
  return sum
}

function blockTokens(block: ContentBlock): number {
  switch (block.type) {
    case 'text':
    case 'reasoning':
      return estimateTokens(block.text)
    case 'image':
      return IMAGE_TOKENS
    case 'tool-call':
      return estimateTokens(block.name) + estimateTokens(block.arguments) + MESSAGE_TOKENS
    case 'tool-result':
      return block.content.reduce((tokens, item) => tokens + blockTokens(item), MESSAGE_TOKENS)
  }
}

export function estimateTools(tools: readonly ToolSchema[]): number {
  let sum = 0
  for (const tool of tools) {
    const { name, description, parameters } = tool
    const text = (schema: JsonObject) => name + description + JSON.stringify(schema)
    sum += remembered(tool, () => estimateTokens(text(parameters)) + MESSAGE_TOKENS)
  }
  return sum
}

/** Input tokens of a whole request. */
export function estimateRequest(request: {
  readonly system?: string
  readonly messages: readonly Message[]
  readonly tools?: readonly ToolSchema[]
}): number {
  const { system = '', messages, tools = [] } = request
  return estimateTokens(system) + estimateMessages(messages) + estimateTools(tools)
}

/** US dollars: what the provider says that it charges, else by the model's price, else undefined. */
export function price(usage: TokenUsage, info: ModelInfo | undefined): number | undefined {
  if (usage.cost !== undefined) return usage.cost
  const prices = info?.price
  if (!prices) return undefined
  const { input, output, cacheRead = input, cacheWrite = input } = prices
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens } = usage
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
