/** A log as a person follows it: what was said, what was called and what came of it, where it stopped and went on. */

import type {} from '@cambium/agent/compaction'
import type { JsonValue } from '@cambium/core'
import type { AssistantMessage, Message, ResultBlock, Route, UserMessage } from '@cambium/llm'
import {
  isIntact,
  type SessionEvent,
  type StoredSession,
  type TurnEndReason,
  type TurnOutline,
  turnsOf,
} from '@cambium/session'

export type StoryItem =
  | { readonly kind: 'turn'; readonly turn: number; readonly time: number }
  | { readonly kind: 'said'; readonly message: UserMessage }
  | {
      readonly kind: 'answer'
      readonly message: AssistantMessage
      readonly interrupted: boolean
      readonly cutOff: boolean
    }
  | CallItem
  | {
      readonly kind: 'model'
      readonly route: Route
      readonly before: Route | undefined
      readonly insteadOf: Route | undefined
    }
  | { readonly kind: 'failed'; readonly attempt: number; readonly message: string }
  /** From here on the model reads `message` in place of what stands above. */
  | { readonly kind: 'replaced'; readonly messages: number; readonly message: Message }
  /** From here on the model reads so many of the messages above shorter than they stand there. */
  | { readonly kind: 'shortened'; readonly messages: number }
  | { readonly kind: 'resumed'; readonly time: number; readonly notices: readonly string[] }
  | { readonly kind: 'copied'; readonly from: string }
  | { readonly kind: 'withdrawn'; readonly message: UserMessage }
  | { readonly kind: 'end'; readonly turn: number; readonly reason: TurnEndReason | undefined }

export interface CallItem {
  readonly kind: 'call'
  readonly name: string
  /** As the model wrote them, or as they were used when a plugin has changed them. */
  readonly arguments: string
  readonly rewrittenBy?: string
  /** Absent for a call that nothing has come of. */
  readonly result?: {
    readonly content: readonly ResultBlock[]
    readonly isError: boolean
    readonly code?: string
    readonly durationMs?: number
    readonly meta?: JsonValue
  }
}

export interface StoryOptions {
  /** Only this turn. */
  readonly turn?: number
}

/** The outlines to tell, and where the log's part of them begins and ends. @throws never: a turn that is not there is for the caller */
export function partOf(
  events: readonly SessionEvent[],
  turn: number | undefined,
): { from: number; to: number; turns: readonly TurnOutline[] } {
  const turns = turnsOf(events)
  if (turn === undefined) return { from: 0, to: events.length, turns }
  const at = turns.findLastIndex(outline => outline.turn === turn)
  const found = turns[at]
  if (!found) return { from: 0, to: 0, turns: [] }
  const to = found.to === undefined ? (turns[at + 1]?.from ?? events.length) : found.to + 1
  return { from: found.from, to, turns: [found] }
}

export function* storyOf({ header, events }: StoredSession, { turn }: StoryOptions = {}): Generator<StoryItem> {
  const { from, to } = partOf(events, turn)
  const calls = new Map<string, { name: string; arguments: string; rewrittenBy?: string }>()
  const received = new Map<string, UserMessage>()
  const surface = new Places()
  let open: number | undefined
  let route: Route | undefined
  let shortened = 0
  const shorter = function* (): Generator<StoryItem> {
    if (shortened) yield { kind: 'shortened', messages: shortened }
    shortened = 0
  }
  const unfinished = function* (): Generator<CallItem> {
    for (const call of calls.values()) yield { kind: 'call', ...call }
    calls.clear()
  }
  // What comes before the part still says which model it was, and how much of it is replaced later.
  for (const event of events.slice(0, to)) {
    const shown = event.seq >= from
    if (shown && header.parent && event.seq === header.parent.events) yield { kind: 'copied', from: header.parent.id }
    if (!isIntact(event)) continue
    const replaced = surface.add(event)
    switch (event.type) {
      case 'turn/start':
        if (shown) yield* shorter()
        // The end of the one before is lost.
        if (open !== undefined && shown)
          yield* [...unfinished(), { kind: 'end', turn: open, reason: undefined } as const]
        open = event.data.turn
        if (shown) yield { kind: 'turn', turn: open, time: event.time }
        break
      case 'inbox/changed':
        for (const { message } of event.data.inserted ?? []) received.set(message.id, message)
        for (const id of event.data.withdrawn ?? []) {
          const message = received.get(id)
          received.delete(id)
          if (shown && message?.source.kind === 'user') yield { kind: 'withdrawn', message }
        }
        break
      case 'user/message':
        received.delete(event.data.message.id)
        if (shown) yield { kind: 'said', message: event.data.message }
        break
      case 'request/header': {
        const { provider, model, insteadOf } = event.data.config
        const changed = provider !== route?.provider || model !== route.model
        if (shown && changed) yield { kind: 'model', route: { provider, model }, before: route, insteadOf }
        route = { provider, model }
        break
      }
      case 'request/failed':
        if (shown) yield { kind: 'failed', attempt: event.data.attempt, message: event.data.failure.message }
        break
      case 'assistant/message': {
        const { message, interrupted = false, finish } = event.data
        for (const block of message.content) {
          if (block.type === 'tool-call') calls.set(block.id, { name: block.name, arguments: block.arguments })
        }
        if (shown) yield { kind: 'answer', message, interrupted, cutOff: finish === 'max-tokens' }
        break
      }
      case 'tool/call':
        calls.set(event.data.callId, { name: event.data.name, arguments: event.data.arguments })
        break
      case 'tool/rewritten': {
        const call = calls.get(event.data.callId)
        if (!call) break
        call.arguments = JSON.stringify(event.data.arguments)
        call.rewrittenBy = String(event.data.by)
        break
      }
      case 'tool/result': {
        const [block] = event.data.message.content
        if (block?.type !== 'tool-result') break
        const call = calls.get(block.toolCallId) ?? { name: 'a call', arguments: '' }
        calls.delete(block.toolCallId)
        const { error, durationMs, meta } = event.data
        const result = {
          content: block.content,
          isError: block.isError === true,
          ...(error ? { code: error.code } : {}),
          ...(durationMs === undefined ? {} : { durationMs }),
          ...(meta === undefined ? {} : { meta }),
        }
        if (shown) yield { kind: 'call', ...call, result }
        break
      }
      case 'context/replaced':
        if (replaced === 1 && isShorter(event.data.message)) shortened += shown ? 1 : 0
        else if (shown && replaced) yield { kind: 'replaced', messages: replaced, message: event.data.message }
        break
      case 'compaction/ended':
        if (shown) yield* shorter()
        break
      case 'session/resumed': {
        const { notices } = event.data
        const told = Array.isArray(notices) ? notices.filter(notice => typeof notice === 'string') : []
        if (shown) yield { kind: 'resumed', time: event.time, notices: told }
        break
      }
      case 'turn/end':
        if (shown) yield* [...unfinished(), { kind: 'end', turn: event.data.turn, reason: event.data.reason } as const]
        open = undefined
    }
  }
  yield* shorter()
  if (open !== undefined && (turn === undefined || turn === open)) {
    yield* [...unfinished(), { kind: 'end', turn: open, reason: undefined } as const]
  }
}

/** True for a replacement that is one message still: an old result, an answer without its thoughts, a huge message. */
const isShorter = ({ source }: Message) => source.kind !== 'compaction' || source.form === 'shortened'

/** How many messages a replacement stands for. */
class Places {
  private seqs: number[] = []

  /** Undefined for an event that replaces nothing. */
  add(event: SessionEvent): number | undefined {
    if (event.type === 'context/replaced') {
      const start = this.seqs.indexOf(event.data.from)
      const end = this.seqs.indexOf(event.data.to)
      if (start < 0 || end < start) return undefined
      this.seqs.splice(start, end - start + 1, event.seq)
      return end - start + 1
    }
    if (event.type === 'user/message' || event.type === 'assistant/message' || event.type === 'tool/result') {
      this.seqs.push(event.seq)
    }
    return undefined
  }
}

/** Why a turn ended, where that is worth a word. */
export function endText(reason: TurnEndReason | undefined): string {
  switch (reason?.kind) {
    case undefined:
      return 'has not ended: it is running still, or its process was cut off'
    case 'completed':
      return ''
    case 'aborted':
      return `was stopped by ${BY[reason.by] ?? reason.by}${reason.reason ? `: ${reason.reason}` : ''}`
    case 'blocked':
      return `was refused${reason.reason ? `: ${reason.reason}` : ''}`
    case 'error':
      return `failed: ${reason.error.message}`
    case 'max-tokens':
      return "ended at the model's output limit"
    case 'limit':
      return `was stopped by a limit: ${reason.reason}`
    case 'interrupted':
      return 'was cut off: its process ended'
    default:
      return `ended: ${String((reason as { kind: unknown }).kind)}`
  }
}

const BY: Record<string, string> = {
  user: 'the user',
  parent: 'its parent',
  hook: 'a plugin',
  disposed: 'the end of the process',
}

/** Who speaks: `you`, a model, a plugin. */
export function speakerOf({ source }: Message): string {
  switch (source.kind) {
    case 'user':
      return 'you'
    case 'model':
      return `${source.provider}/${source.model}`
    case 'plugin':
      return source.form ? `${source.plugin} (${source.form})` : source.plugin
    default:
      return source.kind
  }
}
