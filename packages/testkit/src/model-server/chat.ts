/** A scripted reply as a chat completion of OpenAI. */

import type { ProviderError } from './errors.ts'
import type { Reply } from './reply.ts'
import {
  countsOf,
  type Envelope,
  inOrder,
  pieces,
  proseOf,
  type Speech,
  textPieces,
  type WireCall,
  wholeText,
  wireCalls,
} from './speech.ts'

type Delta = Readonly<Record<string, unknown>>

export class ChatSpeech implements Speech {
  private readonly reply: Reply
  private readonly envelope: Envelope

  constructor(reply: Reply, envelope: Envelope) {
    this.reply = reply
    this.envelope = envelope
  }

  *opening(): Generator<string> {
    if (this.reply.fault === 'empty-choices') {
      yield this.frame([], { prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }] })
      if (this.silent()) return
    }
    yield this.frame([choice({ role: 'assistant', content: '' })])
  }

  *deltas(): Generator<string> {
    const { reply } = this
    if (reply.fault === 'empty') return
    const field = reply.reasoningField ?? 'reasoning_content'
    if (!reply.redacted) {
      for (const piece of proseOf(reply, reply.reasoning ?? '')) yield this.delta({ [field]: piece })
    }
    let last: { piece: string; frame: string } | undefined
    for (const piece of textPieces(reply)) {
      if (last?.piece !== piece) last = { piece, frame: this.delta({ content: piece }) }
      yield last.frame
    }
    for (const piece of proseOf(reply, reply.refusal ?? '')) yield this.delta({ refusal: piece })
    const calls = wireCalls(reply, this.envelope).map(callDeltas)
    for (const delta of inOrder(reply, calls)) yield this.delta(delta)
    for (const delta of reply.deltas ?? []) yield this.delta(delta)
  }

  *closing(): Generator<string> {
    const { reply, envelope } = this
    const usage = usageOf(reply, envelope)
    const withFinish = reply.usageIn === 'finish-chunk' && usage ? { usage } : {}
    if (reply.fault === 'empty-choices') yield this.frame([])
    if (!this.silent()) yield this.frame([choice({}, finishOf(reply))], withFinish)
    if (usage && envelope.includeUsage && reply.usageIn !== 'finish-chunk') yield this.frame([], { usage })
    if (reply.done !== false) yield this.sse('[DONE]')
  }

  whole(): object {
    const { reply, envelope } = this
    const calls = wireCalls(reply, envelope)
    const text = wholeText(reply)
    const message = {
      role: 'assistant',
      content: text || !calls.length ? text : null,
      ...(reply.refusal ? { refusal: reply.refusal } : {}),
      ...(reply.reasoning && !reply.redacted ? { [reply.reasoningField ?? 'reasoning_content']: reply.reasoning } : {}),
      ...(calls.length ? { tool_calls: calls.map(wholeCall) } : {}),
    }
    const choices = this.silent() ? [] : [{ index: 0, message, finish_reason: finishOf(reply) }]
    const usage = usageOf(reply, envelope)
    const { id, model, created } = envelope
    return { id, object: 'chat.completion', created, model, choices, ...(usage ? { usage } : {}) }
  }

  malformed(): string {
    return this.sse('{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":"bro')
  }

  failure(error: ProviderError): string {
    return this.sse(JSON.stringify({ error }))
  }

  /** Says nothing, not even by a choice. */
  private silent(): boolean {
    const { fault, text, toolCalls } = this.reply
    return fault === 'empty-choices' && !text && !toolCalls
  }

  private delta(delta: Delta): string {
    return this.frame([choice(delta)])
  }

  private frame(choices: readonly unknown[], more: object = {}): string {
    const { id, model, created } = this.envelope
    return this.sse(JSON.stringify({ id, object: 'chat.completion.chunk', created, model, choices, ...more }))
  }

  private sse(data: string): string {
    const eol = this.reply.eol ?? '\n'
    return `data: ${data}${eol}${eol}`
  }
}

const choice = (delta: Delta, finish: string | null = null) => ({ index: 0, delta, finish_reason: finish })

function* callDeltas(call: WireCall): Generator<Delta> {
  const index = call.index === null ? {} : { index: call.index }
  const opening = { ...index, id: call.id, type: 'function', function: { name: call.name, arguments: '' } }
  yield { tool_calls: [opening] }
  for (const piece of pieces(call.text, call.sizes)) {
    yield { tool_calls: [{ ...index, function: { arguments: piece } }] }
  }
}

const wholeCall = ({ id, name, text }: WireCall) => ({ id, type: 'function', function: { name, arguments: text } })

function finishOf(reply: Reply): string {
  if (reply.fault === 'length') return 'length'
  return reply.finish ?? (reply.toolCalls?.length && reply.fault !== 'empty' ? 'tool_calls' : 'stop')
}

function usageOf(reply: Reply, envelope: Envelope): Record<string, unknown> | undefined {
  const counts = countsOf(reply, envelope)
  if (!counts) return undefined
  const { input, output, cached, written, reasoning } = counts
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached, ...(written ? { cache_write_tokens: written } : {}) },
    completion_tokens_details: { reasoning_tokens: reasoning },
  }
}
