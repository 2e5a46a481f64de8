/** Asks a model for a summary: the conversation's own request, cut short, with the instruction behind it. */

import { type Context, deadline } from '@cambium/core'
import {
  BlockAssembler,
  createUserMessage,
  type LlmCallConfig,
  type LlmFailure,
  type LlmRequest,
  type LlmService,
  type Message,
  streamWithRetry,
  textOf,
} from '@cambium/llm'
import type { Agent } from '@cambium/tools'
import type { Envelope, SpentOnCompaction } from './contract.ts'
import { balancedCuts } from './cuts.ts'
import { digestOf } from './digest.ts'
import { instruction } from './instruction.ts'
import { shortenResult } from './shorten.ts'

export interface SummaryTask {
  readonly agent: Agent
  /** What is to be summed up: whole exchanges. */
  readonly messages: readonly Message[]
  /** With what the last request was made. */
  readonly envelope: Envelope
  /** Input tokens that a request to that model may have; undefined where nobody knows. */
  readonly limit: number | undefined
  readonly maxTokens: number
  readonly focus: string | undefined
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Told what each request cost. */
  readonly spent: (spent: SpentOnCompaction) => void
}

export class SummaryFailed extends Error {
  override readonly name = 'SummaryFailed'
  readonly failure: { readonly code: string; readonly message: string }
  constructor(failure: { readonly code: string; readonly message: string }) {
    super(failure.message)
    this.failure = failure
  }
}

/** Requests of one summary; the second one is smaller, or offers no tools. */
const MAX_REQUESTS = 2
/** Of an outline that stands for what the summariser cannot be sent. */
const OUTLINE_SHARE = 0.1

/** The summary's text. @throws SummaryFailed; what the signal aborts with ends in `ABORTED` */
export async function summarise(ctx: Context, task: SummaryTask): Promise<string> {
  const bound = deadline(task.timeoutMs, task.signal)
  try {
    let limit = task.limit ?? Number.POSITIVE_INFINITY
    let tools = task.envelope.tools
    for (let request = 1; ; request++) {
      const messages = summaryInput(task, ctx.llm, limit)
      const answer = await ask(ctx, { ...task, signal: bound.signal }, messages, tools)
      if (bound.expired())
        throw new SummaryFailed({ code: 'TIMEOUT', message: `no summary within ${task.timeoutMs} ms` })
      const { failure, reason, text } = answer
      if (reason === 'stop' && text) return text
      const again = request < MAX_REQUESTS
      if (failure?.code === 'CONTEXT_WINDOW_EXCEEDED' && again) {
        limit = ctx.llm.meter.estimate(task.envelope.config, { messages }) / 2
      } else if (reason === 'tool-calls' && again && tools.length) tools = []
      else
        throw new SummaryFailed(failure ?? { code: 'EMPTY_RESPONSE', message: WHY[reason] ?? 'the summary is empty' })
    }
  } finally {
    bound.clear()
  }
}

const WHY: Readonly<Record<string, string>> = {
  'max-tokens': 'the summary was cut off by its output limit',
  'tool-calls': 'the model called a tool instead of writing a summary',
  refusal: 'the model refused to write a summary',
}

/** What the summariser reads: as much as it can be sent of what goes, its newest part, and the instruction. */
export function summaryInput(
  { messages, envelope, maxTokens, focus }: Pick<SummaryTask, 'messages' | 'envelope' | 'maxTokens' | 'focus'>,
  llm: Pick<LlmService, 'meter'>,
  limit: number,
): Message[] {
  const { config, system, tools } = envelope
  const price = (list: readonly Message[]) => llm.meter.estimate(config, { messages: list })
  const last = createUserMessage({
    content: instruction({ maxTokens, focus }),
    source: { kind: 'plugin', plugin: 'compaction', form: 'notice' },
  })
  const frame = llm.meter.estimate(config, { ...(system === undefined ? {} : { system }), tools, messages: [last] })
  const room = limit - frame
  if (price(messages) <= room) return [...messages, last]
  const short = messages.map(shortenResult)
  if (price(short) <= room) return [...short, last]
  const cuts = balancedCuts(short)
  const outlineTokens = Math.max(200, Math.floor(room * OUTLINE_SHARE))
  let at = short.length
  let tokens = outlineTokens * 1.5
  for (let place = short.length - 1; place > 0; place--) {
    tokens += price([short[place]!])
    if (tokens > room) break
    if (cuts[place]) at = place
  }
  const outline = createUserMessage({
    content: `[The beginning is left out here, since it is too long for one request. Its outline:]\n${digestOf(
      short.slice(0, at),
      outlineTokens,
      config.model,
    )}`,
    source: { kind: 'plugin', plugin: 'compaction', form: 'notice' },
  })
  return [outline, ...short.slice(at), last]
}

interface Answer {
  readonly text: string
  readonly reason: string
  readonly failure: LlmFailure | undefined
}

async function ask(
  ctx: Context,
  task: SummaryTask,
  messages: readonly Message[],
  tools: NonNullable<LlmRequest['tools']>,
): Promise<Answer> {
  const { agent, envelope, maxTokens, signal, spent } = task
  const { system } = envelope
  const assembler = new BlockAssembler()
  const request: LlmRequest = {
    ...summaryConfig(envelope.config),
    ...(system ? { system } : {}),
    ...(tools.length ? { tools } : {}),
    maxTokens,
    messages,
    signal,
    sessionId: agent.id,
    scope: agent,
    purpose: 'compaction',
  }
  const attempted: NonNullable<Parameters<typeof streamWithRetry>[2]>['attempted'] = ({ route, usage }) => {
    if (usage) spent({ ...route, usage })
  }
  for await (const chunk of streamWithRetry(ctx, request, { attempted })) assembler.push(chunk)
  const { reason = 'stop', failure } = assembler.finish ?? {}
  const failed = reason === 'error' || reason === 'aborted'
  // Only what it says counts: neither its thoughts nor what it would have called.
  return { text: failed ? '' : textOf({ content: assembler.blocks() }).trim(), reason, failure }
}

/** What the last request was made with, so that the provider finds it in its cache. A stop sequence would end the summary. */
function summaryConfig(config: LlmCallConfig): LlmCallConfig {
  const { stop: _stop, insteadOf: _instead, ...rest } = config
  return rest
}
