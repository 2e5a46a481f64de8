/** What a request says of thinking, and how much the answer may hold with it. */

import type { JsonObject } from '@cambium/core'
import type { AssistantMessage, ReasoningBlock } from '../message.ts'
import type { LlmRequest } from '../stream.ts'
import { LlmError } from '../web/failure.ts'
import { isRecord } from '../web/value.ts'
import { BUDGETS, type Traits } from './models.ts'

/** The thoughts that go back with a message: none, those with a signature, or all that the provider has sent. */
export type Thoughts = 'none' | 'signed' | 'all'

export interface Plan {
  readonly on: boolean
  readonly thoughts: Thoughts
  readonly maxTokens: number
  /** Fields of the request: `thinking`, `output_config`. */
  readonly fields: JsonObject
}

/** What a block of this protocol keeps for its way back. Another shape is somebody else's. */
export type Replay =
  | { readonly type: 'thinking'; readonly signature: string }
  | { readonly type: 'redacted_thinking'; readonly data: string }

export function replayOf({ replay }: ReasoningBlock): Replay | undefined {
  if (!isRecord(replay)) return undefined
  const { type, signature, data } = replay as Record<string, unknown>
  if (type === 'thinking' && typeof signature === 'string') return { type, signature }
  return type === 'redacted_thinking' && typeof data === 'string' ? { type, data } : undefined
}

/** A thought without a signature was interrupted, or its provider signs none. */
export function goesBack(replay: Replay | undefined, thoughts: Thoughts): replay is Replay {
  if (!replay || thoughts === 'none') return false
  return thoughts === 'all' || replay.type === 'redacted_thinking' || replay.signature !== ''
}

/** The API takes no budget below this. */
const MIN_BUDGET = 1_024
/** What an answer keeps beside its thoughts, however small the model's limit. */
const MIN_ANSWER = 1_024
/** Thoughts of a model that measures them itself, where the caller had only the answer in mind. */
const ADAPTIVE_ROOM = 4_096

export interface Limits {
  /** Most tokens of one answer, if known. */
  readonly limit: number | undefined
  /** Taken where the request names none. */
  readonly usual: number
  /** False for messages whose thoughts the provider has refused. */
  readonly trusted: (message: AssistantMessage) => boolean
  /** The provider has refused to think in the turn that is open. */
  readonly thoughtless: boolean
}

/** @throws LlmError `UNSUPPORTED_OPTION` for an effort that the model does not have. */
export function planOf(request: LlmRequest, traits: Traits, limits: Limits): Plan {
  const { limit, usual, trusted, thoughtless } = limits
  const thoughts = traits.claude ? 'signed' : 'all'
  const asked = Math.max(1, request.maxTokens ?? limit ?? usual)
  const within = (tokens: number) => Math.min(tokens, limit ?? tokens)
  const silent = (fields: JsonObject = {}): Plan => ({ on: false, thoughts: 'none', maxTokens: within(asked), fields })
  const own = request.providerOptions?.['thinking']
  if (isRecord(own)) {
    const on = own['type'] !== 'disabled'
    return { on, thoughts: on ? thoughts : 'none', maxTokens: within(asked), fields: {} }
  }
  const { effort } = request
  if (effort === 'none') {
    if (traits.off === undefined) throw unsupported(request, traits)
    return silent(traits.off === 'absent' ? {} : { thinking: { type: traits.off } })
  }
  if (!effort && !traits.byDefault) return silent()
  if (effort && (traits.mode === 'none' || (traits.efforts && !traits.efforts.includes(effort)))) {
    throw unsupported(request, traits)
  }
  if (traits.mode === 'adaptive') {
    const thinking: JsonObject = {
      type: 'adaptive',
      ...(traits.hides ? { display: 'summarized' } : {}),
      // Compaction, a reloaded tool, another instruction: what stands before a thought does change in a session.
      ...(traits.bound ? { block_binding: { prefix_mismatch_behavior: 'drop_block' } } : {}),
    }
    const maxTokens = within(asked < ADAPTIVE_ROOM ? asked + ADAPTIVE_ROOM : asked)
    return { on: true, thoughts, maxTokens, fields: { thinking, ...(effort ? { output_config: { effort } } : {}) } }
  }
  // With a budget, a turn that is still open must have begun with a thought of its own.
  if (thoughtless || !turnBeginsThinking(request, thoughts, trusted)) return silent()
  const wanted = BUDGETS[effort!]!
  const maxTokens = within(asked < wanted + MIN_ANSWER ? wanted + asked : asked)
  const budget = Math.min(wanted, maxTokens - Math.min(asked, MIN_ANSWER))
  if (budget < MIN_BUDGET) throw unsupported(request, { ...traits, efforts: [] })
  return { on: true, thoughts, maxTokens, fields: { thinking: { type: 'enabled', budget_tokens: budget } } }
}

/** A turn goes from what a person said last over all calls and results. One that has not begun may begin so. */
function turnBeginsThinking({ messages }: LlmRequest, thoughts: Thoughts, trusted: Limits['trusted']): boolean {
  let first: AssistantMessage | undefined
  for (let at = messages.length - 1; at >= 0; at--) {
    const message = messages[at]!
    if (message.role !== 'assistant') continue
    const joins = messages[at + 1]?.role === 'assistant'
    if (!joins && !message.content.some(block => block.type === 'tool-call')) break
    first = message
  }
  if (!first) return true
  const [block] = first.content
  return block?.type === 'reasoning' && trusted(first) && goesBack(replayOf(block), thoughts)
}

function unsupported({ provider, model, effort }: LlmRequest, { efforts, off, mode }: Traits): LlmError {
  const known = [...(off === undefined ? [] : ['none']), ...(mode === 'none' ? [] : (efforts ?? []))]
  const has = known.filter(name => name !== 'none').length > 0
  return new LlmError({
    code: 'UNSUPPORTED_OPTION',
    message: has ? `${provider}/${model} has no effort "${effort}"` : `${provider}/${model} cannot think on demand`,
    fix: has ? `choose one of ${known.join(', ')}, or none at all` : 'choose no effort, or another model',
  })
}
