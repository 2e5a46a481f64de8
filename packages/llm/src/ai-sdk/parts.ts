/** Reads the parts of a stream of the AI SDK as chunks. */

import type { JsonObject } from '@cambium/core'
import { type AssistantBlock, CallId } from '../message.ts'
import type { FinishReason, StreamChunk } from '../stream.ts'
import { LlmError } from '../web/failure.ts'
import { isRecord, stringOf } from '../web/value.ts'
import type { StreamPart } from './language-model.ts'
import { addMetadata, replayOf } from './prompt.ts'
import { readUsage } from './usage.ts'

interface Block {
  readonly type: AssistantBlock['type']
  readonly index: number
  readonly name: string
  readonly id: string
  text: string
  pending: string
  started: boolean
  metadata: JsonObject | undefined
}

/** Thrown for a part of type `error`: what it carries. */
export class PartError extends Error {
  override readonly name = 'PartError'
  readonly error: unknown
  constructor(error: unknown) {
    super('the stream holds an error')
    this.error = error
  }
}

export class PartReader {
  /** Open ones by kind and id: ids are used again, for blocks of another kind at the same time as well. */
  private readonly open = new Map<string, Block>()
  /** Calls that the provider runs on its own side. */
  private readonly theirs = new Set<string>()
  private out: StreamChunk[] = []
  private readonly changed = new Set<Block>()
  /** A complete call, held back till something follows: the last one before an output limit is the one that was cut. */
  private held: Block | undefined
  private index = 0
  private readonly provider: string
  finished = false

  constructor(provider: string) {
    this.provider = provider
  }

  /** Whether the part shows that the provider goes on; one that only says that it is there does not. */
  push(part: StreamPart): boolean {
    if (this.finished) return false
    switch (part.type) {
      case 'text-start':
      case 'text-delta':
      case 'text-end':
        this.prose('text', part)
        return true
      case 'reasoning-start':
      case 'reasoning-delta':
      case 'reasoning-end':
        this.prose('reasoning', part)
        return true
      case 'tool-input-start':
      case 'tool-input-delta':
      case 'tool-input-end':
        this.input(part)
        return true
      case 'tool-call':
        this.call(part)
        return true
      case 'finish':
        this.finish(part)
        return true
      case 'error':
        throw new PartError(part['error'])
      case 'stream-start':
      case 'response-metadata':
      case 'ping':
      case 'raw':
        return false
      default:
        // Sources, files and what its own tools gave: nothing that a conversation holds.
        return true
    }
  }

  flush(): StreamChunk[] {
    this.flushBlocks()
    const out = this.out
    this.out = []
    return out
  }

  // Text and reasoning ------------------------------------------------------------------------------------------

  private prose(type: 'text' | 'reasoning', part: StreamPart) {
    const key = `${type} ${stringOf(part['id'])}`
    const block = this.open.get(key) ?? this.begin(key, type, '', '')
    block.metadata = addMetadata(block.metadata, part['providerMetadata'])
    const delta = part.type.endsWith('-delta') ? stringOf(part['delta']) : ''
    if (delta) this.grow(block, delta)
    if (part.type.endsWith('-end')) this.end(key, block)
  }

  private end(key: string, block: Block) {
    this.open.delete(key)
    const replay = block.type === 'reasoning' ? replayOf(block.metadata) : undefined
    if (!block.started && !block.pending && !replay) return
    this.release()
    this.flushBlocks()
    this.start(block)
    const value = { type: block.type as 'text', text: block.text, ...(replay ? { replay } : {}) }
    this.out.push({ type: 'block-end', index: block.index, block: value })
  }

  // Calls -------------------------------------------------------------------------------------------------------

  private input(part: StreamPart) {
    const id = stringOf(part['id'])
    if (part.type === 'tool-input-start' && part['providerExecuted'] === true) this.theirs.add(id)
    if (this.theirs.has(id)) return
    const key = `tool-call ${id}`
    const block = this.open.get(key) ?? this.begin(key, 'tool-call', id, stringOf(part['toolName']))
    block.metadata = addMetadata(block.metadata, part['providerMetadata'])
    this.grow(block, part.type === 'tool-input-delta' ? stringOf(part['delta']) : '')
  }

  private call(part: StreamPart) {
    const id = stringOf(part['toolCallId'])
    if (part['providerExecuted'] === true || this.theirs.has(id)) return
    const key = `tool-call ${id}`
    const name = stringOf(part['toolName'])
    const begun = this.open.get(key)
    const block = begun ?? this.begin(key, 'tool-call', id, name)
    this.open.delete(key)
    block.metadata = addMetadata(block.metadata, part['providerMetadata'])
    const whole = typeof part['input'] === 'string' ? part['input'] : JSON.stringify(part['input'] ?? {})
    this.grow(block, whole.startsWith(block.text) ? whole.slice(block.text.length) : '')
    block.text = whole
    this.flushBlocks()
    this.held = block
  }

  /** Ends the call that was held back. */
  private release() {
    const { held } = this
    if (!held) return
    this.held = undefined
    this.flushBlocks()
    const { index, id, name, text, metadata } = held
    const replay = replayOf(metadata)
    const block = { type: 'tool-call' as const, id: CallId(id), name, arguments: text, ...(replay ? { replay } : {}) }
    this.out.push({ type: 'block-end', index, block })
  }

  // Blocks ------------------------------------------------------------------------------------------------------

  private begin(key: string, type: Block['type'], id: string, name: string): Block {
    const block: Block = {
      type,
      index: this.index++,
      id,
      name,
      text: '',
      pending: '',
      started: false,
      metadata: undefined,
    }
    this.open.set(key, block)
    return block
  }

  private grow(block: Block, delta: string) {
    this.release()
    block.text += delta
    block.pending += delta
    this.changed.add(block)
  }

  private start(block: Block) {
    if (block.started) return
    block.started = true
    this.out.push({ type: 'block-start', index: block.index, blockType: block.type })
  }

  private flushBlocks() {
    for (const block of this.changed) {
      const { type, index, id, name, pending } = block
      const announced = block.started
      this.start(block)
      block.pending = ''
      if (type === 'tool-call') {
        if (!announced) {
          this.out.push({ type: 'tool-call-delta', index, id: CallId(id), name, argumentsDelta: pending })
        } else if (pending) this.out.push({ type: 'tool-call-delta', index, id: CallId(id), argumentsDelta: pending })
      } else if (pending) {
        this.out.push({ type: type === 'text' ? 'text-delta' : 'reasoning-delta', index, text: pending })
      }
    }
    this.changed.clear()
  }

  // The end -----------------------------------------------------------------------------------------------------

  private finish(part: StreamPart) {
    const { unified, raw } = reasonOf(part['finishReason'])
    const usage = readUsage(part['usage'], part['providerMetadata'])
    if (usage) this.out.push({ type: 'usage', usage })
    if (unified === 'error') {
      throw new LlmError({ code: 'SERVER', message: `${this.provider} broke its answer off${raw ? `: ${raw}` : ''}` })
    }
    const cut = [...this.open.values()].some(block => block.type === 'tool-call')
    // Packages say so of a stream that broke off, as they know no better.
    const unsaid = unified === 'unsaid' || (unified === 'unknown' && !usage?.outputTokens)
    if (unsaid || (cut && !(unified in FINISHES))) {
      throw new LlmError({
        code: 'STREAM_CLOSED',
        message: `${this.provider} closed the stream before its answer was complete`,
      })
    }
    const reason = FINISHES[unified] ?? 'stop'
    if (reason !== 'max-tokens') this.release()
    for (const [key, block] of [...this.open]) {
      if (block.type !== 'tool-call') this.end(key, block)
      else if (reason === 'refusal') this.garble(key, block)
    }
    this.flushBlocks()
    this.finished = true
    this.out.push({ type: 'finish', reason })
  }

  /** A call that a filter cut: no JSON, so that it fails wherever it is run. */
  private garble(key: string, block: Block) {
    this.open.delete(key)
    this.flushBlocks()
    block.text = `(garbled: the answer was broken off here) ${block.text}`
    this.held = block
    this.release()
  }
}

const FINISHES: Readonly<Record<string, FinishReason>> = {
  length: 'max-tokens',
  'content-filter': 'refusal',
}

/** A word since ever, and what the provider itself said beside it since the third version. */
function reasonOf(value: unknown): { readonly unified: string; readonly raw: string } {
  if (typeof value === 'string') return { unified: value, raw: '' }
  if (!isRecord(value)) return { unified: 'unknown', raw: '' }
  const raw = stringOf(value['raw'])
  const unified = stringOf(value['unified'])
  // What the provider said is missing where it has said nothing; the fourth version has a word for it.
  const unsaid = unified === 'interrupted' || (unified === 'other' && !raw)
  return { unified: unsaid ? 'unsaid' : unified, raw }
}
