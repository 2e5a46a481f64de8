/** What a log holds: the core event types, their data, and the envelope. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type {
  AssistantMessage,
  CallId,
  LlmCallConfig,
  LlmFailure,
  LlmRequest,
  MessageId,
  Route,
  StreamChunk,
  TokenUsage,
  ToolSchema,
  UserMessage,
} from '@cambium/llm'

declare const brand: unique symbol
export type SessionId = string & { readonly [brand]?: 'SessionId' }
export const SessionId = (id: string): SessionId => id

/** Why a turn ended. `limit` names what ran out; `interrupted` is only written by repair after a crash. */
export type TurnEndReason =
  | { readonly kind: 'completed' }
  | { readonly kind: 'aborted'; readonly by: 'user' | 'parent' | 'hook' | 'disposed'; readonly reason?: string }
  | { readonly kind: 'blocked'; readonly reason?: string }
  | {
      readonly kind: 'error'
      readonly error: LlmFailure | { readonly code: string; readonly message: string; readonly fix?: string }
    }
  | { readonly kind: 'max-tokens' }
  | { readonly kind: 'limit'; readonly reason: string }
  | { readonly kind: 'interrupted' }

export type InboxTarget = 'next-turn' | 'next-step'

/**
 * Logged event types. A plugin adds its own, named `owner/verb`, by augmenting this interface in module
 * `@cambium/session` and calling `ctx.sessions.defineEvent`.
 */
export interface SessionEventMap {
  /** Turns are numbered from 1 for the whole session, across resumes. */
  'turn/start': { readonly turn: number }
  'turn/end': { readonly turn: number; readonly reason: TurnEndReason }
  /** Steps are numbered from 1 within their turn. */
  'step/start': { readonly turn: number; readonly step: number }
  'step/end': { readonly turn: number; readonly step: number }
  /** Admitted input, in the order the model reads it. Its id leaves the inbox by this event. */
  'user/message': { readonly message: UserMessage }
  /** One successful answer, empty ones included; `interrupted` marks what was visible when a cancel came. */
  'assistant/message': {
    readonly turn: number
    readonly step: number
    readonly message: AssistantMessage
    readonly usage?: TokenUsage
    readonly finish: 'stop' | 'tool-calls' | 'max-tokens' | 'refusal'
    readonly interrupted?: true
  }
  /** The model's call, its arguments as the model wrote them. Logged right before the call is judged. */
  'tool/call': {
    readonly turn: number
    readonly step: number
    readonly callId: CallId
    readonly name: string
    readonly arguments: string
  }
  /** The arguments that are really used, when a listener changed them. */
  'tool/rewritten': { readonly callId: CallId; readonly arguments: JsonValue; readonly by: string }
  /** `message` holds exactly one tool-result block. `meta` is for user interfaces. */
  'tool/result': {
    readonly turn: number
    readonly step: number
    readonly message: UserMessage
    readonly error?: { readonly code: string; readonly message: string }
    readonly meta?: JsonValue
    readonly durationMs?: number
  }
  /** What every following request is made with, until the next one of this type. Logged when it changes. */
  'request/header': { readonly config: LlmCallConfig; readonly system?: string; readonly tools?: readonly ToolSchema[] }
  /** Usage of an attempt that failed: it was paid for all the same. */
  'request/failed': {
    readonly turn: number
    readonly step: number
    readonly attempt: number
    readonly failure: LlmFailure
    readonly usage?: TokenUsage
  }
  /** Messages received or withdrawn. A received one stays pending until `user/message` admits it or it is withdrawn. */
  'inbox/changed': {
    readonly inserted?: readonly { readonly target: InboxTarget; readonly message: UserMessage }[]
    readonly withdrawn?: readonly MessageId[]
  }
  /**
   * The span of the model's surface from the message logged at `from` to the one logged at `to`, both inclusive and
   * both on the surface now, is replaced by `message`. The human transcript keeps everything. Whoever replaces an answer
   * or a result alone gives it the same calls, or the same call's result.
   */
  'context/replaced': { readonly from: number; readonly to: number; readonly message: UserMessage | AssistantMessage }
  /** A process took the session up again; what was open before is closed by the events ahead of it. */
  'session/resumed': JsonObject
}

/** Types that are broadcast and never logged. */
export interface LiveEventMap {
  'assistant/chunk': {
    readonly turn: number
    readonly step: number
    readonly attempt: number
    readonly chunk: StreamChunk
  }
  'tool/progress': { readonly callId: CallId; readonly name: string; readonly data: JsonValue }
  /**
   * A request of the session failed, or its route is known to be down, and attempt `attempt` of `maxAttempts` on the route
   * `next` follows after `delayMs`. What a failed attempt had shown is void: its `request/failed` stands in the log.
   */
  'request/retry': {
    /** The step; absent for a request that is none, whose purpose is named. */
    readonly turn?: number
    readonly step?: number
    readonly purpose?: NonNullable<LlmRequest['purpose']>
    readonly route: Route
    readonly failure: LlmFailure
    readonly attempt: number
    readonly maxAttempts: number
    readonly delayMs: number
    /** Another one than `route` when that is given up and left alone for `restMs`. */
    readonly next: Route
    readonly restMs?: number
  }
}

export type EventType = keyof SessionEventMap
export type LiveType = keyof LiveEventMap

/**
 * A logged event: `seq` is its index in the log, `time` milliseconds since the epoch. `ignorable: false` marks a
 * plugin's event without which the session cannot be understood fully; a reader that does not know it says so.
 */
export type SessionEvent<K extends EventType = EventType> = {
  [T in K]: {
    readonly seq: number
    readonly time: number
    readonly type: T
    readonly data: SessionEventMap[T]
    readonly ignorable?: false
  }
}[K]

/** A live event has no `seq`. */
export type LiveEvent<K extends LiveType = LiveType> = {
  [T in K]: { readonly seq?: undefined; readonly time: number; readonly type: T; readonly data: LiveEventMap[T] }
}[K]

/** What stands beside a log and never changes. */
export interface SessionHeader {
  /** Version of the log's format. */
  readonly version: 1
  readonly id: SessionId
  readonly createdAt: number
  /** Absolute path the session works in. */
  readonly cwd: string
  /** Where a fork came from: the parent and how many of its events were taken over. */
  readonly parent?: { readonly id: SessionId; readonly events: number }
  readonly origin?: 'user' | 'subagent'
  /** How many delegations lie above it. */
  readonly depth?: number
}
