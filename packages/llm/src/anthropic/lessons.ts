/**
 * What a provider's refusals teach about its models. They are newer than what is written here, gateways know less than
 * the API itself, and each knows its own limits: a request that is refused for such a thing is said in another way.
 */

import type { AssistantMessage, Message } from '../message.ts'
import type { LlmRequest } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import { BUDGETS, type ThinkingMode, type Traits, traitsOf } from './models.ts'

export class Lessons {
  /** The provider knows no cache marks. */
  private noCache = false
  /** By the last message: of requests in which they were wrong, by a provider that may know them. */
  private readonly unmarked = new WeakSet<Message>()
  private readonly mode: ThinkingMode | undefined
  private readonly learned = new Map<string, Partial<Traits>>()
  private readonly base = new Map<string, Traits>()
  private readonly limits = new Map<string, number>()
  private readonly refused = new WeakSet<AssistantMessage>()
  /** By the last message: of turns that began without a thought. */
  private readonly silenced = new WeakSet<Message>()

  /** `mode`: as the configuration says, for all models. */
  constructor(mode: ThinkingMode | undefined) {
    this.mode = mode
  }

  traits(model: string): Traits {
    let traits = this.base.get(model)
    if (!traits) {
      traits = { ...traitsOf(model), ...modeTraits(this.mode, model), ...this.learned.get(model) }
      this.base.set(model, traits)
    }
    return traits
  }

  maxTokens(model: string): number | undefined {
    return this.limits.get(model)
  }

  trusts(message: AssistantMessage): boolean {
    return !this.refused.has(message)
  }

  silences({ messages }: LlmRequest): boolean {
    const last = messages[messages.length - 1]
    return last !== undefined && this.silenced.has(last)
  }

  marks({ messages }: LlmRequest): boolean {
    const last = messages[messages.length - 1]
    return !this.noCache && !(last && this.unmarked.has(last))
  }

  /** True when something was learned. `sent`: the `max_tokens` of the refused request. */
  learn(request: LlmRequest, { message, codes }: ProviderError, sent: number): boolean {
    const { model, messages, effort } = request
    if (!codes.includes('invalid_request_error') && codes.length) return false
    const { bound, samples, prefill, mode } = this.traits(model)
    // What is too much for the window is for compaction to mend.
    if (/max_tokens/.test(message) && !/context|input|prompt/.test(message)) {
      const limit = limitIn(message, sent)
      if (limit !== undefined) this.limits.set(model, limit)
      return limit !== undefined
    }
    if (/signature|bound to a different|thinking.{0,40}blocks?.{0,60}(cannot be modified|invalid)/i.test(message)) {
      return this.distrust(messages)
    }
    if (/Expected .?thinking.? or .?redacted_thinking/.test(message)) {
      const last = messages[messages.length - 1]
      const news = last !== undefined && !this.silenced.has(last)
      if (news) this.silenced.add(last)
      return news
    }
    if (/block_binding|thinking-binding|anthropic-beta/.test(message))
      return bound && this.teach(model, { bound: false })
    if (/temperature/.test(message)) return samples && this.teach(model, { samples: false })
    if (/prefill|must end with a user message/.test(message)) return prefill && this.teach(model, { prefill: false })
    if (/cache_control/.test(message)) return this.unmark(request, message)
    // An effort is asked for in the other way, where that has it too; without it nothing is.
    if (!effort || effort === 'none' || this.learned.get(model)?.mode !== undefined) return false
    if (mode === 'budget' && /thinking\.type\.enabled/.test(message))
      return this.teach(model, modeTraits('adaptive', model))
    if (mode !== 'adaptive' || !/adaptive|output_config/.test(message) || BUDGETS[effort] === undefined) return false
    return this.teach(model, modeTraits('budget', model))
  }

  /** Too many marks, or one in the wrong place, say nothing of the next request; without marks all are ten times dearer. */
  private unmark(request: LlmRequest, message: string): boolean {
    if (!this.marks(request)) return false
    const last = request.messages[request.messages.length - 1]
    if (UNKNOWN_FIELD.test(message) || !last) this.noCache = true
    else this.unmarked.add(last)
    return true
  }

  private teach(model: string, traits: Partial<Traits>): boolean {
    this.learned.set(model, { ...this.learned.get(model), ...traits })
    this.base.delete(model)
    return true
  }

  /** Their thoughts were somebody else's, or what stood before them has changed. */
  private distrust(messages: LlmRequest['messages']): boolean {
    let news = false
    for (const message of messages) {
      if (message.role !== 'assistant' || this.refused.has(message)) continue
      if (!message.content.some(block => block.type === 'reasoning' && block.replay !== undefined)) continue
      this.refused.add(message)
      news = true
    }
    return news
  }
}

const UNKNOWN_FIELD =
  /extra inputs|not (permitted|allowed|supported|recognized)|unsupported|unknown|unrecognized|unexpected|does not support/i

function modeTraits(mode: ThinkingMode | undefined, model: string): Partial<Traits> {
  const known = traitsOf(model)
  if (mode === undefined || mode === known.mode) return {}
  if (mode === 'none') return { mode, efforts: [], byDefault: false, bound: false }
  if (mode === 'budget') return { mode, efforts: Object.keys(BUDGETS), byDefault: false, bound: false }
  return { mode, efforts: known.claude ? known.efforts : undefined, prefill: false }
}

/** The limit that a refusal of `max_tokens` names: the largest number below what was sent. */
function limitIn(message: string, sent: number): number | undefined {
  const numbers = [...message.matchAll(/\d[\d_,]*/g)].map(([text]) => Number(text.replace(/[_,]/g, '')))
  const below = numbers.filter(value => value >= 256 && value < sent)
  return below.length ? Math.max(...below) : undefined
}
