/** Reads the chunks of a chat completion. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type { AssistantBlock, ReasoningBlock } from '../message.ts'
import type { FinishReason, LlmFailure, StreamChunk, TokenUsage } from '../stream.ts'
import { AnswerError, type AnswerReader } from '../web/protocol.ts'
import { isRecord, stringOf } from '../web/value.ts'
import { CallAssembler } from './calls.ts'
import type { Dialect } from './dialect.ts'
import { ThinkTags } from './think-tags.ts'
import { readUsage } from './usage.ts'

interface OpenText {
  readonly type: 'text' | 'reasoning'
  readonly index: number
  text: string
  pending: string
  details: JsonObject[]
}

export class CompletionReader implements AnswerReader {
  private out: StreamChunk[] = []
  private open: OpenText | undefined
  private index = 0
  private usage: TokenUsage | undefined
  private reason: string | undefined
  private refused = false
  private spoke = false
  private pictured = false
  /** The block that got the last delta: the one that an output limit cuts. */
  private last: 'text' | 'call' | undefined
  private readonly calls = new CallAssembler(() => this.index++)
  private readonly tags: ThinkTags | undefined
  private readonly costInUsage: boolean

  constructor({ thinkTags, costInUsage }: Pick<Dialect, 'thinkTags' | 'costInUsage'>) {
    this.tags = thinkTags ? new ThinkTags() : undefined
    this.costInUsage = costInUsage
  }

  get finished(): boolean {
    return this.reason !== undefined
  }

  /** By the loop's own end mark, `[DONE]`. */
  readonly ended = false

  whole(body: unknown): boolean {
    if (!isRecord(body) || !Array.isArray(body['choices'])) return false
    this.push(body)
    return true
  }

  push(chunk: unknown): void {
    if (!isRecord(chunk)) return
    const usage = chunk['usage'] ?? (isRecord(chunk['x_groq']) ? chunk['x_groq']['usage'] : undefined)
    if (isRecord(usage)) this.usage = readUsage(usage, this.costInUsage)
    const choices = Array.isArray(chunk['choices']) ? chunk['choices'] : []
    // Some servers count from nothing: the first choice is the answer unless another one says that it is number 0.
    const choice = choices.find(item => isRecord(item) && (item['index'] ?? 0) === 0)
    if (!isRecord(choice)) return
    if (isRecord(choice['error'])) throw new AnswerError(choice['error'])
    const delta = choice['delta'] ?? choice['message']
    if (isRecord(delta)) this.delta(delta)
    if (typeof choice['finish_reason'] === 'string' && choice['finish_reason']) this.reason = choice['finish_reason']
  }

  private delta(delta: Record<string, unknown>) {
    const { content, tool_calls: calls, refusal } = delta
    const details = delta['reasoning_details']
    const thought = stringOf(delta['reasoning_content']) || stringOf(delta['reasoning'])
    if (thought) this.say('reasoning', thought)
    if (Array.isArray(details)) this.detail(details)
    if (typeof content === 'string') this.answer(content)
    else if (Array.isArray(content)) for (const part of content) this.part(part)
    if (Array.isArray(delta['images']) && delta['images'].length) this.pictured = true
    if (typeof refusal === 'string' && refusal) {
      this.refused = true
      this.say('text', refusal)
    }
    if (!Array.isArray(calls) || !calls.length) return
    this.endTags()
    this.closeText()
    this.last = 'call'
    for (const call of calls) if (isRecord(call)) this.calls.push(call)
  }

  /** Content in parts, as models of Mistral send it. */
  private part(part: unknown) {
    if (!isRecord(part)) return
    if (part['type'] === 'text') this.answer(stringOf(part['text']))
    if (part['type'] === 'image_url') this.pictured = true
    if (part['type'] !== 'thinking') return
    const inner = part['thinking']
    if (typeof inner === 'string') this.say('reasoning', inner)
    else if (Array.isArray(inner))
      for (const item of inner) if (isRecord(item)) this.say('reasoning', stringOf(item['text']))
  }

  private answer(text: string) {
    if (!this.tags) this.say('text', text)
    else if (text) for (const said of this.tags.push(text)) this.say(said.type, said.text)
  }

  private endTags() {
    for (const said of this.tags?.end() ?? []) this.say(said.type, said.text)
  }

  /** An empty first delta must not open a block. */
  private say(type: 'text' | 'reasoning', text: string) {
    if (!text) return
    this.last = 'text'
    this.spoke ||= type === 'text' && text.trim() !== ''
    const open = this.openText(type)
    open.text += text
    open.pending += text
  }

  private openText(type: 'text' | 'reasoning'): OpenText {
    if (this.open?.type === type) return this.open
    this.closeText()
    this.open = { type, index: this.index++, text: '', pending: '', details: [] }
    this.out.push({ type: 'block-start', index: this.open.index, blockType: type })
    return this.open
  }

  /** Pieces of one detail carry its index: their texts join, and a signature comes with the last. */
  private detail(details: unknown[]) {
    for (const detail of details) {
      if (!isRecord(detail)) continue
      const list = this.openText('reasoning').details
      const last = list[list.length - 1]
      if (!last || last['type'] !== detail['type'] || last['index'] !== detail['index']) {
        list.push({ ...(detail as JsonObject) })
        continue
      }
      const merged: Record<string, JsonValue | undefined> = { ...last }
      for (const [key, value] of Object.entries(detail as JsonObject)) {
        const joins = key === 'text' || key === 'summary' || key === 'data'
        if (joins && typeof value === 'string') merged[key] = stringOf(merged[key]) + value
        else if (value !== null && value !== undefined) merged[key] = value
      }
      list[list.length - 1] = merged
    }
  }

  flush(): StreamChunk[] {
    this.flushText()
    this.out.push(...this.calls.flush())
    const out = this.out
    this.out = []
    return out
  }

  private flushText() {
    const { open } = this
    if (!open?.pending) return
    const type = open.type === 'text' ? 'text-delta' : 'reasoning-delta'
    this.out.push({ type, index: open.index, text: open.pending })
    open.pending = ''
  }

  private closeText() {
    const { open } = this
    if (!open) return
    this.flushText()
    this.open = undefined
    this.out.push({ type: 'block-end', index: open.index, block: textBlock(open) })
  }

  end(): StreamChunk[] {
    this.endTags()
    this.closeText()
    const reason = this.finishReason()
    this.out.push(...this.calls.end(reason === 'max-tokens' && this.last === 'call'))
    if (this.usage) this.out.push({ type: 'usage', usage: this.usage })
    const mute = this.pictured && reason === 'stop' && !this.spoke
    this.out.push(mute ? { type: 'finish', reason: 'error', failure: ONLY_PICTURES } : { type: 'finish', reason })
    const out = this.out
    this.out = []
    return out
  }

  usageSoFar(): StreamChunk[] {
    return this.usage ? [{ type: 'usage', usage: this.usage }] : []
  }

  get broken(): string | undefined {
    return this.reason && BROKEN.test(this.reason) ? this.reason : undefined
  }

  private finishReason(): Exclude<FinishReason, 'error' | 'aborted'> {
    if (CUT.test(this.reason ?? '')) return 'max-tokens'
    if (REFUSED.test(this.reason ?? '')) return 'refusal'
    // An unknown reason came with whole blocks: what they are decides.
    if (this.calls.size) return 'tool-calls'
    return this.refused ? 'refusal' : 'stop'
  }
}

const CUT = /^(length|max_tokens|max_output_tokens|model_length|model_context_window_exceeded)$/i
const REFUSED = /^(content_filter|refusal|safety|sensitive|recitation|prohibited_content|blocklist|spii)$/i
/** The provider's own fault, or a call that it could not read itself: the same request may well succeed. */
const BROKEN = /^(error|insufficient_system_resource|network_error|abort|.*malformed_function_call)$/i

/** Blocks of an answer are words and calls: pictures are passed over, and one that has nothing else would be asked for again. */
const ONLY_PICTURES: LlmFailure = {
  code: 'UNSUPPORTED_CONTENT',
  message: 'the model answered with a picture and without a word, and pictures of models are not kept',
  fix: 'use a model that answers in words',
}

function textBlock({ type, text, details }: OpenText): AssistantBlock {
  if (type === 'text') return { type, text }
  const block: ReasoningBlock = { type, text }
  return details.length ? { ...block, replay: { reasoning_details: details } } : block
}
