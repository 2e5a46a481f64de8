/** One step's request: choose the model, ask, retry what can be repaired, and commit the answer. */

import { type Context, waterfall } from '@cambium/core'
import {
  type AssistantBlock,
  BlockAssembler,
  type FailedAttemptDecision,
  type LlmCallConfig,
  type LlmFailure,
  type LlmService,
  newMessageId,
  type StreamChunk,
  type TokenUsage,
  type ToolCallBlock,
  type ToolSchema,
} from '@cambium/llm'
import type { SessionEventMap, Sessions } from '@cambium/session'
import { CallIds } from './call-ids.ts'
import type { DrivenAgent } from './driver.ts'
import type { RequestErrorInput } from './events.ts'
import { answered, Cancelled, heard } from './listeners.ts'

type Finish = SessionEventMap['assistant/message']['finish']

export interface StepPosition {
  readonly turn: number
  readonly step: number
}

export interface StepAnswer {
  readonly finish: Finish
  /** Whole calls only: an answer that was cut off has none. */
  readonly calls: readonly ToolCallBlock[]
  /** The answer was cut in the middle of calls, which were dropped. */
  readonly cutCalls: boolean
}

/** A request failed for good. */
export class RequestFailed extends Error {
  override readonly name = 'RequestFailed'
  readonly failure: LlmFailure
  constructor(failure: LlmFailure) {
    super(failure.message)
    this.failure = failure
  }
}

interface Attempt {
  readonly content: readonly AssistantBlock[]
  readonly interrupted: readonly AssistantBlock[]
  /** The output limit came inside a call; the assembler has left that one out. */
  readonly cutInCall: boolean
  readonly usage: TokenUsage | undefined
  readonly reason: Finish | 'error' | 'aborted'
  readonly failure: LlmFailure | undefined
}

export interface Prompt {
  readonly system: string
  readonly tools: readonly ToolSchema[]
  /** No call of the answer will be run: one that comes all the same is not part of it. */
  readonly last?: boolean
}

export class StepRequest {
  private readonly ctx: Context
  private readonly llm: LlmService
  private readonly sessions: Sessions
  private readonly callIds = new CallIds()

  constructor(ctx: Context) {
    this.ctx = ctx
    this.llm = ctx.llm
    this.sessions = ctx.sessions
  }

  /**
   * Asks until an answer is committed as `assistant/message`.
   * @throws RequestFailed, Cancelled
   */
  async ask(agent: DrivenAgent, at: StepPosition, prompt: Prompt, signal: AbortSignal): Promise<StepAnswer> {
    let chosen: LlmCallConfig | undefined
    for (let attempt = 1; ; attempt++) {
      const config = chosen ?? (await this.choose(agent, at, signal))
      this.logHeader(agent, config, prompt)
      await this.sessions.flush(agent.session)
      if (signal.aborted) throw new Cancelled()
      const result = await this.attempt(agent, { ...at, attempt }, { config, prompt, signal })
      if (result.reason === 'aborted' || signal.aborted) {
        this.keepVisible(agent, { ...at, attempt }, config, result)
        throw new Cancelled()
      }
      if (result.reason !== 'error') return this.commit(agent, at, { config, prompt }, result)

      const failure = result.failure ?? { code: 'UNKNOWN', message: 'the request failed without a reason' }
      const usage = result.usage ? { usage: result.usage } : {}
      agent.session.append('request/failed', { ...at, attempt, failure, ...usage })
      const visible = result.interrupted.length > 0
      const input = { agent, ...at, attempt, config, failure, visible, signal }
      const decision = await this.repair(agent, input)
      if (signal.aborted) throw new Cancelled()
      if (decision.kind === 'fail') throw new RequestFailed(failure)
      chosen = decision.config
    }
  }

  private async choose(agent: DrivenAgent, at: StepPosition, signal: AbortSignal): Promise<LlmCallConfig> {
    const { config } = agent
    const event = 'agent/request'
    const answer = waterfall(this.ctx, agent, event, { agent, ...at, signal, config }, async () => config)
    const chosen = await heard(this.ctx, event, answer, signal)
    if (signal.aborted) throw new Cancelled()
    return answered(event, chosen, ({ provider, model }) => !!provider && !!model, 'a provider and a model')
  }

  private async repair(agent: DrivenAgent, input: RequestErrorInput): Promise<FailedAttemptDecision> {
    const event = 'agent/request-error'
    const answer = waterfall(this.ctx, agent, event, input, async () => ({ kind: 'fail' as const }))
    const decision = await heard(this.ctx, event, answer, input.signal)
    return answered(event, decision, ({ kind }) => kind === 'fail' || kind === 'retry', 'a decision')
  }

  /** What every request is made with is in the log, once for as long as it stays the same. */
  private logHeader(agent: DrivenAgent, config: LlmCallConfig, { system, tools }: Prompt) {
    const header = { config, ...(system ? { system } : {}), ...(tools.length ? { tools } : {}) }
    const before = agent.session.last('request/header')?.data
    if (before && sameHeader(before, header)) return
    agent.session.append('request/header', header)
  }

  private async attempt(
    agent: DrivenAgent,
    at: StepPosition & { attempt: number },
    request: { config: LlmCallConfig; prompt: Prompt; signal: AbortSignal },
  ): Promise<Attempt> {
    const { session } = agent
    const { system, tools } = request.prompt
    const assembler = new BlockAssembler()
    let usage: TokenUsage | undefined
    let finish: StreamChunk & { type: 'finish' } = { type: 'finish', reason: 'stop' }
    const stream = this.llm.stream({
      ...request.config,
      ...(system ? { system } : {}),
      ...(tools.length ? { tools } : {}),
      messages: session.deriveMessages(),
      signal: request.signal,
      sessionId: session.id,
      ...this.callIds.notIn(session),
      scope: agent,
    })
    for await (const chunk of stream) {
      assembler.push(chunk)
      if (chunk.type === 'usage') usage = chunk.usage
      if (chunk.type === 'finish') finish = chunk
      session.publish('assistant/chunk', { ...at, chunk })
    }
    const { reason, failure } = finish
    const failed = reason === 'error' || reason === 'aborted'
    const content = failed ? [] : assembler.blocks()
    const interrupted = failed ? assembler.interruptedBlocks() : []
    return { content, interrupted, cutInCall: assembler.cutCalls().length > 0, usage, reason, failure }
  }

  private commit(
    agent: DrivenAgent,
    at: StepPosition,
    { config, prompt }: { config: LlmCallConfig; prompt: Prompt },
    attempt: Attempt,
  ): StepAnswer {
    const finish = attempt.reason as Finish
    const all = attempt.content.filter(block => block.type === 'tool-call')
    // A call that was cut off, by a limit or a filter, may parse by chance and must never run; its neighbours were part
    // of the same plan.
    const cut = finish === 'max-tokens' || finish === 'refusal' || prompt.last === true
    const content = cut ? attempt.content.filter(block => block.type !== 'tool-call') : attempt.content
    this.append(agent, at, config, { content, finish, usage: attempt.usage })
    const cutCalls = finish === 'max-tokens' && (all.length > 0 || attempt.cutInCall)
    return { finish, calls: cut ? [] : all, cutCalls }
  }

  /** After a cancel, what a person has already seen is what the model said. What it cost is kept in any case. */
  private keepVisible(
    agent: DrivenAgent,
    { attempt: number, ...at }: StepPosition & { attempt: number },
    config: LlmCallConfig,
    attempt: Attempt,
  ) {
    const content = attempt.interrupted.length ? attempt.interrupted : visibleOf(attempt.content)
    if (!content.length) {
      const failure = attempt.failure ?? { code: 'ABORTED', message: 'the request was cancelled' }
      if (attempt.usage)
        agent.session.append('request/failed', { ...at, attempt: number, failure, usage: attempt.usage })
      return
    }
    this.append(agent, at, config, { content, finish: 'stop', usage: attempt.usage, interrupted: true })
  }

  private append(
    agent: DrivenAgent,
    at: StepPosition,
    { provider, model }: LlmCallConfig,
    answer: { content: readonly AssistantBlock[]; finish: Finish; usage: TokenUsage | undefined; interrupted?: true },
  ) {
    const { content, finish, usage, interrupted } = answer
    agent.session.append('assistant/message', {
      ...at,
      message: { id: newMessageId(), role: 'assistant', content, source: { kind: 'model', provider, model } },
      ...(usage ? { usage } : {}),
      finish,
      ...(interrupted ? { interrupted } : {}),
    })
  }
}

function visibleOf(content: readonly AssistantBlock[]): AssistantBlock[] {
  return content.filter(block => block.type !== 'tool-call' && block.text.trim())
}

type Header = SessionEventMap['request/header']

/** Frozen schemas keep their identity from step to step, so that comparing is cheap. */
function sameHeader(a: Header, b: Header): boolean {
  if (a.system !== b.system || a.tools?.length !== b.tools?.length) return false
  if (JSON.stringify(a.config) !== JSON.stringify(b.config)) return false
  return headerTools(a) === headerTools(b)
}

const toolTexts = new WeakMap<object, string>()
function headerTools({ tools }: Header): string {
  if (!tools) return ''
  const known = toolTexts.get(tools)
  if (known !== undefined) return known
  const text = JSON.stringify(tools)
  toolTexts.set(tools, text)
  return text
}
