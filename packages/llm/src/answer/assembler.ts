/** Builds an answer's blocks from its chunks. */

import { type AssistantBlock, CallId } from '../message.ts'
import type { FinishReason, LlmFailure, StreamChunk, TokenUsage } from '../stream.ts'

interface OpenBlock {
  type: AssistantBlock['type']
  text: string
  id: string
  name: string
  closed: AssistantBlock | undefined
}

/**
 * Feed it every chunk of one attempt. The first `block-end` of a block wins and deltas after it are ignored; a stream
 * of deltas alone, without starts and ends, is understood as well.
 */
export class BlockAssembler {
  /** The provider's count, once it has come. */
  usage: TokenUsage | undefined
  /** Undefined until `finish`. */
  finish: { readonly reason: FinishReason; readonly failure?: LlmFailure } | undefined
  private readonly open = new Map<number, OpenBlock>()

  push(chunk: StreamChunk): void {
    switch (chunk.type) {
      case 'block-start':
        this.at(chunk.index, chunk.blockType)
        break
      case 'text-delta':
        this.at(chunk.index, 'text').text += chunk.text
        break
      case 'reasoning-delta':
        this.at(chunk.index, 'reasoning').text += chunk.text
        break
      case 'tool-call-delta': {
        const block = this.at(chunk.index, 'tool-call')
        block.text += chunk.argumentsDelta
        if (chunk.id) block.id = chunk.id
        if (chunk.name) block.name = chunk.name
        break
      }
      case 'block-end':
        this.at(chunk.index, chunk.block.type).closed ??= chunk.block
        break
      case 'usage':
        this.usage = chunk.usage
        break
      case 'finish':
        this.finish ??= { reason: chunk.reason, ...(chunk.failure ? { failure: chunk.failure } : {}) }
    }
  }

  /**
   * The answer in order of the blocks' indexes. A tool call that was still open when the answer was cut or failed is
   * left out: its arguments may parse by accident and still not be what the model was about to say.
   */
  blocks(): AssistantBlock[] {
    const cut = this.cut()
    return this.sorted().flatMap(([index, block]) => {
      if (block.closed) return [block.closed]
      return cut && block.type === 'tool-call' ? [] : [finished(index, block)]
    })
  }

  /** Tool calls that were cut; the model should hear that its output limit was reached. */
  cutCalls(): { readonly id: CallId; readonly name: string }[] {
    if (!this.cut()) return []
    return this.sorted().flatMap(([index, block]) => {
      const is = block.type === 'tool-call' && !block.closed
      return is ? [{ id: CallId(block.id || `call-${index}`), name: block.name }] : []
    })
  }

  /** What a person has seen of an answer that was interrupted: text and reasoning that are not blank. */
  interruptedBlocks(): AssistantBlock[] {
    return this.sorted().flatMap(([index, block]) => {
      const value = block.closed ?? finished(index, block)
      return value.type !== 'tool-call' && value.text.trim() ? [value] : []
    })
  }

  /** Whether text or reasoning has been shown. */
  get visible(): boolean {
    return this.interruptedBlocks().length > 0
  }

  private cut(): boolean {
    const reason = this.finish?.reason
    return reason === 'max-tokens' || reason === 'error' || reason === 'aborted'
  }

  private sorted(): [number, OpenBlock][] {
    return [...this.open].sort(([a], [b]) => a - b)
  }

  private at(index: number, type: AssistantBlock['type']): OpenBlock {
    const known = this.open.get(index)
    if (known) return known
    const block: OpenBlock = { type, text: '', id: '', name: '', closed: undefined }
    this.open.set(index, block)
    return block
  }
}

function finished(index: number, { type, text, id, name }: OpenBlock): AssistantBlock {
  if (type === 'tool-call') return { type, id: CallId(id || `call-${index}`), name, arguments: text }
  return { type, text }
}
