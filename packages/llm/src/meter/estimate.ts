/** How many tokens something has, roughly, without asking anybody and without a vocabulary. */

import type { ImageSize } from '../image/size.ts'
import type { ContentBlock, Message } from '../message.ts'
import type { ToolSchema } from '../stream.ts'
import { type Features, featuresOf } from './features.ts'
import { imageTokens, sizeOf } from './image-tokens.ts'
import { tokensOf, type Vocabulary, vocabularyOf } from './vocabulary.ts'

/** Role, separators and what else surrounds a message, a call, a result or a tool. */
const FRAME_TOKENS = 4

/** What was seen of something once in its life, and what it comes to in each vocabulary that was asked for. */
class Counted {
  private features: Features | undefined
  private readonly images: (ImageSize | undefined)[] = []
  private frames = 0
  private readonly tokens: Partial<Record<Vocabulary, number>> = {}

  frame(): this {
    this.frames++
    return this
  }

  text(text: string): this {
    const found = featuresOf(text)
    if (!this.features) this.features = found
    else for (let at = 0; at < found.length; at++) this.features[at]! += found[at]!
    return this
  }

  block(block: ContentBlock): this {
    switch (block.type) {
      case 'text':
      case 'reasoning':
        return this.text(block.text)
      case 'image':
        this.images.push(sizeOf(block))
        return this
      case 'tool-call':
        return this.frame().text(block.name).text(block.arguments)
      case 'tool-result':
        this.frame()
        for (const item of block.content) this.block(item)
        return this
    }
  }

  in(vocabulary: Vocabulary): number {
    let tokens = this.tokens[vocabulary]
    if (tokens === undefined) {
      tokens = this.frames * FRAME_TOKENS + (this.features ? tokensOf(this.features, vocabulary) : 0)
      for (const size of this.images) tokens += imageTokens(size, vocabulary)
      this.tokens[vocabulary] = tokens
    }
    return tokens
  }
}

const counted = new WeakMap<object, Counted>()
function remembered<T extends object>(value: T, count: (value: T) => Counted): Counted {
  let known = counted.get(value)
  if (!known) {
    known = count(value)
    counted.set(value, known)
  }
  return known
}

/** A system prompt is asked about at each step and seldom changes. */
const MAX_TEXTS = 16
const texts = new Map<string, Counted>()
function rememberedText(text: string): Counted {
  let known = texts.get(text)
  if (!known) {
    if (texts.size >= MAX_TEXTS) texts.delete(texts.keys().next().value!)
    known = new Counted().text(text)
    texts.set(text, known)
  }
  return known
}

const countMessage = ({ content }: Message) => {
  const of = new Counted().frame()
  for (const block of content) of.block(block)
  return of
}
const countTool = ({ name, description, parameters }: ToolSchema) =>
  new Counted().frame().text(name).text(description).text(JSON.stringify(parameters))

export const messageTokens = (message: Message, vocabulary: Vocabulary) =>
  remembered(message, countMessage).in(vocabulary)
export const toolTokens = (tool: ToolSchema, vocabulary: Vocabulary) => remembered(tool, countTool).in(vocabulary)
export const systemTokens = (system: string | undefined, vocabulary: Vocabulary) =>
  system ? rememberedText(system).in(vocabulary) : 0

/** What a request holds that costs tokens. */
export interface RequestParts {
  readonly system?: string
  readonly tools?: readonly ToolSchema[]
  readonly messages: readonly Message[]
}

/** Not rounded, and not calibrated. */
export function requestTokens({ system, tools = [], messages }: RequestParts, vocabulary: Vocabulary): number {
  let sum = systemTokens(system, vocabulary)
  for (const tool of tools) sum += toolTokens(tool, vocabulary)
  for (const message of messages) sum += messageTokens(message, vocabulary)
  return sum
}

/** Tokens of a text for a model, or for one that is not known; within 15 % of what its vocabulary has, as a rule. */
export function estimateTokens(text: string, model = ''): number {
  return Math.round(tokensOf(featuresOf(text), vocabularyOf(model)))
}

/** Tokens of messages; each is looked at once in its life. */
export function estimateMessages(messages: readonly Message[], model = ''): number {
  return Math.round(requestTokens({ messages }, vocabularyOf(model)))
}

export function estimateTools(tools: readonly ToolSchema[], model = ''): number {
  return Math.round(requestTokens({ tools, messages: [] }, vocabularyOf(model)))
}

/** Input tokens of a whole request, without what is known of the model from its own counts: `ctx.llm.meter` has that. */
export function estimateRequest(request: RequestParts, model = ''): number {
  return Math.round(requestTokens(request, vocabularyOf(model)))
}
