/** What an adapter is asked for, and what it streams back. */

import type { JsonObject, ScopeKey } from '@cambium/core'
import type { AssistantBlock, CallId, Message } from './message.ts'

/** The four fields of a tool that a model sees. `parameters` is a JSON Schema of type object. */
export interface ToolSchema {
  readonly name: string
  readonly description: string
  readonly parameters: JsonObject
}

export interface Route {
  readonly provider: string
  readonly model: string
}

/** How one request is to be made; chosen by the loop's `agent/request` and logged. */
export interface LlmCallConfig {
  readonly provider: string
  readonly model: string
  readonly effort?: string
  readonly maxTokens?: number
  readonly temperature?: number
  readonly stop?: readonly string[]
  /** Fields for one provider that the vocabulary has no word for. */
  readonly providerOptions?: JsonObject
  /** The route that was chosen, where this one takes its place because that one is down. */
  readonly insteadOf?: { readonly provider: string; readonly model: string }
}

export interface LlmRequest extends LlmCallConfig {
  readonly system?: string
  readonly messages: readonly Message[]
  readonly tools?: readonly ToolSchema[]
  readonly signal?: AbortSignal
  readonly sessionId?: string
  /** Whose request it is: its listeners hear it and its adapters answer it. The calling context's scope by default. */
  readonly scope?: ScopeKey
  /** Call ids of the session that `messages` no longer holds (after compaction); new calls get none of them either. */
  readonly takenCallIds?: { has(id: string): boolean }
  /** What the request is for, when it is not a step of the conversation. */
  readonly purpose?: 'compaction' | 'title' | 'summary'
}

/** Counts are disjoint: the request cost `inputTokens + cacheReadTokens + cacheWriteTokens`, the answer `outputTokens`. */
export interface TokenUsage {
  /** Input that was neither read from nor written to the provider's cache. */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cacheReadTokens: number
  readonly cacheWriteTokens: number
  /** The part of `outputTokens` spent on reasoning. */
  readonly reasoningTokens: number
  /** What the provider says that it charges, in US dollars; absent where it does not say. */
  readonly cost?: number
}

export const FAILURE_CODES = [
  'ABORTED',
  'AUTH',
  'CONTEXT_WINDOW_EXCEEDED',
  'EMPTY_RESPONSE',
  'INVALID_REQUEST',
  'MALFORMED_RESPONSE',
  'MISSING_CREDENTIAL',
  'NO_ADAPTER',
  'QUOTA',
  'RATE_LIMIT',
  'SERVER',
  'STREAM_CLOSED',
  'TIMEOUT',
  'TRANSPORT',
  'UNKNOWN',
  'UNKNOWN_MODEL',
  'UNSUPPORTED_CONTENT',
  'UNSUPPORTED_OPTION',
] as const
export type LlmFailureCode = (typeof FAILURE_CODES)[number]

/** A failed attempt in provider-neutral words. */
export interface LlmFailure {
  readonly code: LlmFailureCode
  /** One sentence for a person; may quote the provider. */
  readonly message: string
  /** What to do about it, where there is something. */
  readonly fix?: string
  /** HTTP status, when there was an answer. */
  readonly status?: number
  /** The provider's own wish, in milliseconds from now. */
  readonly retryAfterMs?: number
  readonly requestId?: string
}

/** A request that failed, as it is told to whoever may repair it. */
export interface FailedAttempt {
  readonly turn: number
  readonly step: number
  /** The attempt that failed, from 1. */
  readonly attempt: number
  readonly config: LlmCallConfig
  readonly failure: LlmFailure
  /** Text or reasoning had been shown before it failed. */
  readonly visible: boolean
  readonly signal: AbortSignal
}

export type FailedAttemptDecision =
  | { readonly kind: 'retry'; readonly config?: LlmCallConfig }
  | { readonly kind: 'fail' }

export type FinishReason = 'stop' | 'tool-calls' | 'max-tokens' | 'refusal' | 'error' | 'aborted'

/**
 * Grammar, which the service checks: `block-start` with a fresh index; deltas only into an open block of their kind;
 * at most one `usage`, before `finish`; `finish` exactly once and last. After `error` and `aborted`, which carry
 * `failure`, blocks may be left open; after `max-tokens` an open tool-call block is one that was cut, and is never run.
 * A `stop` or `tool-calls` without text and without calls is turned into the error `EMPTY_RESPONSE` by the service.
 * A delta may carry many tokens: an adapter joins what one network read brought.
 */
export type StreamChunk =
  | { readonly type: 'block-start'; readonly index: number; readonly blockType: AssistantBlock['type'] }
  | { readonly type: 'text-delta'; readonly index: number; readonly text: string }
  | { readonly type: 'reasoning-delta'; readonly index: number; readonly text: string }
  | {
      readonly type: 'tool-call-delta'
      readonly index: number
      readonly id: CallId
      readonly name?: string
      readonly argumentsDelta: string
    }
  | { readonly type: 'block-end'; readonly index: number; readonly block: AssistantBlock }
  | { readonly type: 'usage'; readonly usage: TokenUsage }
  | { readonly type: 'finish'; readonly reason: FinishReason; readonly failure?: LlmFailure }

export interface ModelInfo {
  readonly id: string
  readonly name?: string
  /** Tokens of input and output together. */
  readonly contextWindow?: number
  readonly maxOutputTokens?: number
  readonly input?: readonly ('text' | 'image')[]
  readonly efforts?: readonly string[]
  readonly price?: ModelPrice
}

/** Of a million tokens, in US dollars; cached reads and writes where the provider prices them apart. */
export interface ModelPrice {
  readonly input: number
  readonly output: number
  readonly cacheRead?: number
  readonly cacheWrite?: number
  /** What counts instead for a request with more than `tokens` of input, cached ones included. */
  readonly above?: Omit<ModelPrice, 'above'> & { readonly tokens: number }
}
