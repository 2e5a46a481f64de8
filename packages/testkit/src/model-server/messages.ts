/** A scripted reply as a message of Anthropic. */

import type { ProviderError } from './errors.ts'
import { redactedData, signatureOf } from './proof.ts'
import type { Reply } from './reply.ts'
import {
  countsOf,
  type Envelope,
  enclosed,
  inOrder,
  pieces,
  proseOf,
  type Speech,
  textPieces,
  thinks,
  type WireCall,
  wholeText,
  wireCalls,
} from './speech.ts'

type Block = Readonly<Record<string, unknown>>

const STOP_REASONS: Record<string, string> = {
  stop: 'end_turn',
  tool_calls: 'tool_use',
  length: 'max_tokens',
  content_filter: 'refusal',
}

export class MessagesSpeech implements Speech {
  private readonly reply: Reply
  private readonly envelope: Envelope
  private blocks = 0

  constructor(reply: Reply, envelope: Envelope) {
    this.reply = reply
    this.envelope = envelope
  }

  *opening(): Generator<string> {
    const message = { ...this.message([], null), usage: this.usageAtStart() }
    yield this.event({ type: 'message_start', message })
    yield this.event({ type: 'ping' })
    if (this.reply.fault === 'empty-choices') yield this.event({ type: 'testkit_unknown', choices: [] })
  }

  *deltas(): Generator<string> {
    const { reply } = this
    if (thinks(reply)) yield* this.thinking()
    yield* this.prose(textPieces(reply))
    yield* this.prose(proseOf(reply, reply.refusal ?? ''))
    const calls = wireCalls(reply, this.envelope).map(call => this.call(call, this.blocks++))
    yield* inOrder(reply, calls)
    for (const event of reply.deltas ?? []) yield this.event(event)
  }

  *closing(): Generator<string> {
    const counts = countsOf(this.reply, this.envelope)
    const delta = { stop_reason: this.stopReason(), stop_sequence: null }
    yield this.event({ type: 'message_delta', delta, usage: counts ? this.usage(counts.output) : {} })
    if (this.reply.done !== false) yield this.event({ type: 'message_stop' })
  }

  whole(): object {
    const { reply, envelope } = this
    const content: Block[] = []
    if (thinks(reply)) content.push(reply.redacted ? this.redacted() : this.thought())
    for (const text of [wholeText(reply), reply.refusal]) if (text) content.push({ type: 'text', text })
    for (const call of wireCalls(reply, envelope)) {
      content.push({ type: 'tool_use', id: call.id, name: call.name, input: parsed(call.text) })
    }
    const counts = countsOf(reply, envelope)
    return { ...this.message(content, this.stopReason()), usage: counts ? this.usage(counts.output) : {} }
  }

  malformed(): string {
    const { eol = '\n' } = this.reply
    const data = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"bro'
    return `event: content_block_delta${eol}data: ${data}${eol}${eol}`
  }

  failure({ message, type = 'overloaded_error' }: ProviderError): string {
    return this.event({ type: 'error', error: { type, message } })
  }

  private *thinking(): Generator<string> {
    const index = this.blocks++
    if (this.reply.redacted) return yield this.start(index, this.redacted()) + this.stop(index)
    const text = this.reply.reasoning ?? ''
    const deltas = function* (self: MessagesSpeech) {
      for (const thinking of proseOf(self.reply, text)) yield self.delta(index, { type: 'thinking_delta', thinking })
    }
    const signature = { type: 'signature_delta', signature: signatureOf(text) }
    yield* enclosed(
      () => this.start(index, { type: 'thinking', thinking: '', signature: '' }),
      deltas(this),
      () => this.delta(index, signature) + this.stop(index),
    )
  }

  private *prose(texts: Generator<string>): Generator<string> {
    const { value, done } = texts.next()
    if (done) return
    const index = this.blocks++
    const deltas = function* (self: MessagesSpeech) {
      yield self.delta(index, { type: 'text_delta', text: value })
      for (const text of texts) yield self.delta(index, { type: 'text_delta', text })
    }
    yield* enclosed(
      () => this.start(index, { type: 'text', text: '' }),
      deltas(this),
      () => this.stop(index),
    )
  }

  private *call({ id, name, text, sizes }: WireCall, index: number): Generator<string> {
    const deltas = function* (self: MessagesSpeech) {
      yield self.start(index, { type: 'tool_use', id, name, input: {} })
      for (const partial_json of pieces(text, sizes))
        yield self.delta(index, { type: 'input_json_delta', partial_json })
    }
    yield* enclosed(
      () => '',
      deltas(this),
      () => this.stop(index),
    )
  }

  private thought(): Block {
    const thinking = this.reply.reasoning ?? ''
    return { type: 'thinking', thinking, signature: signatureOf(thinking) }
  }

  private redacted(): Block {
    return { type: 'redacted_thinking', data: redactedData(this.reply.reasoning ?? '') }
  }

  private stopReason(): string {
    const { fault, finish, refusal, toolCalls } = this.reply
    if (fault === 'length') return 'max_tokens'
    if (finish) return STOP_REASONS[finish] ?? finish
    if (refusal) return 'refusal'
    return toolCalls?.length && fault !== 'empty' ? 'tool_use' : 'end_turn'
  }

  private message(content: readonly Block[], stop_reason: string | null): object {
    const { id, model } = this.envelope
    return { id, type: 'message', role: 'assistant', model, content, stop_reason, stop_sequence: null }
  }

  private usageAtStart(): object {
    const told = countsOf(this.reply, this.envelope) && this.reply.usageIn !== 'finish-chunk'
    return told ? this.usage(1) : { input_tokens: 0, output_tokens: 0 }
  }

  /** Its counts are disjoint. */
  private usage(output_tokens: number): object {
    const { input, cached, written } = countsOf(this.reply, this.envelope)!
    return {
      input_tokens: input - cached - written,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: cached,
      output_tokens,
      service_tier: 'standard',
    }
  }

  private start(index: number, content_block: Block): string {
    return this.event({ type: 'content_block_start', index, content_block })
  }

  private delta(index: number, delta: Block): string {
    return this.event({ type: 'content_block_delta', index, delta })
  }

  private stop(index: number): string {
    return this.event({ type: 'content_block_stop', index })
  }

  private event(data: Block): string {
    const { eol = '\n' } = this.reply
    return `event: ${String(data['type'])}${eol}data: ${JSON.stringify(data)}${eol}${eol}`
  }
}

/** A server that does not stream has parsed the arguments itself; what is no JSON it gives as it stands. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
