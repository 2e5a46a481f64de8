/** Holds an adapter to the grammar of a stream, and settles what every adapter would otherwise decide for itself. */

import { type AssistantBlock, CallId } from '../message.ts'
import type { StreamChunk, TokenUsage } from '../stream.ts'
import { LlmError } from '../web/failure.ts'

interface Block {
  readonly type: AssistantBlock['type']
  open: boolean
  /** A tool call's id as it came, and as it goes on. */
  came: string
  id: string
}

/** Thirty times the longest that models give. It has to fit into memory a few times over, and into a line of the log. */
const MAX_ANSWER_CHARS = 16 * 2 ** 20

export interface GrammarOptions {
  readonly provider: string
  /** Ids that no new call may have. */
  readonly taken: readonly { has(id: string): boolean }[]
  /** Our names of tools, by the names they were sent under. */
  readonly toolNames: ReadonlyMap<string, string>
}

/**
 * Checks each chunk in order and gives back what goes on: call ids made unique, tool names translated back, a finish
 * that fits the blocks.
 */
export class Grammar {
  private readonly options: GrammarOptions
  private readonly blocks = new Map<number, Block>()
  private readonly ids = new Set<string>()
  /** The next suffix of each id that was taken, so that a thousand equal ones are not counted through a thousand times. */
  private readonly suffixes = new Map<string, number>()
  private usage = false
  private said = false
  private thought = false
  private calls = 0
  private chars = 0

  constructor(options: GrammarOptions) {
    this.options = options
  }

  /** @throws LlmError `MALFORMED_RESPONSE` for a chunk that may not come here. */
  check(chunk: StreamChunk): StreamChunk {
    switch (chunk.type) {
      case 'block-start':
        if (this.blocks.has(chunk.index)) throw this.wrong(`block ${chunk.index} was started twice`)
        this.blocks.set(chunk.index, { type: chunk.blockType, open: true, came: '', id: '' })
        if (chunk.blockType === 'tool-call') this.calls++
        return chunk
      case 'text-delta':
        this.need(chunk.index, 'text')
        this.grow(chunk.text)
        this.said ||= chunk.text.trim() !== ''
        return chunk
      case 'reasoning-delta':
        this.need(chunk.index, 'reasoning')
        this.grow(chunk.text)
        this.thought ||= chunk.text.trim() !== ''
        return chunk
      case 'tool-call-delta': {
        const id = this.callId(this.need(chunk.index, 'tool-call'), chunk.id)
        this.grow(chunk.argumentsDelta)
        const name = chunk.name === undefined ? undefined : (this.options.toolNames.get(chunk.name) ?? chunk.name)
        return id === chunk.id && name === chunk.name
          ? chunk
          : { ...chunk, id, ...(name === undefined ? {} : { name }) }
      }
      case 'block-end':
        return { ...chunk, block: this.end(this.need(chunk.index, chunk.block.type), chunk.block) }
      case 'usage':
        if (this.usage) throw this.wrong('usage came twice')
        this.usage = true
        return { ...chunk, usage: soundUsage(chunk.usage) }
      case 'finish':
        return this.finish(chunk)
    }
  }

  private end(block: Block, value: AssistantBlock): AssistantBlock {
    block.open = false
    if (value.type === 'text') this.said ||= value.text.trim() !== ''
    if (value.type === 'reasoning') this.thought ||= value.text.trim() !== ''
    if (value.type !== 'tool-call') return value
    const name = this.options.toolNames.get(value.name) ?? value.name
    return { ...value, id: this.callId(block, value.id), name }
  }

  private finish(chunk: StreamChunk & { type: 'finish' }): StreamChunk {
    const { reason, failure } = chunk
    if (reason === 'error' || reason === 'aborted') {
      if (failure) return chunk
      return { ...chunk, failure: { code: reason === 'error' ? 'UNKNOWN' : 'ABORTED', message: 'no reason was given' } }
    }
    for (const [index, block] of this.blocks) {
      if (block.open && !(reason === 'max-tokens' && block.type === 'tool-call')) {
        throw this.wrong(`block ${index} was not ended`)
      }
    }
    if (reason === 'refusal' || reason === 'max-tokens') return chunk
    if (this.calls) return { ...chunk, reason: 'tool-calls' }
    if (this.said) return { ...chunk, reason: 'stop' }
    const message = this.thought ? 'thought, but said nothing' : 'gave an empty answer'
    throw new LlmError({ code: 'EMPTY_RESPONSE', message: `${this.options.provider} ${message}` })
  }

  private grow(text: string): void {
    this.chars += text.length
    if (this.chars <= MAX_ANSWER_CHARS) return
    const { provider } = this.options
    throw new LlmError({
      code: 'MALFORMED_RESPONSE',
      message: `the answer of ${provider} does not end: it is longer than ${MAX_ANSWER_CHARS} characters`,
    })
  }

  private need(index: number, type: AssistantBlock['type']): Block {
    const block = this.blocks.get(index)
    if (!block?.open) throw this.wrong(`block ${index} is not open`)
    if (block.type !== type) throw this.wrong(`block ${index} is ${block.type}, not ${type}`)
    return block
  }

  /** A call keeps the id it got with its first chunk; providers repeat ids within and across answers. */
  private callId(block: Block, came: string): CallId {
    if (block.id && (came === block.came || !came)) return CallId(block.id)
    const free = (id: string) => !this.ids.has(id) && !this.options.taken.some(taken => taken.has(id))
    const base = came || 'call'
    let id = base
    let n = this.suffixes.get(base) ?? 2
    while (!free(id)) id = `${base}-${n++}`
    this.suffixes.set(base, n)
    this.ids.delete(block.id)
    this.ids.add(id)
    block.came = came
    block.id = id
    return CallId(id)
  }

  private wrong(problem: string): LlmError {
    return new LlmError({
      code: 'MALFORMED_RESPONSE',
      message: `the adapter of ${this.options.provider} broke the order of a stream: ${problem}`,
    })
  }
}

/** More tokens than any answer has, or dollars than any costs: a broken number must not end a budget, nor a sum. */
const MAX_COUNT = 1e12

function soundUsage({ cost, ...counts }: TokenUsage): TokenUsage {
  const sound = (value: number) => (value > 0 && value <= MAX_COUNT ? Math.round(value) : 0)
  return {
    inputTokens: sound(counts.inputTokens),
    outputTokens: sound(counts.outputTokens),
    cacheReadTokens: sound(counts.cacheReadTokens),
    cacheWriteTokens: sound(counts.cacheWriteTokens),
    reasoningTokens: sound(counts.reasoningTokens),
    ...(cost !== undefined && cost >= 0 && cost <= MAX_COUNT ? { cost } : {}),
  }
}
