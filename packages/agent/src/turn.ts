/** One turn: admit input, take steps until nothing is owed, and close it whatever happens. */

import { type Context, errorMessage, isHarnessError, notify, serial, waterfall } from '@cambium/core'
import { createUserMessage, type UserMessage } from '@cambium/llm'
import { isIntact, type TurnEndReason } from '@cambium/session'
import type { CancelCause, Tools } from '@cambium/tools'
import type { DrivenAgent } from './driver.ts'
import type { PreStepDecision, StepInput, SystemPrompt } from './events.ts'
import { answered, Cancelled, heard } from './listeners.ts'
import { renderPrompt } from './prompt.ts'
import { RequestFailed, StepRequest } from './step.ts'

/** How often in one turn the model is told that its calls were cut off, before the turn ends so. */
const MAX_CUT_ANSWERS = 3

interface TurnState {
  readonly turn: number
  readonly signal: AbortSignal
  step: number
  cutAnswers: number
  /** An answer was cut off; the turn says so however it goes on. */
  truncated: boolean
}

type StepOutcome =
  | { readonly kind: 'ended'; readonly reason: TurnEndReason }
  | { readonly kind: 'done'; readonly owed: boolean; readonly concluded: boolean }

export class TurnRunner {
  private readonly ctx: Context
  private readonly tools: Tools
  private readonly prompt: SystemPrompt
  private readonly requests: StepRequest

  constructor(ctx: Context) {
    this.ctx = ctx
    this.tools = ctx.tools
    this.prompt = ctx.systemPrompt
    this.requests = new StepRequest(ctx)
  }

  async run(agent: DrivenAgent, signal: AbortSignal): Promise<void> {
    const { session } = agent
    const turn = session.lastTurn + 1
    session.append('turn/start', { turn })
    let reason: TurnEndReason
    try {
      await agent.started(signal)
      if (signal.aborted) throw new Cancelled()
      reason = await this.steps(agent, { turn, signal, step: 0, cutAnswers: 0, truncated: false })
    } catch (error) {
      reason = reasonOf(error, signal)
      if (reason.kind === 'error') notify(this.ctx, agent, 'agent/error', { agent, turn, error })
    }
    const { step } = session.open
    if (step) session.append('step/end', { turn, step })
    session.append('turn/end', { turn, reason })
  }

  private async steps(agent: DrivenAgent, state: TurnState): Promise<TurnEndReason> {
    for (;;) {
      state.step++
      const outcome = await this.step(agent, state)
      if (outcome.kind === 'ended') return outcome.reason
      if (state.signal.aborted) throw new Cancelled()
      if (outcome.owed || agent.inbox.hasNextStep(outcome.concluded)) continue
      const { turn, signal } = state
      const event = 'agent/turn-stopping'
      await heard(this.ctx, event, serial(this.ctx, agent, event, { agent, turn, signal }), signal)
      if (signal.aborted) throw new Cancelled()
      if (!agent.inbox.hasNextStep(outcome.concluded)) return { kind: state.truncated ? 'max-tokens' : 'completed' }
    }
  }

  private async step(agent: DrivenAgent, state: TurnState): Promise<StepOutcome> {
    const { session, inbox } = agent
    const { turn, step, signal } = state
    const offered = inbox.peek(step === 1)
    let decision: PreStepDecision
    let assembly: Awaited<ReturnType<SystemPrompt['assemble']>>
    try {
      assembly = await heard(this.ctx, 'system-prompt/assemble', this.prompt.assemble({ agent, signal }), signal)
      decision = await this.mayEnter({ agent, turn, step, messages: offered, signal })
      if (signal.aborted) throw new Cancelled()
    } catch (error) {
      // Nothing was admitted, so nothing is lost; but the same input would fail the same way at once.
      if (!(error instanceof Cancelled)) inbox.hold(offered, 'failed')
      throw error
    }
    if (decision.kind === 'reject') {
      inbox.hold(offered, 'rejected')
      return ended({ kind: 'blocked', ...(decision.reason ? { reason: decision.reason } : {}) })
    }
    const wrapUp = decision.kind === 'wrap-up' ? decision.reason : undefined
    const messages = decision.kind === 'enter' ? decision.messages : [...offered, wrapUpNotice(decision.reason)]
    inbox.decline(offered, messages)
    if (step === 1 && !messages.length) return ended({ kind: 'completed' })

    session.append('step/start', { turn, step })
    for (const message of messages) session.append('user/message', { message })
    inbox.admitted(messages)
    notify(this.ctx, agent, 'agent/inbox', agent)

    const last = wrapUp !== undefined
    const prompt = { system: renderPrompt(assembly), tools: last ? [] : assembly.tools, last }
    const answer = await this.requests.ask(agent, { turn, step }, prompt, signal)
    if (wrapUp !== undefined) {
      session.append('step/end', { turn, step })
      return ended({ kind: 'limit', reason: wrapUp })
    }
    const { concluded } = await this.runCalls(agent, answer.calls, signal)
    session.append('step/end', { turn, step })
    if (answer.finish === 'refusal') {
      return ended({ kind: 'error', error: { code: 'REFUSED', message: 'the model refused to answer' } })
    }
    if (answer.finish === 'max-tokens') return this.truncated(agent, state, answer.cutCalls)
    return { kind: 'done', owed: answer.calls.length > 0 && !concluded, concluded }
  }

  private async mayEnter(input: StepInput): Promise<PreStepDecision> {
    const event = 'agent/pre-step'
    const enter = async () => ({ kind: 'enter' as const, messages: input.messages })
    const decision = await heard(this.ctx, event, waterfall(this.ctx, input.agent, event, input, enter), input.signal)
    return answered(event, decision, isPreStepDecision, 'a decision')
  }

  private async runCalls(agent: DrivenAgent, calls: Parameters<typeof toCalls>[0], signal: AbortSignal) {
    if (!calls.length) return { concluded: false }
    return this.tools.runBatch(toCalls(calls), { agent, signal })
  }

  /** A cut-off answer ends the turn, unless it was cut in the middle of calls: then the model is told and tries again. */
  private truncated(agent: DrivenAgent, state: TurnState, cutCalls: boolean): StepOutcome {
    if (!cutCalls) {
      state.truncated = true
      return { kind: 'done', owed: false, concluded: false }
    }
    if (++state.cutAnswers >= MAX_CUT_ANSWERS) return ended({ kind: 'max-tokens' })
    agent.inject(
      notice(
        'Your last answer reached the output limit in the middle of a tool call. No call of that answer was run. ' +
          'Split the work into smaller calls.',
      ),
    )
    return { kind: 'done', owed: true, concluded: false }
  }
}

function isPreStepDecision(decision: PreStepDecision): boolean {
  // What the log would refuse must not take the place of what was offered.
  const whole = (message: UserMessage) => isIntact({ type: 'user/message', data: { message } })
  if (decision.kind === 'enter') return Array.isArray(decision.messages) && decision.messages.every(whole)
  return decision.kind === 'reject' || decision.kind === 'wrap-up'
}

const ended = (reason: TurnEndReason): StepOutcome => ({ kind: 'ended', reason })

function toCalls(calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[]) {
  return calls.map(({ id, name, arguments: text }) => ({ callId: id, name, arguments: text }))
}

function notice(text: string): UserMessage {
  return createUserMessage({ content: text, source: { kind: 'plugin', plugin: 'agent-loop', form: 'notice' } })
}

function wrapUpNotice(reason: string): UserMessage {
  return notice(
    `A limit was reached: ${reason}. This is the last request of this turn and no tool can be called any more. ` +
      'Sum up what was done, what is left, and how to go on.',
  )
}

function reasonOf(error: unknown, signal: AbortSignal): TurnEndReason {
  if (signal.aborted) {
    const cause = signal.reason as CancelCause
    if (cause.by === 'limit') return { kind: 'limit', reason: cause.reason ?? 'a limit was reached' }
    return { kind: 'aborted', by: cause.by, ...(cause.reason ? { reason: cause.reason } : {}) }
  }
  if (error instanceof RequestFailed) return { kind: 'error', error: error.failure }
  if (isHarnessError(error)) {
    return {
      kind: 'error',
      error: { code: error.code, message: error.problem, ...(error.fix ? { fix: error.fix } : {}) },
    }
  }
  return { kind: 'error', error: { code: 'UNKNOWN', message: errorMessage(error) } }
}
