/** `ctx.llm.meter`: how large a request is, from what the provider has counted and an estimate of the rest. */

import type { AssistantMessage, Message } from '../message.ts'
import type { Route, TokenUsage, ToolSchema } from '../stream.ts'
import { messageTokens, type RequestParts, requestTokens, systemTokens, toolTokens } from './estimate.ts'
import { type Vocabulary, vocabularyOf } from './vocabulary.ts'

/** A request whose tokens the provider has counted. */
export interface MeterAnchor extends RequestParts {
  readonly route: Route
  readonly usage: TokenUsage
  /** The answer that `usage.outputTokens` are of. */
  readonly answer?: AssistantMessage
}

export interface MeterInput extends RequestParts {
  readonly route: Route
  readonly anchor?: MeterAnchor | undefined
}

/** `tokens` is the sum of the other two. */
export interface Measurement {
  readonly tokens: number
  /** What rests on the provider's own count. */
  readonly anchored: number
  /** What was estimated. */
  readonly estimated: number
}

/** How many of the last counts of a route decide; an older one is forgotten. */
const SAMPLES = 9
/** Stands for our own estimate until there is better. */
const PRIOR = { ratio: 1, weight: 0.5 }
/** A request of this size counts fully; a small one mostly tells what frames it. */
const FULL_TOKENS = 2_000
/** What lies outside is no matter of vocabularies: a count that leaves something out, or is of something else. */
const SANE = { least: 0.25, most: 4 }
const FACTOR = { least: 0.5, most: 2 }
const MAX_ROUTES = 200

interface Sample {
  readonly ratio: number
  readonly weight: number
}

export class TokenMeter {
  private readonly samples = new Map<string, Sample[]>()
  private readonly factors = new Map<string, number>()

  /**
   * Learns from a request that was estimated (by {@link estimate}, uncalibrated) and then counted. The middle of the last
   * nine decides, so that one that is far off changes nothing and an old habit of the provider is forgotten.
   */
  calibrate(route: Route, estimated: number, actual: number): void {
    const ratio = actual / estimated
    if (!(ratio >= SANE.least && ratio <= SANE.most)) return
    const key = keyOf(route)
    const list = this.samples.get(key) ?? []
    list.push({ ratio, weight: Math.min(1, estimated / FULL_TOKENS) })
    if (list.length > SAMPLES) list.shift()
    if (!this.samples.has(key) && this.samples.size >= MAX_ROUTES) {
      const [oldest] = this.samples.keys()
      this.samples.delete(oldest!)
      this.factors.delete(oldest!)
    }
    this.samples.set(key, list)
    this.factors.set(key, Math.min(FACTOR.most, Math.max(FACTOR.least, median([PRIOR, ...list]))))
  }

  /** Calibrates by a request that was sent and what its provider says that it cost. */
  learn(route: Route, request: RequestParts, usage: TokenUsage): void {
    this.calibrate(route, requestTokens(request, vocabularyOf(route.model)), inputOf(usage))
  }

  /** As in a new process, which learns from the log that it takes up. */
  forget(): void {
    this.samples.clear()
    this.factors.clear()
  }

  /** By what an estimate is multiplied for this route; 1 as long as nothing is known of it. */
  factor(route: Route): number {
    return this.factors.get(keyOf(route)) ?? 1
  }

  /** Whether a request of this route has been counted in this process. */
  knows(route: Route): boolean {
    return this.samples.has(keyOf(route))
  }

  /** Input tokens of a request, by calibrated estimate alone. */
  estimate(route: Route, request: RequestParts): number {
    return Math.round(this.factor(route) * requestTokens(request, vocabularyOf(route.model)))
  }

  /**
   * Input tokens of a request that goes on from one that was counted: what both share costs what the provider counted,
   * its answer included, and only what came since is estimated. Where system, tools or history were changed since, what
   * is left of the counted request costs its share of the count. Another route has another count: all is estimated.
   * Never negative; never less for more messages.
   */
  measure({ route, system, tools = [], messages, anchor }: MeterInput): Measurement {
    const vocabulary = vocabularyOf(route.model)
    const factor = this.factor(route)
    const request = { ...(system === undefined ? {} : { system }), tools, messages }
    const counted = anchor && keyOf(anchor.route) === keyOf(route) ? inputOf(anchor.usage) : 0
    if (!anchor || !counted) return measurement(0, factor * requestTokens(request, vocabulary))
    const said = answerTokens(anchor)
    const goesOn =
      (system ?? '') === (anchor.system ?? '') && sameTools(tools, anchor.tools ?? []) && startsWith(messages, anchor)
    if (!goesOn) return this.spread(request, { anchor, counted, said, vocabulary, factor })
    let anchored = counted
    let rest = 0
    for (let at = anchor.messages.length; at < messages.length; at++) {
      const message = messages[at]!
      if (message === anchor.answer) anchored += said
      else rest += messageTokens(message, vocabulary)
    }
    return measurement(anchored, factor * rest)
  }

  /** The count is spread over what was sent, by our estimate of each part, and counts for the parts that are still there. */
  private spread({ system, tools = [], messages }: RequestParts, from: Spread): Measurement {
    const { anchor, counted, said, vocabulary, factor } = from
    const perToken = counted / (requestTokens(anchor, vocabulary) || 1)
    const sent = new Set<Message>(anchor.messages)
    const sentTools = new Set((anchor.tools ?? []).map(toolText))
    let shared = 0
    let answered = 0
    let rest = 0
    if ((system ?? '') === (anchor.system ?? '')) shared += systemTokens(system, vocabulary)
    else rest += systemTokens(system, vocabulary)
    for (const tool of tools) {
      const tokens = toolTokens(tool, vocabulary)
      if (sentTools.has(toolText(tool))) shared += tokens
      else rest += tokens
    }
    for (const message of messages) {
      if (message === anchor.answer) answered = said
      else if (sent.has(message)) shared += messageTokens(message, vocabulary)
      else rest += messageTokens(message, vocabulary)
    }
    return measurement(perToken * shared + answered, factor * rest)
  }
}

interface Spread {
  readonly anchor: MeterAnchor
  readonly counted: number
  readonly said: number
  readonly vocabulary: Vocabulary
  readonly factor: number
}

const keyOf = ({ provider, model }: Route) => `${provider}/${model}`

const inputOf = ({ inputTokens, cacheReadTokens, cacheWriteTokens }: TokenUsage) =>
  inputTokens + cacheReadTokens + cacheWriteTokens

/** What the answer costs as part of the next request: reasoning that is not kept is not sent either. */
function answerTokens({ usage, answer }: MeterAnchor): number {
  const kept = answer?.content.some(({ type }) => type === 'reasoning')
  return Math.max(0, usage.outputTokens - (kept ? 0 : usage.reasoningTokens))
}

function startsWith(messages: readonly Message[], { messages: sent }: MeterAnchor): boolean {
  if (messages.length < sent.length) return false
  for (let at = sent.length - 1; at >= 0; at--) if (messages[at] !== sent[at]) return false
  return true
}

function sameTools(a: readonly ToolSchema[], b: readonly ToolSchema[]): boolean {
  return (
    a === b || (a.length === b.length && a.every((tool, at) => tool === b[at] || toolText(tool) === toolText(b[at]!)))
  )
}

const toolTexts = new WeakMap<ToolSchema, string>()
function toolText(tool: ToolSchema): string {
  let text = toolTexts.get(tool)
  if (text === undefined) {
    const { name, description, parameters } = tool
    text = JSON.stringify([name, description, parameters])
    toolTexts.set(tool, text)
  }
  return text
}

function measurement(anchored: number, estimated: number): Measurement {
  const tokens = Math.round(anchored + estimated)
  return {
    tokens,
    anchored: Math.min(tokens, Math.round(anchored)),
    estimated: tokens - Math.min(tokens, Math.round(anchored)),
  }
}

/** The ratio with as much weight below it as above. */
function median(samples: readonly Sample[]): number {
  const sorted = [...samples].sort((a, b) => a.ratio - b.ratio)
  let left = sorted.reduce((sum, { weight }) => sum + weight, 0) / 2
  for (const { ratio, weight } of sorted) {
    left -= weight
    if (left <= 0) return ratio
  }
  return PRIOR.ratio
}
