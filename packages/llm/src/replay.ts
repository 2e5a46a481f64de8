/** Answers as a model once did: the answers are those of a session's log, in order, without a network and without a key. */

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Context, errorMessage, HarnessError, isHarnessError } from '@cambium/core'
import Schema from 'schemastery'
import { LlmAdapter } from './adapter.ts'
import { CallId } from './message.ts'
import { type RecordedAnswer, type RecordedEvent, type RecordedSummary, recordedAnswers } from './replay/answers.ts'
import type {} from './service.ts'
import type { LlmRequest, ModelInfo, StreamChunk } from './stream.ts'
import { LlmError } from './web/failure.ts'

export {
  type RecordedAnswer,
  type RecordedEvent,
  type RecordedSummary,
  recordedAnswers,
  recordedSummaries,
} from './replay/answers.ts'

export const name = 'replay'
export const inject = ['llm']

export interface Config {
  provider: string
  log: string
}

export const Config: Schema<Config> = Schema.object({
  provider: Schema.string().default('replay').description('Name of the provider'),
  log: Schema.string()
    .required()
    .description('A session’s log, one JSON event a line, as a path from the file that names it'),
})

export function apply(ctx: Context, { provider, log }: Config) {
  const path = ctx.baseUrl ? fileURLToPath(new URL(log, ctx.baseUrl)) : log
  ctx.llm.registerAdapter(provider, new ReplayAdapter(readEvents(path), { provider }))
}

function readEvents(path: string): RecordedEvent[] {
  try {
    const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean)
    return lines.map((line, index) => {
      try {
        return JSON.parse(line) as RecordedEvent
      } catch (cause) {
        throw new HarnessError('LLM_REPLAY_UNREADABLE', 'the log has a line that is no JSON', {
          where: `${path}:${index + 1}`,
          fix: 'name the log of a session as it is exported, one JSON event a line',
          cause,
        })
      }
    })
  } catch (cause) {
    if (isHarnessError(cause)) throw cause
    throw new HarnessError('LLM_REPLAY_UNREADABLE', `the log ${path} cannot be read: ${errorMessage(cause)}`, {
      fix: 'correct the path; it is taken from the folder of the file that names it',
      cause,
    })
  }
}

export interface ReplayOptions {
  readonly provider?: string
  /** What is known of a model; nothing by default. */
  readonly info?: (model: string) => ModelInfo | undefined
  /** What a summary that a compaction asks for is answered with, in order; one that failed then fails. */
  readonly summaries?: readonly RecordedSummary[]
  /** Called when all of an answer that was cut off is told; the request must then be cancelled. By default it fails. */
  readonly interrupted?: (answer: RecordedAnswer) => void
}

const PIECE_CHARS = 4_096

/**
 * Answers each request with the next answer of a log: `new ReplayAdapter(session.events())`. Failures fail as they did,
 * whatever is asked for; a request too many fails as well.
 */
export class ReplayAdapter extends LlmAdapter {
  override readonly kind = 'named'
  private readonly answers: readonly RecordedAnswer[]
  private readonly options: ReplayOptions
  private next = 0
  private nextSummary = 0

  constructor(events: Iterable<RecordedEvent>, options: ReplayOptions = {}) {
    super()
    this.answers = recordedAnswers(events)
    this.options = options
  }

  /** The answer that comes next; undefined after the last. */
  upcoming(): RecordedAnswer | undefined {
    return this.answers[this.next]
  }

  /** Answers that nobody has asked for yet. */
  left(): number {
    return this.answers.length - this.next
  }

  override models(): readonly ModelInfo[] {
    const ids = new Set(this.answers.map(({ config }) => config.model))
    return [...ids].map(id => this.info(id) ?? { id })
  }

  override info(id: string): ModelInfo | undefined {
    return this.options.info?.(id)
  }

  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    if (request.purpose) {
      yield* this.summary(request.purpose)
      return
    }
    const answer = this.answers[this.next]
    if (!answer) throw this.spent('the recording has no further answer')
    this.next++
    if (answer.usage && answer.failure) yield { type: 'usage', usage: answer.usage }
    if (answer.failure) throw new LlmError(answer.failure)
    yield* this.tell(answer, request)
  }

  private *summary(purpose: NonNullable<LlmRequest['purpose']>): Generator<StreamChunk> {
    const summary = purpose === 'compaction' ? this.options.summaries?.[this.nextSummary++] : undefined
    if (summary === undefined) throw this.spent(`the recording has no answer for a ${purpose}`)
    const { text, error, usage } = summary
    if (usage) yield { type: 'usage', usage }
    // Its attempts and waits are over: it fails at once, whatever it failed by then.
    if (text === undefined) throw this.spent(`no summary was had then (${error?.code}): ${error?.message}`)
    yield { type: 'block-start', index: 0, blockType: 'text' }
    yield { type: 'text-delta', index: 0, text }
    yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    yield { type: 'finish', reason: 'stop' }
  }

  private spent(message: string): LlmError {
    const provider = this.options.provider ?? 'replay'
    return new LlmError({ code: 'INVALID_REQUEST', message: `${provider}: ${message}` })
  }

  private async *tell(answer: RecordedAnswer, { signal }: LlmRequest): AsyncGenerator<StreamChunk> {
    const { content, usage, finish, interrupted, cutInCall } = answer
    let index = 0
    for (const block of content) {
      const { type } = block
      yield { type: 'block-start', index, blockType: type }
      if (type === 'tool-call') {
        yield { type: 'tool-call-delta', index, id: block.id, name: block.name, argumentsDelta: block.arguments }
      } else {
        for (const text of pieces(block.text)) {
          yield { type: type === 'text' ? 'text-delta' : 'reasoning-delta', index, text }
        }
      }
      if (!interrupted) yield { type: 'block-end', index, block }
      index++
      if (signal?.aborted) return
    }
    if (interrupted) {
      if (!this.options.interrupted)
        throw new LlmError({ code: 'ABORTED', message: 'the recorded answer was cut off here' })
      if (usage) yield { type: 'usage', usage }
      this.options.interrupted(answer)
      await aborted(signal)
      return
    }
    // What was dropped then is dropped again: a call that was cut, or one that nobody had offered.
    const dropped = !content.length && (finish === 'stop' || finish === 'tool-calls')
    if (cutInCall || dropped) {
      const id = CallId(`dropped-${this.next}`)
      yield { type: 'block-start', index, blockType: 'tool-call' }
      yield { type: 'tool-call-delta', index, id, name: 'dropped', argumentsDelta: '{}' }
      if (dropped) {
        yield { type: 'block-end', index, block: { type: 'tool-call', id, name: 'dropped', arguments: '{}' } }
      }
    }
    if (usage) yield { type: 'usage', usage }
    yield { type: 'finish', reason: finish }
  }
}

/** Whole characters: half a surrogate pair is no text. */
function* pieces(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(text.length, at + PIECE_CHARS)
    if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1]!)) end++
    yield text.slice(at, end)
    at = end
  }
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    if (!signal || signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
