/** What a session's log says that its model answered, one entry a request. */

import type { AssistantBlock } from '../message.ts'
import type { FinishReason, LlmCallConfig, LlmFailure, TokenUsage } from '../stream.ts'
import { isRecord } from '../web/value.ts'

/** An event as it stands in a log; the log's own room is above this one. */
export interface RecordedEvent {
  readonly type: string
  readonly data: unknown
}

export interface RecordedAnswer {
  readonly turn: number
  readonly step: number
  /** What it was asked with. */
  readonly config: LlmCallConfig
  readonly content: readonly AssistantBlock[]
  readonly usage?: TokenUsage
  readonly finish: Exclude<FinishReason, 'error' | 'aborted'>
  /** The answer was cut off by a cancel; `content` is what was visible. */
  readonly interrupted?: true
  /** It was cut by the output limit inside a call, which was dropped. */
  readonly cutInCall?: true
  /** The request failed, and `content` is empty. */
  readonly failure?: LlmFailure
}

/** In order; events that no answer can be made of are passed over. */
export function recordedAnswers(events: Iterable<RecordedEvent>): RecordedAnswer[] {
  const answers: RecordedAnswer[] = []
  let config: LlmCallConfig = { provider: 'unknown', model: 'unknown' }
  for (const { type, data } of events) {
    if (!isRecord(data)) continue
    const { turn, step } = data
    const at = { turn: Number(turn), step: Number(step), config }
    if (type === 'request/header' && isRecord(data['config'])) {
      config = data['config'] as unknown as LlmCallConfig
    } else if (type === 'step/start') {
      // Only a call that was cut off lets a turn go on after its output limit.
      const last = answers.at(-1)
      if (last?.finish === 'max-tokens' && last.turn === turn) {
        answers[answers.length - 1] = { ...last, cutInCall: true }
      }
    } else if (type === 'request/failed' && isRecord(data['failure'])) {
      answers.push({
        ...at,
        content: [],
        finish: 'stop',
        ...usageOf(data),
        failure: data['failure'] as unknown as LlmFailure,
      })
    } else if (type === 'assistant/message' && isRecord(data['message']) && Array.isArray(data['message']['content'])) {
      answers.push({
        ...at,
        content: data['message']['content'] as AssistantBlock[],
        finish: (data['finish'] as RecordedAnswer['finish'] | undefined) ?? 'stop',
        ...usageOf(data),
        ...(data['interrupted'] ? { interrupted: true } : {}),
      })
    }
  }
  return answers
}

function usageOf({ usage }: Record<string, unknown>): { usage?: TokenUsage } {
  return isRecord(usage) ? { usage: usage as unknown as TokenUsage } : {}
}

/** What a summary that was asked for came to. */
export interface RecordedSummary {
  /** Undefined where none was had. */
  readonly text?: string
  /** Why not. */
  readonly error?: { readonly code: string; readonly message: string }
  /** Of its last request: how long conversations are is learnt from these as well. */
  readonly usage?: TokenUsage
}

/**
 * What a model answered to each compaction of a turn, in order. Those between turns were asked for by a person, who does
 * not ask again.
 */
export function recordedSummaries(events: Iterable<RecordedEvent>): RecordedSummary[] {
  const answers: RecordedSummary[] = []
  let inTurn = true
  /** Answers before the compaction that is under way. */
  let before: number | undefined
  for (const { type, data } of events) {
    if (type === 'turn/start') inTurn = true
    if (type === 'turn/end') inTurn = false
    if (!inTurn || !isRecord(data)) continue
    if (type === 'compaction/started') before = answers.length
    // What is made shorter again afterwards has been asked for once.
    if (type === 'context/replaced' && (before === undefined || before === answers.length)) {
      const text = summaryOf(data)
      if (text !== undefined) answers.push({ text })
    }
    if (type !== 'compaction/ended') continue
    const { error, spent } = data
    // Something else was done in its place, or nothing.
    if (isRecord(error) && before === answers.length) {
      answers.push({ error: { code: String(error['code']), message: String(error['message']) } })
    }
    const last = Array.isArray(spent) ? spent.at(-1) : undefined
    if (isRecord(last) && before === answers.length - 1) answers.push({ ...answers.pop(), ...usageOf(last) })
    before = undefined
  }
  return answers
}

function summaryOf({ message }: Record<string, unknown>): string | undefined {
  if (!isRecord(message)) return undefined
  const { source, content } = message
  if (!isRecord(source) || source['form'] !== 'summary' || !Array.isArray(content)) return undefined
  const blocks = content.flatMap(block => (isRecord(block) && block['type'] === 'text' ? [String(block['text'])] : []))
  const marked = blocks.map(text => /^<summary>\n([\s\S]*)\n<\/summary>$/.exec(text)?.[1]).find(Boolean)
  return marked ?? blocks.join('\n')
}
