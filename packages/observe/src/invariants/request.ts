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

/** Of one session: what was found equal is not looked at again, so that a request costs what is new in it. */
export class RequestCheck {
  private requests = 0
  private replacements = 0
  private readonly equal = new WeakMap<Message, Message>()
  private tools: { actual: unknown; header: unknown } | undefined

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
    const { config, system, tools } = state.header.data
    const folded = this.foldedApart(session, state)
    if (folded) return folded
    const expected = normaliseRequest(
      { ...config, ...(system ? { system } : {}), ...(tools ? { tools } : {}), messages: state.surface.messages },
      { imageRules: ALL_IMAGES },
    ).request
    const says = `${at} is not what the log says:`
    if (!same(configOf(request), configOf(expected))) return `${says} its model or options are others`
    if (request.system !== expected.system) return `${says} its system prompt is another`
    if (!this.sameTools(request.tools, expected.tools)) return `${says} its tools are others`
    const difference = this.messages(expected.messages, request.messages)
    return difference && `${says} ${difference}`
  }

  /** The session's own account from scratch, now and then: after a replacement, and at each doubling of the requests. */
  private foldedApart(session: Session, { surface }: LogState): string | undefined {
    const count = ++this.requests
    if ((count & (count - 1)) !== 0 && this.replacements === surface.replacements) return undefined
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
    // Both are the very same lists from step to step.
    if (this.tools && this.tools.actual === actual && this.tools.header === expected) return true
    if (!same(actual, expected)) return false
    this.tools = { actual, header: expected }
    return true
  }

  private messages(expected: readonly Message[], actual: readonly Message[]): string | undefined {
    const count = Math.max(expected.length, actual.length)
    for (let at = 0; at < count; at++) {
      const wanted = expected[at]
      const found = actual[at]
      if (wanted === found) continue
      if (!found) return `message ${at} of the log (${wanted!.role}, ${wanted!.id}) is not in it`
      if (!wanted) return `its message ${at} (${found.role}, ${found.id}) is not in the log`
      if (this.equal.get(found) === wanted) continue
      if (wanted.role !== found.role || !sameBlocks(wanted.content, found.content)) {
        return `its message ${at} (${found.role}, ${found.id}) is not that of the log (${wanted.role}, ${wanted.id})`
      }
      this.equal.set(found, wanted)
    }
    return undefined
  }
}

function configOf(request: LlmRequest): Record<string, unknown> {
  return Object.fromEntries(Object.entries(request).filter(([key]) => !UNLOGGED.has(key)))
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
