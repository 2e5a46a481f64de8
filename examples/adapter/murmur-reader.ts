/** Reads the events of one murmur. */

import { CallId, type FinishReason, LlmError, type StreamChunk, type TokenUsage } from '@cambium/llm'
import type { AnswerReader } from '@cambium/llm/web'

interface MurmurEvent {
  readonly say?: string
  readonly think?: string
  readonly seal?: string
  readonly call?: { readonly id: string; readonly name: string; readonly input: string }
  readonly end?: string
  readonly spent?: {
    readonly read?: number
    readonly kept?: number
    readonly wrote?: number
    readonly thought?: number
  }
}

interface OpenBlock {
  readonly type: 'text' | 'reasoning'
  readonly index: number
  text: string
  /** What came since the last flush: one network read brings many words, and they go on as one delta. */
  fresh: string
  seal: string | undefined
}

const REASONS: Readonly<Record<string, FinishReason>> = {
  said: 'stop',
  calls: 'tool-calls',
  full: 'max-tokens',
  no: 'refusal',
}

export class MurmurReader implements AnswerReader {
  readonly broken = undefined
  private chunks: StreamChunk[] = []
  private open: OpenBlock | undefined
  private count = 0
  private reason: FinishReason | undefined
  private usage: TokenUsage | undefined

  get finished(): boolean {
    return this.reason !== undefined
  }
  get ended(): boolean {
    return this.reason !== undefined
  }

  push(event: unknown): void {
    if (!isEvent(event)) {
      const said = JSON.stringify(event).slice(0, 100)
      throw new LlmError({ code: 'MALFORMED_RESPONSE', message: `the murmur holds what is no event: ${said}` })
    }
    const { say, think, seal, call, end, spent } = event
    if (think !== undefined || seal !== undefined) this.grow('reasoning', think ?? '', seal)
    if (say !== undefined) this.grow('text', say)
    if (call) this.call(call)
    if (spent) this.usage = toUsage(spent)
    if (end === undefined) return
    this.reason = REASONS[end]
    if (!this.reason) throw new LlmError({ code: 'MALFORMED_RESPONSE', message: `the murmur ended with "${end}"` })
  }

  flush(): StreamChunk[] {
    const { open } = this
    if (open?.fresh) {
      const type = open.type === 'text' ? 'text-delta' : 'reasoning-delta'
      this.chunks.push({ type, index: open.index, text: open.fresh })
      open.fresh = ''
    }
    const out = this.chunks
    this.chunks = []
    return out
  }

  end(): StreamChunk[] {
    this.close()
    return [...this.flush(), ...this.usageSoFar(), { type: 'finish', reason: this.reason ?? 'stop' }]
  }

  usageSoFar(): StreamChunk[] {
    return this.usage ? [{ type: 'usage', usage: this.usage }] : []
  }

  /** This protocol has no answers that are not streamed. */
  whole(): boolean {
    return false
  }

  private grow(type: OpenBlock['type'], text: string, seal?: string): void {
    if (this.open?.type !== type) {
      this.close()
      this.open = { type, index: this.count++, text: '', fresh: '', seal: undefined }
      this.chunks.push({ type: 'block-start', index: this.open.index, blockType: type })
    }
    this.open.text += text
    this.open.fresh += text
    this.open.seal ??= seal
  }

  private close(): void {
    const { open } = this
    if (!open) return
    this.chunks = this.flush()
    const { type, index, text, seal } = open
    const block = type === 'reasoning' && seal !== undefined ? { type, text, replay: seal } : { type, text }
    this.chunks.push({ type: 'block-end', index, block })
    this.open = undefined
  }

  /** Whole in one event. Whether its id was there before, and how the tool is called here, is the service's business. */
  private call({ id, name, input }: NonNullable<MurmurEvent['call']>): void {
    this.close()
    const index = this.count++
    const block = { type: 'tool-call', id: CallId(id), name, arguments: input } as const
    this.chunks.push(
      { type: 'block-start', index, blockType: 'tool-call' },
      { type: 'tool-call-delta', index, id: block.id, name, argumentsDelta: input },
      { type: 'block-end', index, block },
    )
  }
}

/** What comes over a wire may be anything. Keys that nobody knows are news of a later version, and no mistake. */
function isEvent(value: unknown): value is MurmurEvent {
  if (!isObject(value)) return false
  const { call, spent, ...texts } = value
  const spoken = ['say', 'think', 'seal', 'end'].every(key => ['string', 'undefined'].includes(typeof texts[key]))
  const called = call === undefined || (isObject(call) && CALL.every(key => typeof call[key] === 'string'))
  return spoken && called && (spent === undefined || isObject(spent))
}

const CALL = ['id', 'name', 'input']

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null

/** Counts are disjoint: `read` of the server has in it what it had kept. */
function toUsage({ read = 0, kept = 0, wrote = 0, thought = 0 }: NonNullable<MurmurEvent['spent']>): TokenUsage {
  return {
    inputTokens: read - kept,
    cacheReadTokens: kept,
    cacheWriteTokens: 0,
    outputTokens: wrote,
    reasoningTokens: thought,
  }
}
