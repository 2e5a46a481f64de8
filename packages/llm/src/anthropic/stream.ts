/** Reads the events of a message. Blocks and events of other kinds (server tools, citations) are passed over. */

import { isComplete } from '../answer/arguments.ts'
import { CallId } from '../message.ts'
import type { FinishReason, StreamChunk, TokenUsage } from '../stream.ts'
import type { AnswerReader } from '../web/protocol.ts'
import { countOf, isRecord, stringOf } from '../web/value.ts'
import type { Replay } from './thinking.ts'

interface Block {
  readonly type: 'text' | 'reasoning' | 'tool-call'
  /** Ours; given with the first thing that there is to say. */
  index: number
  text: string
  pending: string
  /** Of a thought that has ended. */
  signature: string
  readonly id: string
  readonly name: string
}

type Counts = Record<
  'input_tokens' | 'output_tokens' | 'cache_read_input_tokens' | 'cache_creation_input_tokens',
  number
>

export class MessagesReader implements AnswerReader {
  readonly broken = undefined
  private out: StreamChunk[] = []
  /** By the provider's index; undefined for a block that is none of ours. */
  private readonly blocks = new Map<number, Block | undefined>()
  private readonly calls: Block[] = []
  /** Text or a thought that has not ended. */
  private open: Block | undefined
  /** The block that came last: the one that an output limit cuts. */
  private last: Block | undefined
  private next = 0
  /** The provider's index of the block that began last. */
  private place = -1
  private counted = false
  private thinkingTokens = 0
  private reason: string | undefined
  private stopped = false
  private readonly counts: Counts = {
    input_tokens: 0,
    output_tokens: 0,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  }

  get finished(): boolean {
    return this.reason !== undefined
  }

  get ended(): boolean {
    return this.stopped
  }

  push(event: unknown, name?: string): void {
    if (!isRecord(event)) return
    switch (typeof event['type'] === 'string' ? event['type'] : name) {
      case 'content_block_delta':
        if (isRecord(event['delta'])) this.delta(indexOf(event) ?? this.place, event['delta'])
        break
      case 'content_block_start':
        if (isRecord(event['content_block'])) this.start(indexOf(event) ?? this.place + 1, event['content_block'])
        break
      case 'content_block_stop':
        this.stop(indexOf(event) ?? this.place)
        break
      case 'message_start':
        if (isRecord(event['message'])) this.count(event['message']['usage'])
        break
      case 'message_delta':
        this.count(event['usage'])
        if (isRecord(event['delta'])) this.ending(event['delta']['stop_reason'])
        break
      case 'message_stop':
        this.stopped = true
    }
  }

  whole(body: unknown): boolean {
    if (!isRecord(body) || !Array.isArray(body['content']) || body['role'] === 'user') return false
    this.count(body['usage'])
    for (const [index, block] of body['content'].entries()) {
      if (!isRecord(block)) continue
      this.start(index, block)
      this.stop(index)
    }
    this.ending(body['stop_reason'] ?? 'end_turn')
    return true
  }

  private ending(reason: unknown) {
    if (typeof reason === 'string' && reason) this.reason = reason
  }

  // Blocks ------------------------------------------------------------------------------------------------------

  private start(at: number, content: Record<string, unknown>) {
    this.close(false)
    const { type } = content
    if (type === 'text') this.say(this.add(at, 'text'), stringOf(content['text']))
    else if (type === 'thinking') {
      const block = this.add(at, 'reasoning')
      block.signature = stringOf(content['signature'])
      this.say(block, stringOf(content['thinking']))
    } else if (type === 'redacted_thinking') {
      const replay: Replay = { type, data: stringOf(content['data']) }
      const block = this.add(at, 'reasoning')
      this.begin(block)
      this.out.push({ type: 'block-end', index: block.index, block: { type: 'reasoning', text: '', replay } })
      this.open = undefined
      this.blocks.set(at, undefined)
    } else if (type === 'tool_use') {
      const { id, name, input } = content
      const block = this.add(at, 'tool-call', stringOf(id), stringOf(name))
      this.calls.push(block)
      this.begin(block)
      this.out.push(callDelta(block, '', block.name))
      // Empty where the arguments are yet to come.
      if (typeof input === 'string') this.say(block, input)
      else if (isRecord(input) && Object.keys(input).length) this.say(block, JSON.stringify(input))
    } else {
      this.place = at
      this.blocks.set(at, undefined)
    }
  }

  private add(at: number, type: Block['type'], id = '', name = ''): Block {
    this.place = at
    const block: Block = { type, index: -1, text: '', pending: '', signature: '', id, name }
    this.blocks.set(at, block)
    this.open = block
    this.last = block
    return block
  }

  private delta(at: number, delta: Record<string, unknown>) {
    const kind = DELTAS[String(delta['type'])]
    if (!kind) return
    const [type, key] = kind
    // A server that announces no block still means one.
    if (!this.blocks.has(at) && type !== 'tool-call') {
      this.close(false)
      this.add(at, type)
    }
    const block = this.blocks.get(at)
    if (block?.type !== type) return
    const text = stringOf(delta[key])
    if (key === 'signature') block.signature += text
    else this.say(block, text)
  }

  /** An empty delta opens nothing. */
  private say(block: Block, text: string) {
    if (!text) return
    this.begin(block)
    block.text += text
    block.pending += text
  }

  private begin(block: Block) {
    if (block.index >= 0) return
    block.index = this.next++
    this.out.push({ type: 'block-start', index: block.index, blockType: block.type })
  }

  private stop(at: number) {
    if (this.open && this.blocks.get(at) === this.open) this.close(true)
  }

  /** `whole`: the provider has said that it ends. A call is closed at the end of all, when it is known whether it was cut. */
  private close(whole: boolean) {
    const block = this.open
    if (!block) return
    this.open = undefined
    const { type, text, signature } = block
    const signed = type === 'reasoning' && (whole || signature !== '')
    // A provider that keeps its thoughts for itself sends their signature alone.
    if (signed && signature) this.begin(block)
    this.flushBlock(block)
    if (type === 'tool-call' || block.index < 0) return
    const replay: Replay = { type: 'thinking', signature }
    this.out.push({
      type: 'block-end',
      index: block.index,
      block: type === 'text' ? { type, text } : { type, text, ...(signed ? { replay } : {}) },
    })
  }

  flush(): StreamChunk[] {
    if (this.open) this.flushBlock(this.open)
    const { out } = this
    this.out = []
    return out
  }

  private flushBlock(block: Block) {
    const { type, index, pending } = block
    if (!pending) return
    block.pending = ''
    if (type === 'tool-call') this.out.push(callDelta(block, pending))
    else this.out.push({ type: type === 'text' ? 'text-delta' : 'reasoning-delta', index, text: pending })
  }

  end(): StreamChunk[] {
    this.close(false)
    const reason = finishOf(this.reason, this.calls.length > 0)
    const cut = reason === 'max-tokens'
    for (const call of this.calls) {
      // The provider ends the block that its limit cuts as well, and what is there may be JSON by accident.
      if (cut && (call === this.last || !isComplete(call.text))) continue
      const { index, id, name, text } = call
      this.out.push({ type: 'block-end', index, block: { type: 'tool-call', id: CallId(id), name, arguments: text } })
    }
    this.out.push(...this.usageSoFar(), { type: 'finish', reason })
    return this.flush()
  }

  // Usage -------------------------------------------------------------------------------------------------------

  /** Counts grow from event to event; some servers repeat them as zero, or leave them out. */
  private count(usage: unknown) {
    if (!isRecord(usage)) return
    this.counted = true
    const { counts } = this
    for (const key of Object.keys(counts) as (keyof Counts)[]) counts[key] = Math.max(counts[key], countOf(usage[key]))
    const details = usage['output_tokens_details']
    if (isRecord(details)) this.thinkingTokens = Math.max(this.thinkingTokens, countOf(details['thinking_tokens']))
  }

  usageSoFar(): StreamChunk[] {
    if (!this.counted) return []
    const { counts, thinkingTokens } = this
    const usage: TokenUsage = {
      inputTokens: counts.input_tokens,
      outputTokens: counts.output_tokens,
      cacheReadTokens: counts.cache_read_input_tokens,
      cacheWriteTokens: counts.cache_creation_input_tokens,
      reasoningTokens: Math.min(thinkingTokens, counts.output_tokens),
    }
    return [{ type: 'usage', usage }]
  }
}

/** Which kind of block a delta belongs to, and where its text is. */
const DELTAS: Record<string, readonly [Block['type'], string] | undefined> = {
  text_delta: ['text', 'text'],
  thinking_delta: ['reasoning', 'thinking'],
  signature_delta: ['reasoning', 'signature'],
  input_json_delta: ['tool-call', 'partial_json'],
}

function callDelta({ index, id }: Block, argumentsDelta: string, name?: string): StreamChunk {
  return { type: 'tool-call-delta', index, id: CallId(id), ...(name ? { name } : {}), argumentsDelta }
}

function finishOf(reason: string | undefined, calls: boolean): Exclude<FinishReason, 'error' | 'aborted'> {
  switch (reason) {
    case 'max_tokens':
    case 'model_context_window_exceeded':
      return 'max-tokens'
    case 'refusal':
      return 'refusal'
    default:
      // An unknown reason came with whole blocks, and so did a pause between tools of the provider's own.
      return calls ? 'tool-calls' : 'stop'
  }
}

/** Undefined for an event that names no place: it is about the block that began last. */
const indexOf = ({ index }: Record<string, unknown>) => (typeof index === 'number' ? index : undefined)
