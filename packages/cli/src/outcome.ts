/** What came of a task: folded from the session's events between its receipt and the agent's next idleness. */

import type {} from '@cambium/agent/compaction'
import { addUsage, type Route, type TokenUsage, textOf } from '@cambium/llm'
import type { SessionEvent, TurnEndReason } from '@cambium/session'
import type {} from '@cambium/session/title'
import { EXIT, type ExitCode } from './exit-code.ts'
import type { Failure } from './failure.ts'

export type StopReason = 'completed' | 'limit' | 'refused' | 'interrupted' | 'failed'

export interface Outcome {
  /** The text of the last answer; empty when the work failed before there was one. */
  readonly answer: string
  readonly stopReason: StopReason
  readonly exitCode: ExitCode
  /** Why it did not complete, in words for a person. */
  readonly failure?: Failure
  readonly turns: number
  readonly steps: number
  readonly toolCalls: number
  /** Calls that a policy refused. The model was told and went on. */
  readonly denied: readonly { readonly tool: string; readonly reason: string }[]
  readonly usage: TokenUsage
  /** US dollars; absent when the price of one of the models is not known. */
  readonly cost?: number
}

/** US dollars for a request's tokens, where the model's price is known. */
export type CostOf = (usage: TokenUsage, route: Route) => number | undefined

type Answer = SessionEvent<'assistant/message'>['data']

export const NO_USAGE: TokenUsage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
}

/** Folds `events`, which begin at the receipt; `header` is the route of the last `request/header` before them. */
export function foldOutcome(events: readonly SessionEvent[], costOf: CostOf, header?: Route): Outcome {
  let usage = NO_USAGE
  let cost: number | undefined = 0
  let last: Answer | undefined
  let spoken = ''
  let route = header
  let end: TurnEndReason | undefined
  const names = new Map<string, string>()
  const denied: { tool: string; reason: string }[] = []
  const counts = { turns: 0, steps: 0, toolCalls: 0 }
  const spend = (spent: TokenUsage | undefined, by: Route | undefined) => {
    if (!spent) return
    usage = addUsage(usage, spent)
    const price = by && costOf(spent, by)
    cost = cost === undefined || price === undefined ? undefined : cost + price
  }
  for (const { type, data } of events) {
    if (type === 'turn/start') {
      counts.turns++
      end = { kind: 'interrupted' }
      last = undefined
      spoken = ''
    } else if (type === 'turn/end') end = data.reason
    else if (type === 'step/start') counts.steps++
    else if (type === 'tool/call') {
      counts.toolCalls++
      names.set(data.callId, data.name)
    } else if (type === 'tool/result' && data.error && POLICY_CODES.has(data.error.code)) {
      const [block] = data.message.content
      const id = block?.type === 'tool-result' ? block.toolCallId : ''
      denied.push({ tool: names.get(id) ?? '', reason: data.error.message })
    } else if (type === 'assistant/message') {
      last = data
      spoken = textOf(data.message).trim() || spoken
      spend(data.usage, data.message.source.kind === 'model' ? data.message.source : undefined)
      // It cost something all the same.
      if (!data.usage) cost = undefined
    } else if (type === 'request/header') route = data.config
    else if (type === 'request/failed') spend(data.usage, route)
    else if (type === 'compaction/ended') for (const { usage, ...by } of data.spent ?? []) spend(usage, by)
    else if (type === 'session/title') spend(data.usage, data.route)
  }
  const verdict = judge(end, last, spoken)
  return { ...verdict, ...counts, denied, usage, ...(cost === undefined ? {} : { cost }) }
}

/** Codes of results that stand for a refusal, not for a failure of the tool. */
export const POLICY_CODES: ReadonlySet<string> = new Set(['TOOL_DENIED'])

const LATER = 'try again later, or choose another model with --model'

/** What to do about failures that only a person with a command line can mend. */
const FIXES: Readonly<Record<string, string>> = {
  CONTEXT_WINDOW_EXCEEDED: 'start a new session with less in it, or choose a model with a larger window with --model',
  EMPTY_RESPONSE: 'ask again, or choose another model with --model',
  RATE_LIMIT: LATER,
  REFUSED: 'ask for something else, or choose another model with --model',
  SERVER: LATER,
  STREAM_CLOSED: LATER,
  TIMEOUT: LATER,
  TRANSPORT: LATER,
}

type Verdict = Pick<Outcome, 'answer' | 'stopReason' | 'exitCode' | 'failure'>

function judge(end: TurnEndReason | undefined, last: Answer | undefined, spoken: string): Verdict {
  const text = last ? textOf(last.message).trim() : ''
  switch (end?.kind) {
    case 'completed':
      return judgeCompleted(last, text, spoken)
    case 'limit':
      return stopped('limit', EXIT.limit, text, { code: 'LIMIT', message: `stopped by a limit: ${end.reason}` })
    case 'max-tokens':
      return stopped('limit', EXIT.limit, text, {
        code: 'MAX_TOKENS',
        message: "the answer is cut off: it reached the model's output limit",
        fix: 'resume and ask for the rest, or ask for less at once',
      })
    case 'blocked': {
      const message = `refused by policy${end.reason ? `: ${end.reason}` : ''}`
      return stopped('refused', EXIT.refused, '', { code: 'BLOCKED', message })
    }
    case 'aborted': {
      const reason = end.reason ? `: ${end.reason}` : ''
      if (end.by === 'hook') {
        return stopped('refused', EXIT.refused, text, { code: 'STOPPED', message: `stopped by a plugin${reason}` })
      }
      return stopped('interrupted', EXIT.interrupted, text, { code: 'ABORTED', message: `interrupted${reason}` })
    }
    case 'interrupted':
      return stopped('interrupted', EXIT.interrupted, text, { code: 'INTERRUPTED', message: 'interrupted' })
    case 'error': {
      const { code, message, fix = FIXES[code] } = end.error
      return stopped('failed', EXIT.failed, '', { code, message, ...(fix ? { fix } : {}) })
    }
    case undefined:
      return stopped('failed', EXIT.failed, '', {
        code: 'NO_TURN',
        message: 'the agent did not take up the task',
        fix: 'see that the tree mounts a loop (@cambium/agent/loop)',
      })
  }
}

function judgeCompleted(last: Answer | undefined, text: string, spoken: string): Verdict {
  if (last?.finish === 'refusal') {
    const failure = { code: 'REFUSED', message: 'the model refused to answer', fix: FIXES['REFUSED']! }
    return { answer: text, stopReason: 'failed', exitCode: EXIT.failed, failure }
  }
  // A tool that concludes the turn leaves no last word; what the model said before stands.
  const answer = text || (last?.finish === 'tool-calls' ? spoken : '')
  if (answer) return { answer, stopReason: 'completed', exitCode: EXIT.done }
  return stopped('failed', EXIT.failed, '', {
    code: 'EMPTY_RESPONSE',
    message: 'the model ended without an answer',
    fix: FIXES['EMPTY_RESPONSE']!,
  })
}

const stopped = (stopReason: StopReason, exitCode: ExitCode, answer: string, failure: Failure): Verdict => ({
  answer,
  stopReason,
  exitCode,
  failure,
})
