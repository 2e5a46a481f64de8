/** One item of a response as it grows: a message with its parts, a piece of reasoning, or a call. */

import { CallId } from '../message.ts'
import type { FinishReason, StreamChunk } from '../stream.ts'
import { isRecord } from '../web/value.ts'
import { replayOf, textParts } from './replay.ts'

export type Item = Record<string, unknown>
export type ItemKind = 'message' | 'reasoning' | 'function_call'
/** Which of an item's texts: those of a message, of reasoning as it is or summed up, or the arguments of a call. */
export type PartKind = 'content' | 'refusal' | 'summary' | 'arguments'

/** Blocks of one item have indexes of their own, in the order of its parts. */
const MAX_PARTS = 100

/**
 * `grow` and `settle` take what its events bring, `close` the item as the provider says it in the end; what comes twice
 * counts once. `flush` gives what is new.
 */
export abstract class OutputItem {
  abstract readonly kind: ItemKind
  /** Unique in its response, in the order of the items. */
  readonly place: number
  readonly outputIndex: number | undefined
  readonly id: string | undefined
  /** Nothing is added to it any more. */
  complete = false
  /** The model declined, and says so here. */
  refused = false

  constructor(place: number, outputIndex: number | undefined, id: string | undefined) {
    this.place = place
    this.outputIndex = outputIndex
    this.id = id
  }

  /** How the item looked when it was announced. */
  begin(_value: Item): void {}
  abstract grow(part: PartKind, at: number, delta: string): void
  abstract settle(part: PartKind, at: number, text: string): void
  abstract close(value: Item): void
  abstract flush(): StreamChunk[]
  /** What is left to say when the response has ended for `reason`. */
  abstract end(reason: FinishReason): StreamChunk[]

  protected indexOf(part: number): number {
    return this.place * MAX_PARTS + Math.min(Math.max(0, Math.trunc(part)), MAX_PARTS - 1)
  }
}

export function createItem(
  kind: ItemKind,
  place: number,
  outputIndex: number | undefined,
  id: string | undefined,
): OutputItem {
  const Kind = kind === 'message' ? MessageItem : kind === 'reasoning' ? ReasoningItem : CallItem
  return new Kind(place, outputIndex, id)
}

/** A text that comes in deltas and once more as a whole. */
class GrowingText {
  text = ''
  private sent = 0

  add(delta: string): void {
    this.text += delta
  }

  /** Where the whole text goes on from what is known, that is what was missing; where it differs, it is what counts. */
  settle(whole: string): void {
    if (!whole || whole === this.text) return
    if (!whole.startsWith(this.text.slice(0, this.sent))) this.sent = whole.length
    this.text = whole
  }

  take(): string {
    const fresh = this.text.slice(this.sent)
    this.sent = this.text.length
    return fresh
  }
}

class MessageItem extends OutputItem {
  readonly kind = 'message'
  private readonly parts = new Map<number, { text: GrowingText; started: boolean; ended: boolean }>()

  grow(part: PartKind, at: number, delta: string): void {
    if (this.complete || !delta) return
    if (part === 'refusal') this.refused = true
    this.part(at).add(delta)
  }

  settle(part: PartKind, at: number, text: string): void {
    if (this.complete || !text) return
    if (part === 'refusal') this.refused = true
    this.part(at).settle(text)
  }

  close({ content }: Item): void {
    for (const [at, part] of (Array.isArray(content) ? content : []).entries()) {
      if (!isRecord(part)) continue
      const kind = part['type'] === 'refusal' ? 'refusal' : 'content'
      const text = part[kind === 'refusal' ? 'refusal' : 'text']
      if (typeof text === 'string') this.settle(kind, at, text)
    }
    this.complete = true
  }

  flush(): StreamChunk[] {
    const out: StreamChunk[] = []
    for (const [at, part] of this.parts) {
      const index = this.indexOf(at)
      if (part.ended) continue
      if (!part.started) out.push({ type: 'block-start', index, blockType: 'text' })
      part.started = true
      const text = part.text.take()
      if (text) out.push({ type: 'text-delta', index, text })
      if (!this.complete) continue
      part.ended = true
      out.push({ type: 'block-end', index, block: { type: 'text', text: part.text.text } })
    }
    return out
  }

  end(): StreamChunk[] {
    this.complete = true
    return this.flush()
  }

  private part(at: number): GrowingText {
    let part = this.parts.get(at)
    if (!part) {
      part = { text: new GrowingText(), started: false, ended: false }
      this.parts.set(at, part)
    }
    return part.text
  }
}

class ReasoningItem extends OutputItem {
  readonly kind = 'reasoning'
  private readonly parts = new Map<string, string>()
  /** The part that grows. */
  private current: string | undefined
  private text = ''
  private pending = ''
  private replay: ReturnType<typeof replayOf>
  private started = false
  private ended = false

  grow(part: PartKind, at: number, delta: string): void {
    if (this.complete || !delta) return
    const key = `${part} ${at}`
    const known = this.parts.get(key)
    if (this.current !== key && known === undefined && this.text) this.say('\n\n')
    this.current = key
    this.parts.set(key, (known ?? '') + delta)
    this.say(delta)
  }

  settle(part: PartKind, at: number, text: string): void {
    const key = `${part} ${at}`
    const known = this.parts.get(key) ?? ''
    if (known && this.current !== key) return
    if (text.startsWith(known)) this.grow(part, at, text.slice(known.length))
  }

  close(value: Item): void {
    for (const [at, { text }] of textParts(value['summary'], 'summary_text').entries())
      this.settle('summary', at, `${text}`)
    for (const [at, { text }] of textParts(value['content'], 'reasoning_text').entries()) {
      this.settle('content', at, `${text}`)
    }
    this.replay = replayOf(value)
    this.complete = true
  }

  flush(): StreamChunk[] {
    const index = this.indexOf(0)
    const out: StreamChunk[] = []
    if (this.ended || (!this.text && !this.replay)) return out
    if (!this.started) out.push({ type: 'block-start', index, blockType: 'reasoning' })
    this.started = true
    if (this.pending) out.push({ type: 'reasoning-delta', index, text: this.pending })
    this.pending = ''
    if (!this.complete) return out
    this.ended = true
    const replay = this.replay ? { replay: this.replay } : {}
    out.push({ type: 'block-end', index, block: { type: 'reasoning', text: this.text, ...replay } })
    return out
  }

  end(): StreamChunk[] {
    this.complete = true
    return this.flush()
  }

  private say(text: string) {
    this.text += text
    this.pending += text
  }
}

class CallItem extends OutputItem {
  readonly kind = 'function_call'
  private callId = ''
  private name = ''
  private readonly args = new GrowingText()
  private announced = ''
  private problem: string | undefined
  private started = false
  private ended = false

  override begin(value: Item): void {
    this.know(value)
    // Some announce a call with all its arguments and send them in pieces as well.
    this.announced = argumentsOf(value)
  }

  grow(_part: PartKind, _at: number, delta: string): void {
    if (!this.complete) this.args.add(delta)
  }

  settle(_part: PartKind, _at: number, text: string): void {
    if (!this.complete) this.args.settle(text)
  }

  close(value: Item): void {
    this.know(value)
    this.args.settle(argumentsOf(value))
    // Its arguments may parse by chance, and still are not what the model was about to say.
    if (value['status'] !== 'incomplete') this.whole()
  }

  flush(): StreamChunk[] {
    const index = this.indexOf(0)
    const out: StreamChunk[] = []
    if (this.ended || (!this.name && !this.complete)) return out
    const { name } = this
    const id = CallId(this.callId)
    const fresh = this.args.take()
    if (!this.started) {
      out.push({ type: 'block-start', index, blockType: 'tool-call' })
      out.push({ type: 'tool-call-delta', index, id, name, argumentsDelta: fresh })
    } else if (fresh) out.push({ type: 'tool-call-delta', index, id, argumentsDelta: fresh })
    this.started = true
    if (!this.complete) return out
    this.ended = true
    const { problem = name ? undefined : 'the call names no tool' } = this
    const text = problem === undefined ? this.args.text : `(garbled: ${problem}) ${this.args.text}`
    out.push({ type: 'block-end', index, block: { type: 'tool-call', id, name, arguments: text } })
    return out
  }

  end(reason: FinishReason): StreamChunk[] {
    // One that the output limit cut stays open: it is never run.
    if (this.complete || reason === 'max-tokens') return this.flush()
    if (reason === 'refusal') this.problem = 'the answer was broken off here'
    this.whole()
    return this.flush()
  }

  private whole() {
    if (!this.args.text) this.args.settle(this.announced)
    this.complete = true
  }

  private know(value: Item) {
    const { call_id: callId, id, name } = value
    if (typeof callId === 'string' && callId) this.callId = callId
    else if (!this.callId && typeof id === 'string') this.callId = id
    if (typeof name === 'string' && name) this.name = name
  }
}

function argumentsOf({ arguments: value }: Item): string {
  if (typeof value === 'string') return value
  return isRecord(value) ? JSON.stringify(value) : ''
}
