/** Reads the events of a response. */

import type { FinishReason, StreamChunk, TokenUsage } from '../stream.ts'
import { AnswerError, type AnswerReader } from '../web/protocol.ts'
import { isRecord, stringOf } from '../web/value.ts'
import { createItem, type Item, type ItemKind, type OutputItem, type PartKind } from './item.ts'
import { readUsage } from './usage.ts'

type Event = Record<string, unknown>

/** Events that bring a piece of an item: of which kind the item is, and of which part the piece. */
const PIECES: Readonly<Record<string, { readonly kind: ItemKind; readonly part: PartKind; readonly index: string }>> = {
  'response.output_text': { kind: 'message', part: 'content', index: 'content_index' },
  'response.refusal': { kind: 'message', part: 'refusal', index: 'content_index' },
  'response.reasoning_summary_text': { kind: 'reasoning', part: 'summary', index: 'summary_index' },
  'response.reasoning_text': { kind: 'reasoning', part: 'content', index: 'content_index' },
  'response.function_call_arguments': { kind: 'function_call', part: 'arguments', index: '' },
}

const MAX_PLACE = 1_000_000

export class ResponseReader implements AnswerReader {
  private readonly items: OutputItem[] = []
  private readonly ids = new Map<string, OutputItem>()
  private readonly places = new Set<number>()
  private readonly changed = new Set<OutputItem>()
  private usage: TokenUsage | undefined
  /** Of the response, once it has ended: `completed`, or why it is incomplete. */
  private reason: string | undefined
  readonly broken = undefined

  get finished(): boolean {
    return this.reason !== undefined
  }

  /** The event that ends a response is the last one. */
  get ended(): boolean {
    return this.finished
  }

  whole(body: unknown): boolean {
    if (!isRecord(body) || !Array.isArray(body['output'])) return false
    this.finish(body)
    return true
  }

  push(event: unknown, name?: string): void {
    if (!isRecord(event) || this.finished) return
    const type = typeof event['type'] === 'string' ? event['type'] : (name ?? '')
    switch (type) {
      case 'error':
        throw new AnswerError(event)
      case 'response.completed':
      case 'response.done':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled':
        if (isRecord(event['response'])) this.finish(event['response'], type.slice('response.'.length))
        return
      case 'response.output_item.added':
        if (isRecord(event['item'])) this.added(event['item'], event)
        return
      case 'response.output_item.done':
        if (isRecord(event['item'])) this.done(event['item'], event)
        return
      default:
        this.piece(type, event)
    }
  }

  flush(): StreamChunk[] {
    const changed = [...this.changed].sort((a, b) => a.place - b.place)
    this.changed.clear()
    return changed.flatMap(item => item.flush())
  }

  end(): StreamChunk[] {
    const reason = this.finishReason()
    const out = this.items.flatMap(item => item.end(reason))
    if (this.usage) out.push({ type: 'usage', usage: this.usage })
    out.push({ type: 'finish', reason })
    return out
  }

  usageSoFar(): StreamChunk[] {
    return this.usage ? [{ type: 'usage', usage: this.usage }] : []
  }

  // Items -------------------------------------------------------------------------------------------------------

  private added(value: Item, event: Event) {
    const kind = kindOf(value)
    if (!kind) return
    const id = idOf(value)
    const item = this.byId(kind, id) ?? this.make(kind, id, placeOf(event))
    item.begin(value)
    this.changed.add(item)
  }

  private done(value: Item, event: Event) {
    const kind = kindOf(value)
    if (!kind) return
    const id = idOf(value)
    this.close(this.find(kind, id, placeOf(event)) ?? this.make(kind, id, placeOf(event)), value)
  }

  private close(item: OutputItem, value: Item) {
    if (item.complete) return
    item.close(value)
    this.changed.add(item)
  }

  private piece(type: string, event: Event) {
    const [, name = '', what] = /^(.*)\.(delta|done)$/.exec(type) ?? []
    const piece = PIECES[name]
    if (!piece) return
    const { kind, part, index } = piece
    const id = typeof event['item_id'] === 'string' ? event['item_id'] : undefined
    const item = this.find(kind, id, placeOf(event)) ?? this.make(kind, id, placeOf(event))
    const at = typeof event[index] === 'number' ? event[index] : 0
    if (what === 'delta') item.grow(part, at, stringOf(event['delta']))
    else item.settle(part, at, stringOf(event['text'] ?? event['refusal'] ?? event['arguments']))
    this.changed.add(item)
  }

  /**
   * Whose event it is: by its id; where ids change from event to event or are missing, by its place; where that is
   * missing too, the item of its kind that came last. One that is complete already is meant only by who has no other id.
   */
  private find(kind: ItemKind, id: string | undefined, place: number | undefined): OutputItem | undefined {
    const own = this.byId(kind, id)
    if (own) return own
    const last = this.items.findLast(
      item => item.kind === kind && (place === undefined ? !(id && item.id) : item.outputIndex === place),
    )
    return last?.complete && id && last.id ? undefined : last
  }

  private byId(kind: ItemKind, id: string | undefined): OutputItem | undefined {
    const item = id ? this.ids.get(id) : undefined
    return item?.kind === kind ? item : undefined
  }

  private make(kind: ItemKind, id: string | undefined, place: number | undefined): OutputItem {
    const free = place !== undefined && !this.places.has(place)
    const item = createItem(kind, free ? place : Math.max(-1, ...this.places) + 1, place, id)
    this.places.add(item.place)
    this.items.push(item)
    if (id) this.ids.set(id, item)
    return item
  }

  // The end -----------------------------------------------------------------------------------------------------

  private finish(response: Event, type?: string) {
    if (isRecord(response['usage'])) this.usage = readUsage(response['usage'])
    const status = typeof response['status'] === 'string' ? response['status'] : type
    if (status === 'failed' || status === 'cancelled' || type === 'failed' || type === 'cancelled') {
      throw new AnswerError(response['error'] ?? { message: `the response was ${status}` })
    }
    if (Array.isArray(response['output'])) this.take(response['output'])
    const details = isRecord(response['incomplete_details']) ? response['incomplete_details'] : {}
    const why = typeof details['reason'] === 'string' ? details['reason'] : 'max_output_tokens'
    this.reason = status === 'incomplete' || type === 'incomplete' ? why : 'completed'
  }

  /** The whole answer once more: what is known is only completed, and what no event brought is added. */
  private take(output: readonly unknown[]) {
    const values = output.filter(isRecord)
    const named = new Set(values.map(idOf))
    const taken = new Set<OutputItem>()
    for (const [place, value] of values.entries()) {
      const kind = kindOf(value)
      if (!kind) continue
      const id = idOf(value)
      // Ids may have changed on the way: then the next one of its kind that no other id means.
      const next = this.items.find(item => item.kind === kind && !taken.has(item) && !(item.id && named.has(item.id)))
      const item = this.byId(kind, id) ?? next ?? this.make(kind, id, place)
      taken.add(item)
      this.close(item, value)
    }
  }

  private finishReason(): Exclude<FinishReason, 'error' | 'aborted'> {
    if (this.reason === 'content_filter') return 'refusal'
    if (this.reason !== undefined && this.reason !== 'completed') return 'max-tokens'
    if (this.items.some(item => item.kind === 'function_call')) return 'tool-calls'
    return this.items.some(item => item.refused) ? 'refusal' : 'stop'
  }
}

/** Where the item stands in the answer. */
const placeOf = ({ output_index: place }: Event): number | undefined =>
  Number.isInteger(place) && (place as number) >= 0 && (place as number) < MAX_PLACE ? (place as number) : undefined

const idOf = (value: Item): string | undefined =>
  typeof value['id'] === 'string' && value['id'] ? value['id'] : undefined

/** Items of other kinds are what the provider does on its own side, as a search: they say nothing to us. */
function kindOf(value: Item): ItemKind | undefined {
  const { type } = value
  return type === 'message' || type === 'reasoning' || type === 'function_call' ? type : undefined
}
