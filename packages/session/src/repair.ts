/** What closes a session that was cut off in mid-turn, so that a model can be asked again. */

import type { AssistantBlock, CallId, UserMessage } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type { EventType, SessionEvent, SessionEventMap } from './event.ts'
import type { PartialMessage } from './session.ts'

/** An event still to be numbered. */
export type EventDraft<K extends EventType = EventType> = {
  [T in K]: { readonly type: T; readonly time: number; readonly data: SessionEventMap[T] }
}[K]

export const TOOL_NOT_STARTED = 'TOOL_NOT_STARTED'
export const TOOL_OUTCOME_UNKNOWN = 'TOOL_OUTCOME_UNKNOWN'

const TEXTS = {
  [TOOL_NOT_STARTED]:
    'Interrupted before this call was started: it has had no effect. Call it again if it is still needed.',
  [TOOL_OUTCOME_UNKNOWN]:
    'Interrupted while this call was running: its outcome is unknown and it may have taken effect. ' +
    'Check what it changed before calling it again.',
}

interface OpenTurn {
  turn: number
  step: number
  answered: boolean
  /** Attempts of the step that were given up. */
  failed: number
  /** The step's calls without a result, in order, and whether each was logged as begun. */
  readonly calls: Map<CallId, { name: string; begun: boolean }>
}

/**
 * The events that end an open turn: the journalled partial answer, an error result for each call without one, the end
 * of the step, the end of the turn. Empty when no turn is open. Pure: the same log gives the same closers, ids included;
 * all carry the time of the last event, since nothing is known to have happened later.
 */
export function interruptedClosers(events: readonly SessionEvent[], partial?: PartialMessage): EventDraft[] {
  const open = openTurn(events)
  if (!open) return []
  const { turn, step } = open
  const time = events.at(-1)?.time ?? 0
  const seq = events.length
  const drafts: EventDraft[] = []
  if (partial && partial.turn === turn && partial.step === step && !open.answered && partial.attempt > open.failed) {
    const answer = visibleAnswer(events, partial, seq)
    if (answer) drafts.push({ type: 'assistant/message', time, data: answer })
  }
  for (const [callId, { begun }] of open.calls) {
    const code = begun ? TOOL_OUTCOME_UNKNOWN : TOOL_NOT_STARTED
    const message: UserMessage = {
      id: `interrupted-${callId}-${seq}`,
      role: 'user',
      content: [
        { type: 'tool-result', toolCallId: callId, content: [{ type: 'text', text: TEXTS[code] }], isError: true },
      ],
      source: { kind: 'tool', callId },
    }
    drafts.push({ type: 'tool/result', time, data: { turn, step, message, error: { code, message: TEXTS[code] } } })
  }
  if (step) drafts.push({ type: 'step/end', time, data: { turn, step } })
  drafts.push({ type: 'turn/end', time, data: { turn, reason: { kind: 'interrupted' } } })
  return drafts
}

function openTurn(events: readonly SessionEvent[]): OpenTurn | undefined {
  let open: OpenTurn | undefined
  // The line that began the turn, or the step, may be lost; what happened in it says which it was.
  const inTurn = (turn: number) => {
    open ??= { turn, step: 0, answered: false, failed: 0, calls: new Map() }
    return open
  }
  // What lies before the last beginning or end of a turn is closed, and may be a hundred thousand events.
  const start = events.findLastIndex(
    ({ type, data }) => (type === 'turn/start' || type === 'turn/end') && !problemOf(type, data),
  )
  for (const event of start < 0 ? events : events.slice(start)) {
    if (problemOf(event.type, event.data)) continue
    switch (event.type) {
      case 'turn/start':
        open = undefined
        inTurn(event.data.turn)
        break
      case 'turn/end':
        open = undefined
        break
      case 'step/start':
        open = nextStep(inTurn(event.data.turn), event.data.step)
        break
      case 'step/end':
        if (open) nextStep(open, 0)
        break
      case 'request/failed':
        if (open) open.failed = Math.max(open.failed, event.data.attempt)
        break
      case 'assistant/message':
        open = inTurn(event.data.turn)
        open.step ||= event.data.step
        open.answered = true
        for (const block of event.data.message.content) {
          if (block.type === 'tool-call') open.calls.set(block.id, { name: block.name, begun: false })
        }
        break
      case 'tool/call':
        open = inTurn(event.data.turn)
        open.step ||= event.data.step
        open.calls.set(event.data.callId, { name: event.data.name, begun: true })
        break
      case 'tool/result': {
        const [block] = event.data.message.content
        if (block?.type === 'tool-result') open?.calls.delete(block.toolCallId)
      }
    }
  }
  return open
}

function nextStep(open: OpenTurn, step: number): OpenTurn {
  open.step = step
  open.answered = false
  open.failed = 0
  open.calls.clear()
  return open
}

/** Text and reasoning that a person had seen. A call in it may be half written and is left out: it was never begun. */
function visibleAnswer(
  events: readonly SessionEvent[],
  partial: PartialMessage,
  seq: number,
): SessionEventMap['assistant/message'] | undefined {
  const content = partial.content.filter(
    (block): block is Exclude<AssistantBlock, { type: 'tool-call' }> => block.type !== 'tool-call' && block.text !== '',
  )
  if (!content.some(block => block.type === 'text')) return undefined
  const header = events.findLast(event => event.type === 'request/header' && !problemOf(event.type, event.data))
  const { provider, model } =
    header?.type === 'request/header' ? header.data.config : { provider: 'unknown', model: 'unknown' }
  return {
    turn: partial.turn,
    step: partial.step,
    message: { id: `interrupted-${seq}`, role: 'assistant', content, source: { kind: 'model', provider, model } },
    finish: 'stop',
    interrupted: true,
  }
}
