/** A scripted reply as a response of OpenAI. */

import type { ProviderError } from './errors.ts'
import { encryptedContent } from './proof.ts'
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

type Fields = Readonly<Record<string, unknown>>
type Item = Fields & { readonly id: string; readonly type: string }

export class ResponsesSpeech implements Speech {
  private readonly reply: Reply
  private readonly envelope: Envelope
  /** All items of the answer, as they are when they are done. */
  readonly output: readonly Item[]
  private readonly calls: WireCall[]
  private sequence = 0

  constructor(reply: Reply, envelope: Envelope) {
    this.reply = reply
    this.envelope = envelope
    this.calls = wireCalls(reply, envelope)
    this.output = this.items()
  }

  *opening(): Generator<string> {
    const response = this.response('in_progress', [])
    yield this.event('response.created', { response }) + this.event('response.in_progress', { response })
    if (this.reply.fault === 'empty-choices') yield this.event('response.testkit_unknown', {})
  }

  *deltas(): Generator<string> {
    const { reply } = this
    let at = 0
    if (thinks(reply)) yield* this.reasoning(at++)
    if (this.output[at]?.type === 'message') yield* this.message(at++)
    yield* inOrder(
      reply,
      this.calls.map(call => this.call(call, at++)),
    )
    for (const { type, ...rest } of reply.deltas ?? []) yield this.event(String(type), rest)
  }

  *closing(): Generator<string> {
    const status = this.status()
    yield this.event(`response.${status}`, { response: this.response(status, this.output) })
  }

  whole(): object {
    return this.response(this.status(), this.output)
  }

  malformed(): string {
    const { eol = '\n' } = this.reply
    const data = '{"type":"response.output_text.delta","output_index":0,"delta":"bro'
    return `event: response.output_text.delta${eol}data: ${data}${eol}${eol}`
  }

  failure({ message, code, type }: ProviderError): string {
    const said = { code: code ?? type ?? 'server_error', message }
    if (this.reply.fault !== 'failed') return this.event('error', { ...said, param: null })
    const response = { ...this.response('failed', []), error: said }
    return (
      this.event('error', { error: { type: said.code, ...said, param: null } }) +
      this.event('response.failed', { response })
    )
  }

  // Items -------------------------------------------------------------------------------------------------------

  private items(): Item[] {
    const { reply } = this
    const text = wholeText(reply)
    const rest: Item[] = []
    const cut = reply.fault === 'length'
    const content = [
      ...(text ? [{ type: 'output_text', text, annotations: [] }] : []),
      ...(reply.refusal ? [{ type: 'refusal', refusal: reply.refusal }] : []),
    ]
    const at = thinks(reply) ? 1 : 0
    if (content.length) {
      const status = cut && !this.calls.length ? 'incomplete' : 'completed'
      rest.push({ id: this.itemId('msg', at), type: 'message', status, role: 'assistant', content })
    }
    for (const call of this.calls) {
      const status = cut && call === this.calls.at(-1) ? 'incomplete' : 'completed'
      const { id: call_id, name, text } = call
      rest.push({
        id: this.itemId('fc', at + rest.length),
        type: 'function_call',
        status,
        call_id,
        name,
        arguments: text,
      })
    }
    if (!thinks(reply)) return rest
    const id = this.itemId('rs', 0)
    const encrypted_content = encryptedContent({ id, next: rest[0]?.type ?? 'message' })
    const summary = reply.reasoning && !reply.redacted ? [{ type: 'summary_text', text: reply.reasoning }] : []
    const secret = this.envelope.includeEncrypted ? { encrypted_content } : {}
    return [{ id, type: 'reasoning', summary, ...secret }, ...rest]
  }

  /** Tells by its sixth character whether the response it is from had reasoning, which has to come back with it. */
  private itemId(prefix: string, at: number): string {
    const seed = this.envelope.id.replace(/^\w*[_-]/, '')
    return `${prefix}_${thinks(this.reply) ? 'f' : '0'}${seed}${at.toString(16).padStart(2, '0')}`
  }

  private *reasoning(output_index: number): Generator<string> {
    const item = this.output[output_index]!
    const text = this.reply.redacted ? '' : (this.reply.reasoning ?? '')
    const place = { item_id: item.id, output_index, summary_index: 0 }
    // What it holds before it is done is another content than the one that counts.
    const early = item['encrypted_content'] ? { encrypted_content: 'gAAAAAunfinished' } : {}
    const added = { item: { id: item.id, type: 'reasoning', summary: [], ...early }, output_index }
    const open = () => {
      const first = this.event('response.output_item.added', added)
      if (!text) return first
      const part = { type: 'summary_text', text: '' }
      return first + this.event('response.reasoning_summary_part.added', { ...place, part })
    }
    const deltas = function* (self: ResponsesSpeech) {
      for (const delta of proseOf(self.reply, text)) {
        yield self.event('response.reasoning_summary_text.delta', { ...place, delta })
      }
    }
    yield* enclosed(open, deltas(this), () => {
      const done = () => this.event('response.output_item.done', { item, output_index })
      if (!text) return done()
      const part = { type: 'summary_text', text }
      const texts = this.event('response.reasoning_summary_text.done', { ...place, text })
      return texts + this.event('response.reasoning_summary_part.done', { ...place, part }) + done()
    })
  }

  private *message(output_index: number): Generator<string> {
    const { reply } = this
    const item = this.output[output_index]!
    const parts = item['content'] as Fields[]
    const added = { ...item, status: 'in_progress', content: [] }
    const all = function* (self: ResponsesSpeech) {
      for (const [content_index, part] of parts.entries()) {
        const place = { item_id: item.id, output_index, content_index }
        const refuses = part['type'] === 'refusal'
        const name = refuses ? 'response.refusal' : 'response.output_text'
        const empty = refuses ? { type: 'refusal', refusal: '' } : { type: 'output_text', text: '', annotations: [] }
        const more = refuses ? {} : { logprobs: [] }
        const deltas = function* () {
          const texts = refuses ? proseOf(reply, reply.refusal!) : textPieces(reply)
          for (const delta of texts) yield self.event(`${name}.delta`, { ...place, delta, ...more })
        }
        const whole = refuses ? { refusal: part['refusal'] } : { text: part['text'] }
        yield* enclosed(
          () => self.event('response.content_part.added', { ...place, part: empty }),
          deltas(),
          () =>
            self.event(`${name}.done`, { ...place, ...whole, ...more }) +
            self.event('response.content_part.done', { ...place, part }),
        )
      }
    }
    yield* enclosed(
      () => this.event('response.output_item.added', { item: added, output_index }),
      all(this),
      () => this.event('response.output_item.done', { item, output_index }),
    )
  }

  private *call({ text, sizes }: WireCall, output_index: number): Generator<string> {
    const item = this.output[output_index]!
    const place = { item_id: item.id, output_index }
    const deltas = function* (self: ResponsesSpeech) {
      const added = { ...item, status: 'in_progress', arguments: '' }
      yield self.event('response.output_item.added', { item: added, output_index })
      for (const delta of pieces(text, sizes)) {
        yield self.event('response.function_call_arguments.delta', { ...place, delta })
      }
    }
    yield* enclosed(
      () => '',
      deltas(this),
      () =>
        this.event('response.function_call_arguments.done', { ...place, arguments: text }) +
        this.event('response.output_item.done', { item, output_index }),
    )
  }

  // Response ----------------------------------------------------------------------------------------------------

  private status(): string {
    const { fault, finish } = this.reply
    if (fault === 'length' || finish === 'length' || finish === 'content_filter') return 'incomplete'
    return finish === undefined || finish === 'stop' || finish === 'tool_calls' ? 'completed' : finish
  }

  private response(status: string, output: readonly Item[]): Fields {
    const { id, model, created } = this.envelope
    const reason = this.reply.finish === 'content_filter' ? 'content_filter' : 'max_output_tokens'
    return {
      id,
      object: 'response',
      created_at: created,
      status,
      error: null,
      incomplete_details: status === 'incomplete' ? { reason } : null,
      model,
      output,
      usage: status === 'in_progress' || status === 'failed' ? null : this.usage(),
    }
  }

  private usage(): object | null {
    const counts = countsOf(this.reply, this.envelope)
    if (!counts) return null
    const { input, output, cached, reasoning } = counts
    return {
      input_tokens: input,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: output,
      output_tokens_details: { reasoning_tokens: reasoning },
      total_tokens: input + output,
    }
  }

  private event(type: string, fields: Fields): string {
    const { eol = '\n' } = this.reply
    const data = JSON.stringify({ type, sequence_number: this.sequence++, ...fields })
    return `event: ${type}${eol}data: ${data}${eol}${eol}`
  }
}
