/** A request of the conversation against the log: whatever the model is about to read can be rebuilt from it. */

import { type LlmRequest, type Message, normaliseRequest, type ToolSchema } from '@cambium/llm'
import { foldSurface, type Session } from '@cambium/session'
import type { LogState } from './log-state.ts'
import type { Problem } from './rules.ts'

/** What a request has besides what the log says of it. */
const UNLOGGED = new Set(['messages', 'system', 'tools', 'signal', 'sessionId', 'scope', 'takenCallIds', 'purpose'])

/**
 * Which images stay is the adapter's to say, by rules that are not known here: every one stays in what is expected, and
 * text in the place of one is let pass.
 */
const ALL_IMAGES = { maxCount: Number.MAX_SAFE_INTEGER, maxBase64: Number.MAX_SAFE_INTEGER }

interface Verified {
  /** As they were sent. */
  readonly sent: readonly Message[]
  /** How many messages of the log that is. */
  readonly logged: number
  readonly replacements: number
}

/** Of one session. What a request has in common with the last one, object by object, is not looked at again. */
export class RequestCheck {
  private requests = 0
  private nextFold = 1
  private replacements = 0
  private verified: Verified = { sent: [], logged: 0, replacements: 0 }
  private header: { readonly event: unknown; readonly expected: LlmRequest } | undefined
  private tools: { readonly actual: readonly ToolSchema[]; readonly expected: unknown } | undefined

  /** `state` has caught up. */
  judge(session: Session, state: LogState, request: LlmRequest): Problem | undefined {
    const problem = this.difference(session, state, request)
    return problem === undefined ? undefined : { rule: 'request-is-logged', problem }
  }

  private difference(session: Session, state: LogState, request: LlmRequest): string | undefined {
    if (!state.step) return 'a request of the conversation is made outside a step'
    const at = `the request of step ${state.step} of turn ${state.turn}`
    if (state.answered) return `${at} is made when the step has its answer`
    if (!state.header) return `${at} is made before any request/header`
    const folded = this.foldedApart(session, state)
    if (folded) return folded
    const expected = this.expectedHeader(state.header)
    const says = `${at} is not what the log says:`
    if (!sameConfig(request, expected)) return `${says} its model or options are others`
    if (request.system !== expected.system) return `${says} its system prompt is another`
    if (!this.sameTools(request.tools, expected.tools)) return `${says} its tools are others`
    const { messages, replacements } = state.surface
    if (!this.goesOn(state, expected, request.messages)) {
      const difference = firstDifference(asSent(expected, messages), request.messages)
      if (difference) return `${says} ${difference}`
    }
    this.verified = { sent: request.messages, logged: messages.length, replacements }
    return undefined
  }

  private expectedHeader(event: NonNullable<LogState['header']>): LlmRequest {
    if (this.header?.event !== event) {
      const { config, system, tools } = event.data
      const request = { ...config, ...(system ? { system } : {}), ...(tools ? { tools } : {}), messages: [] }
      this.header = { event, expected: normaliseRequest(request).request }
    }
    return this.header.expected
  }

  /** True when these are the messages that were right the last time, and what the log has had since. */
  private goesOn({ surface }: LogState, expected: LlmRequest, actual: readonly Message[]): boolean {
    const { sent, logged, replacements } = this.verified
    if (replacements !== surface.replacements || logged > surface.messages.length) return false
    if (!sent.every((message, at) => message === actual[at])) return false
    const fresh = surface.messages.slice(logged)
    const more = actual.slice(sent.length)
    // Nearly always the log's own objects: there was nothing to make sendable.
    if (fresh.length === more.length && fresh.every((message, at) => message === more[at])) return true
    return firstDifference(fresh.length ? asSent(expected, fresh) : [], more) === undefined
  }

  /** The session's own account from scratch, now and then: after a replacement, and at requests 1, 4, 16, 64, … */
  private foldedApart(session: Session, { surface }: LogState): string | undefined {
    const due = ++this.requests === this.nextFold
    if (!due && this.replacements === surface.replacements) return undefined
    if (due) this.nextFold *= 4
    this.replacements = surface.replacements
    const folded = foldSurface(session.events())
    const { entries } = surface
    const at = folded.findIndex(
      ({ seq, message }, index) => entries[index]?.seq !== seq || entries[index]?.message !== message,
    )
    if (at < 0 && folded.length === entries.length) return undefined
    return `two accounts of what the model reads differ at message ${at < 0 ? folded.length : at}`
  }

  private sameTools(actual: readonly ToolSchema[] | undefined, expected: readonly ToolSchema[] | undefined): boolean {
    if (actual === expected) return true
    if (!actual || !expected || actual.length !== expected.length) return false
    // The list may be made anew for each request; what stands in it is the same from step to step.
    const known = this.tools
    if (known?.expected === expected && actual.every((tool, at) => tool === known.actual[at])) return true
    if (!same(actual, expected)) return false
    this.tools = { actual, expected }
    return true
  }
}

const asSent = ({ provider, model }: LlmRequest, messages: readonly Message[]) =>
  normaliseRequest({ provider, model, messages }, { imageRules: ALL_IMAGES }).request.messages

function firstDifference(expected: readonly Message[], actual: readonly Message[]): string | undefined {
  const count = Math.max(expected.length, actual.length)
  for (let at = 0; at < count; at++) {
    const wanted = expected[at]
    const found = actual[at]
    if (wanted === found) continue
    if (!found) return `message ${at} of the log (${wanted!.role}, ${wanted!.id}) is not in it`
    if (!wanted) return `its message ${at} (${found.role}, ${found.id}) is not in the log`
    if (wanted.role !== found.role || !sameBlocks(wanted.content, found.content)) {
      return `its message ${at} (${found.role}, ${found.id}) is not that of the log (${wanted.role}, ${wanted.id})`
    }
  }
  return undefined
}

function sameConfig(a: LlmRequest, b: LlmRequest): boolean {
  const left = a as unknown as Record<string, unknown>
  const right = b as unknown as Record<string, unknown>
  const differs = (key: string) => !UNLOGGED.has(key) && !same(left[key], right[key])
  return !Object.keys(left).some(differs) && !Object.keys(right).some(differs)
}

interface Block {
  readonly type: string
  readonly content?: readonly Block[]
}

function sameBlocks(expected: readonly Block[], actual: readonly Block[]): boolean {
  return (
    expected.length === actual.length &&
    expected.every((block, at) => {
      const found = actual[at]!
      if (block === found || (block.type === 'image' && found.type === 'text')) return true
      if (!block.content || !found.content) return same(block, found)
      const { content: inner, ...rest } = block
      const { content: foundInner, ...foundRest } = found
      return same(rest, foundRest) && sameBlocks(inner, foundInner)
    })
  )
}

/** Of JSON data; a key without a value is as good as none. */
function same(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, at) => same(item, b[at]))
  }
  const left = a as Record<string, unknown>
  const right = b as Record<string, unknown>
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)]))
    if (!same(left[key], right[key])) return false
  return true
}
