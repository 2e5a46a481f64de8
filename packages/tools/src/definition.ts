/** What a tool is, and what its code gets and gives. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type { CallId, ResultBlock, UserMessage } from '@cambium/llm'
import type { Agent } from './agent.ts'

/** A tool as it is registered. `defineTool` makes one with inferred argument types; a raw one brings a JSON Schema. */
export interface ToolDefinition {
  /** `^[a-zA-Z0-9_-]{1,64}$` */
  readonly name: string
  readonly description: string
  /** A JSON Schema of type object. Arguments are checked against it before any policy sees them. */
  readonly parameters: JsonObject
  /** A JSON Schema for the canonical value; a value that breaks it is an error result. */
  readonly output?: JsonObject
  /** Changes nothing outside the process. Absent means it may. */
  readonly readOnly?: boolean
  /** Touches only the session's own state: a todo list, say. */
  readonly sessionLocal?: boolean
  /** Running it twice with the same arguments is the same as once. */
  readonly repeatable?: boolean
  /** Budget of one call in milliseconds; enforced by the timeout plugin. */
  readonly timeoutMs?: number
  /** True lets the call overlap with others of the same answer that say true as well. Throwing means false. */
  isConcurrencySafe?(args: JsonValue): boolean
  /** One line for a person about a call, from arguments that may be invalid. Must not throw for valid ones. */
  presentCall?(args: JsonValue): string
  /**
   * Does the work. Runs with arguments that passed the schema. What it returns is the canonical value; `toolResult`
   * says more. A throw becomes an error result in plain words, never a stack. Once begun it is always awaited.
   */
  execute(args: never, exec: ToolRunContext): Promise<ToolOutput> | ToolOutput
}

export type ToolOutput = JsonValue | ToolResultValue | undefined | void

/** Marks what `toolResult` made, also by another copy of this package, so that no value is ever mistaken for one. */
export const toolResultMark: unique symbol = Symbol.for('cambium.tool-result')

/** What `toolResult` makes: the only way to return content blocks, errors and presentation data. */
export interface ToolResultValue {
  readonly [toolResultMark]: true
  readonly value?: JsonValue
  readonly content?: readonly ResultBlock[]
  readonly meta?: JsonValue
  readonly isError?: boolean
}

/** One call on its way through the pipeline, as listeners see it. Only `signal` may be replaced, by `tools/execute`. */
export interface ToolExecution {
  readonly callId: CallId
  readonly name: string
  /** The effective arguments, deep-frozen. */
  readonly arguments: JsonValue
  /** The definition that will run; undefined for a name nobody offers. */
  readonly tool: ToolDefinition | undefined
  readonly agent: Agent | undefined
  /** Set for a call that another call makes. */
  readonly parent?: ToolExecution
  signal: AbortSignal
}

export interface ToolRunContext extends ToolExecution {
  /**
   * Tells viewers how far the call is: broadcast as `tool/progress`, at most ten times a second, the last one always,
   * never logged. `data` is read when it is sent and cut where it is large.
   */
  progress(data: JsonValue): void
  /** Adds a message to the conversation after all results of the same answer. Dropped when the result is blocked. */
  deferContext(message: UserMessage): void
  /** Ends the turn after this step if the call succeeds and nobody steers on. */
  concludeTurn(): void
}

/** A call's final outcome, deep-frozen. `value` lives only here; the log keeps content and meta. */
export interface ToolResult {
  readonly isError: boolean
  readonly content: readonly ResultBlock[]
  readonly value?: JsonValue
  readonly meta?: JsonValue
  readonly error?: { readonly code: string; readonly message: string }
  readonly contexts: readonly UserMessage[]
  readonly concludesTurn: boolean
  readonly durationMs: number
}

/**
 * `arguments` are used in place of the call's own. They are validated and judged by everybody else before anything
 * runs, and logged under `by`: who wants them, in words for a person; the listener's plugin when absent.
 */
export type PreToolDecision =
  | { readonly kind: 'allow'; readonly arguments?: JsonValue; readonly by?: string }
  | { readonly kind: 'deny'; readonly reason: string }
  | { readonly kind: 'ask'; readonly reason?: string; readonly arguments?: JsonValue; readonly by?: string }

export type PostToolDecision =
  | {
      readonly kind: 'accept'
      readonly content?: readonly ResultBlock[]
      /** A new canonical value; rendered anew unless `content` is there too. Only for a call that succeeded. */
      readonly value?: JsonValue
      /** New presentation data: what hides something in `content` hides it here as well. */
      readonly meta?: JsonValue
      readonly contexts?: readonly UserMessage[]
    }
  /** The model reads `feedback` in place of the result; value, meta and contexts of the call are dropped. */
  | { readonly kind: 'block'; readonly feedback: string; readonly contexts?: readonly UserMessage[] }
