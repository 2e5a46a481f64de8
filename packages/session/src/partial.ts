/** Collects the answer that is being streamed, for viewers who come late and for the store's journal. */

import type { AssistantBlock } from '@cambium/llm'
import type { LiveEventMap } from './event.ts'
import type { PartialMessage } from './session.ts'

type Draft =
  | { type: 'text' | 'reasoning'; text: string }
  | { type: 'tool-call'; id: string; name: string; arguments: string }

export class PartialAnswer {
  readonly turn: number
  readonly step: number
  readonly attempt: number
  private readonly blocks = new Map<number, { draft: Draft; done?: AssistantBlock }>()
  private snapshot: PartialMessage | undefined

  constructor(at: { turn: number; step: number; attempt: number }) {
    this.turn = at.turn
    this.step = at.step
    this.attempt = at.attempt
  }

  /** True when a chunk belongs to this attempt; another attempt starts a new answer. */
  accepts(at: { turn: number; step: number; attempt: number }): boolean {
    return at.turn === this.turn && at.step === this.step && at.attempt === this.attempt
  }

  /** A chunk that breaks the grammar is passed over: judging it is the business of `ctx.llm`. */
  add({ chunk }: LiveEventMap['assistant/chunk']): void {
    this.snapshot = undefined
    if (chunk.type === 'block-start') {
      const { index, blockType: type } = chunk
      const draft: Draft = type === 'tool-call' ? { type, id: '', name: '', arguments: '' } : { type, text: '' }
      this.blocks.set(index, { draft })
    } else if ('index' in chunk) {
      const block = this.blocks.get(chunk.index)
      if (!block || block.done) return
      if (chunk.type === 'block-end') block.done = chunk.block
      else if (chunk.type !== 'tool-call-delta') {
        if (block.draft.type !== 'tool-call') block.draft.text += chunk.text
      } else if (block.draft.type === 'tool-call') {
        block.draft.id = chunk.id
        if (chunk.name) block.draft.name = chunk.name
        block.draft.arguments += chunk.argumentsDelta
      }
    }
  }

  /** The answer so far; made anew only after a chunk came. */
  read(): PartialMessage {
    this.snapshot ??= Object.freeze({
      turn: this.turn,
      step: this.step,
      attempt: this.attempt,
      content: Object.freeze(
        [...this.blocks]
          .sort(([a], [b]) => a - b)
          .map(([, { draft, done }]) => Object.freeze({ ...(done ?? draft) }) as AssistantBlock),
      ),
    })
    return this.snapshot
  }
}
