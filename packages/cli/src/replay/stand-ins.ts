/** What a replay says in the place of models and tools, from what was recorded. */

import type { CancelCause } from '@cambium/agent'
import { LlmAdapter, LlmError, toFailure } from '@cambium/llm'
import { isIntact, type SessionEvent, type SessionEventMap } from '@cambium/session'
import type { ToolResult } from '@cambium/tools'
import type { RecordedTurn } from './recording.ts'

/** Stands in the tree for the models that were asked then: their providers need neither be mounted nor have a key. */
export const PROVIDER = 'cambium-replay'

export type Recorded = SessionEventMap['tool/result']

/** The provider of an agent that nobody has told yet what it is to be asked with. */
export class Nobody extends LlmAdapter {
  override readonly kind = 'named'
  override stream() {
    return nothing()
  }
}

export async function* nothing() {
  const failure = toFailure(new LlmError({ code: 'INVALID_REQUEST', message: 'a replay asks no model' }))
  yield { type: 'finish', reason: 'error', failure } as const
}

export function resultsOf(events: readonly SessionEvent[]): Map<string, Recorded> {
  const results = new Map<string, Recorded>()
  for (const event of events) {
    if (event.type !== 'tool/result' || !isIntact(event)) continue
    const [block] = event.data.message.content
    if (block?.type === 'tool-result') results.set(block.toolCallId, event.data)
  }
  return results
}

export function lastHeader(events: readonly SessionEvent[]): readonly SessionEvent[] {
  const found = events.findLast(event => event.type === 'request/header' && isIntact(event))
  return found ? [found] : []
}

export function resultText({ message }: Recorded): string {
  const [block] = message.content
  if (block?.type !== 'tool-result') return ''
  return block.content.flatMap(item => (item.type === 'text' ? [item.text] : [])).join('\n')
}

export function failed(code: string, message: string): ToolResult {
  const content = [{ type: 'text', text: message }] as const
  return { isError: true, content, error: { code, message }, contexts: [], concludesTurn: false, durationMs: 0 }
}

export function causeOf({ reason }: RecordedTurn): CancelCause {
  if (reason.kind === 'limit') return { by: 'limit', reason: reason.reason }
  if (reason.kind !== 'aborted') return { by: 'user', reason: 'the recording breaks off here' }
  return { by: reason.by, ...(reason.reason ? { reason: reason.reason } : {}) }
}

export function howItEnded({ reason }: RecordedTurn): string {
  if (reason.kind === 'aborted') return `was cancelled (by ${reason.by})`
  return reason.kind === 'limit' ? 'was ended by a limit' : 'was cut off with its process'
}
