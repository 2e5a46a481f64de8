/** What may be appended next. Each rule answers with its name and what is wrong, and costs the same however long the log is. */

import { type LiveType, type SessionEventMap, TOOL_NOT_STARTED } from '@cambium/session'
import type { LogState } from './log-state.ts'

export interface Problem {
  readonly rule: Rule
  /** One sentence, without anything that was said in the conversation. */
  readonly problem: string
}

export const RULES = {
  'live-events': 'what is live is told and never logged, and the reverse',
  'turns-nest': 'a turn follows the last one, and ends when its steps have ended',
  'steps-nest': 'a step lies in a turn, follows the last one, and ends when its calls have results',
  'one-answer': 'a step has one answer, and failures before it',
  'calls-pair': 'each call of an answer is begun once and has one result, in order',
  'inbox-conserved': 'what was received is admitted or withdrawn once, and nothing else is',
  'input-before-answer': 'input enters a step before its answer',
  'pairs-kept': 'a replacement takes a call and its result together',
  'compaction-pairs': 'one compaction at a time, which ends',
  'resumed-closed': 'a session is taken up between turns',
  'request-is-logged': 'a request of the conversation is what the log says',
  'told-in-order': 'listeners hear each event once, in order and frozen',
  'results-frozen': 'a final result is told once and cannot be changed',
} as const
export type Rule = keyof typeof RULES

type Draft = {
  [K in keyof SessionEventMap]: { readonly type: K; readonly data: SessionEventMap[K] }
}[keyof SessionEventMap]

/** What is told and never logged, as far as it is known by name. */
export const LIVE: readonly string[] = ['assistant/chunk', 'tool/progress', 'request/retry'] satisfies LiveType[]

/** Judges an event that is about to be appended; its shape is sound already. */
export function judge(state: LogState, draft: { readonly type: string; readonly data: unknown }): Problem | undefined {
  if (draft.type.startsWith('compaction/')) return bracket(state, draft.type)
  return core(state, draft as Draft)
}

function core(state: LogState, event: Draft): Problem | undefined {
  switch (event.type) {
    case 'turn/start':
      return turnStart(state, event.data)
    case 'turn/end':
      return turnEnd(state, event.data)
    case 'step/start':
      return stepStart(state, event.data)
    case 'step/end':
      return stepEnd(state, event.data)
    case 'user/message':
      return admitted(state, event.data.message.id)
    case 'assistant/message':
      return answer(state, event.data)
    case 'request/failed':
      return failed(state, event.data)
    case 'tool/call':
      return begun(state, event.data)
    case 'tool/rewritten':
      return rewritten(state, event.data)
    case 'tool/result':
      return settled(state, event.data)
    case 'inbox/changed':
      return inbox(state, event.data)
    case 'context/replaced': {
      const torn = state.surface.tornBy(event.data)
      return torn === undefined ? undefined : broken('pairs-kept', `a replacement tears a pair apart: ${torn}`)
    }
    case 'session/resumed':
      if (!state.turn) return undefined
      return broken('resumed-closed', `the session is taken up while turn ${state.turn} is open`)
    default:
      return undefined
  }
}

const broken = (rule: Rule, problem: string): Problem => ({ rule, problem })

// Turns and steps -------------------------------------------------------------------------------------------------

function turnStart({ turn, lastTurn }: LogState, next: { turn: number }): Problem | undefined {
  if (turn) return broken('turns-nest', `turn ${next.turn} starts while turn ${turn} is open`)
  if (next.turn === lastTurn + 1) return undefined
  return broken('turns-nest', `turn ${next.turn} starts after turn ${lastTurn}`)
}

function turnEnd({ turn, step }: LogState, end: { turn: number }): Problem | undefined {
  if (turn !== end.turn) return broken('turns-nest', `turn ${end.turn} ends, and ${open(turn, 'turn')}`)
  return step ? broken('turns-nest', `turn ${turn} ends while its step ${step} is open`) : undefined
}

function stepStart(state: LogState, next: { turn: number; step: number }): Problem | undefined {
  const { turn, step, lastStep } = state
  const name = `step ${next.step} of turn ${next.turn}`
  if (!turn || turn !== next.turn) return broken('steps-nest', `${name} starts, and ${open(turn, 'turn')}`)
  if (step) return broken('steps-nest', `${name} starts while step ${step} is open`)
  return next.step === lastStep + 1 ? undefined : broken('steps-nest', `${name} starts after step ${lastStep}`)
}

function stepEnd(state: LogState, end: { turn: number; step: number }): Problem | undefined {
  const outside = elsewhere(state, end, 'steps-nest', `step ${end.step} of turn ${end.turn} ends`)
  if (outside) return outside
  const lone = firstUnsettled(state)
  if (lone === undefined) return undefined
  return broken('calls-pair', `step ${end.step} of turn ${end.turn} ends and its call ${lone} has no result`)
}

/** What belongs to a step must lie in it. */
function elsewhere(
  { turn, step }: LogState,
  at: { turn: number; step: number },
  rule: Rule,
  what: string,
): Problem | undefined {
  if (turn === at.turn && step === at.step) return undefined
  return broken(rule, `${what}, and ${step ? `step ${step} of turn ${turn} is open` : open(turn, 'turn', 'step')}`)
}

function open(turn: number, ...kinds: string[]): string {
  const last = kinds.at(-1)
  return turn && last === 'turn' ? `turn ${turn} is open` : `no ${last} is open`
}

// Answers ---------------------------------------------------------------------------------------------------------

function answer(state: LogState, data: SessionEventMap['assistant/message']): Problem | undefined {
  const { turn, step, message } = data
  const outside = elsewhere(state, data, 'one-answer', `an answer of step ${step} of turn ${turn} is logged`)
  if (outside) return outside
  if (state.answered) return broken('one-answer', `step ${step} of turn ${turn} is answered a second time`)
  const own = new Set<string>()
  for (const block of message.content) {
    if (block.type !== 'tool-call') continue
    if (state.callIds.has(block.id) || own.has(block.id)) {
      return broken('calls-pair', `the id of call ${block.id} (${block.name}) was used before in this session`)
    }
    own.add(block.id)
  }
  return undefined
}

function failed(state: LogState, data: SessionEventMap['request/failed']): Problem | undefined {
  const { turn, step, attempt } = data
  const name = `attempt ${attempt} of step ${step} of turn ${turn}`
  const outside = elsewhere(state, data, 'one-answer', `${name} failed`)
  if (outside) return outside
  if (state.answered) return broken('one-answer', `${name} failed after the step was answered`)
  return attempt > state.failed ? undefined : broken('one-answer', `${name} failed after attempt ${state.failed}`)
}

// Calls -----------------------------------------------------------------------------------------------------------

function begun(state: LogState, data: SessionEventMap['tool/call']): Problem | undefined {
  const { callId, name } = data
  const outside = elsewhere(state, data, 'calls-pair', `call ${callId} (${name}) is begun`)
  if (outside) return outside
  const call = state.calls.get(callId)
  if (call?.begun || state.settled.has(callId)) {
    return broken('calls-pair', `call ${callId} (${name}) is begun a second time`)
  }
  if (!call)
    return broken('calls-pair', `call ${callId} (${name}) is begun, and the answer of its step has no such call`)
  if (call.name !== name)
    return broken('calls-pair', `call ${callId} is begun as ${name}, and the model called ${call.name}`)
  if (call.arguments === data.arguments) return undefined
  return broken('calls-pair', `call ${callId} (${name}) is logged with other arguments than the model wrote`)
}

function rewritten({ calls }: LogState, { callId }: { callId: string }): Problem | undefined {
  if (calls.get(callId)?.begun) return undefined
  return broken('calls-pair', `arguments of call ${callId} are rewritten, which is not under way`)
}

function settled(state: LogState, data: SessionEventMap['tool/result']): Problem | undefined {
  const { message, error } = data
  const [block] = message.content
  if (block?.type !== 'tool-result') return undefined
  const id = block.toolCallId
  const outside = elsewhere(state, data, 'calls-pair', `a result of call ${id} is logged`)
  if (outside) return outside
  if (state.settled.has(id)) return broken('calls-pair', `call ${id} has a second result`)
  const call = state.calls.get(id)
  if (!call)
    return broken('calls-pair', `a result is logged for call ${id}, which the answer of its step does not have`)
  // What repair closes after a crash was never begun.
  if (!call.begun && error?.code !== TOOL_NOT_STARTED) {
    return broken('calls-pair', `call ${id} (${call.name}) has a result and was never begun`)
  }
  const { source } = message
  if (source.kind !== 'tool' || source.callId !== id) {
    return broken('calls-pair', `the result of call ${id} (${call.name}) says that it comes from elsewhere`)
  }
  const first = firstUnsettled(state)
  return first === id ? undefined : broken('calls-pair', `the result of call ${id} comes before that of call ${first}`)
}

function firstUnsettled({ calls }: LogState): string | undefined {
  return calls.keys().next().value
}

// Input -----------------------------------------------------------------------------------------------------------

function admitted({ step, answered, left }: LogState, id: string): Problem | undefined {
  const way = left.get(id)
  if (way) return broken('inbox-conserved', `message ${id} is admitted, and was ${way} before`)
  if (!step) return broken('input-before-answer', `message ${id} is admitted outside a step`)
  return answered
    ? broken('input-before-answer', `message ${id} is admitted behind the answer of step ${step}`)
    : undefined
}

function inbox({ pending, left }: LogState, data: SessionEventMap['inbox/changed']): Problem | undefined {
  const received = new Set<string>()
  for (const { message } of data.inserted ?? []) {
    const { id } = message
    if (pending.has(id) || received.has(id))
      return broken('inbox-conserved', `message ${id} is received while it is pending`)
    if (left.get(id) === 'admitted')
      return broken('inbox-conserved', `message ${id} is received, and was admitted before`)
    received.add(id)
  }
  for (const id of data.withdrawn ?? []) {
    if (!pending.has(id) && !received.delete(id)) {
      return broken('inbox-conserved', `message ${id} is withdrawn, and is not pending`)
    }
  }
  return undefined
}

// Compaction ------------------------------------------------------------------------------------------------------

function bracket({ compaction }: LogState, type: string): Problem | undefined {
  if (type === 'compaction/started' && compaction !== undefined) {
    return broken('compaction-pairs', `a compaction starts while the one of event ${compaction} is under way`)
  }
  if (type === 'compaction/ended' && compaction === undefined) {
    return broken('compaction-pairs', 'a compaction ends, and none is under way')
  }
  return undefined
}
