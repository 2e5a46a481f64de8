/** `ctx.tools`: registration, visibility and running. */

import type { ScopeKey } from '@cambium/core'
import type { CallId, ToolSchema } from '@cambium/llm'
import type { Agent } from './agent.ts'
import type { PostToolDecision, PreToolDecision, ToolDefinition, ToolExecution, ToolResult } from './definition.ts'

export interface ToolFilter {
  /** Names that stay visible; all by default. */
  readonly allow?: readonly string[]
  /** Names that go. */
  readonly deny?: readonly string[]
}

/** A call as the model made it. */
export interface ToolCall {
  readonly callId: CallId
  readonly name: string
  /** The model's JSON text. */
  readonly arguments: string
}

export interface BatchOptions {
  readonly agent: Agent
  readonly signal: AbortSignal
  /** How many concurrency-safe bodies may overlap. 10 by default. */
  readonly limit?: number
}

export interface BatchOutcome {
  /** One a call, in model order. */
  readonly results: readonly ToolResult[]
  /** A successful call concluded the turn. */
  readonly concluded: boolean
}

export interface Tools {
  /**
   * Offers a tool to the calling context's scope, for as long as the plugin lives; returns the undo.
   * @throws `TOOL_INVALID` naming the field, `TOOL_DUPLICATE`
   */
  register(definition: ToolDefinition): () => void
  /** The tool of that name as the scope sees it, after restrictions. */
  get(name: string, scope?: ScopeKey): ToolDefinition | undefined
  /** What a model of that scope is shown: visible tools, sorted by name. The array is the same one until it changes. */
  schemas(scope?: ScopeKey): readonly ToolSchema[]
  /**
   * Filters the tools that the calling context's scope inherits, for showing, finding and running alike. The scope's own
   * tools stay. Filters of a chain intersect. Returns the undo. @throws `TOOL_RESTRICT_GLOBAL`, `TOOL_UNKNOWN`
   */
  restrict(filter: ToolFilter): () => void
  /** Adds a veto that no later listener can undo: a reason denies, undefined abstains. Judges effective arguments. */
  guard(judge: (exec: ToolExecution) => string | undefined): () => void
  /**
   * Runs the calls of one answer: policy, results and contexts in model order, safe bodies overlapping. Logs
   * `tool/call`, `tool/rewritten` and `tool/result` on the agent's session, a pair for every call, cancelled ones too.
   */
  runBatch(calls: readonly ToolCall[], options: BatchOptions): Promise<BatchOutcome>
  /** Runs one call outside an answer, through the same pipeline, without logging. */
  execute(
    call: Omit<ToolCall, 'callId'> & { callId?: CallId },
    options?: { agent?: Agent; signal?: AbortSignal; parent?: ToolExecution },
  ): Promise<ToolResult>
}

/** Who answers `ask`. Declared here, implemented above: `permission` provides it. */
export interface Approval {
  request(question: {
    readonly exec: ToolExecution
    readonly reason?: string
    readonly signal: AbortSignal
  }): Promise<
    { readonly kind: 'allow' } | { readonly kind: 'deny'; readonly reason: string } | { readonly kind: 'cancelled' }
  >
}

declare module 'cordis' {
  interface Context {
    /** What an agent can do: definitions of tools, and the pipeline that every call passes. */
    tools: Tools
    /** Whom a call is put to that policy lets somebody decide; when nobody provides it, the call is denied. */
    approval: Approval
  }
  interface Events {
    /** waterfall: may this call run, and with which arguments? The default allows. */
    'tools/pre-execute'(exec: ToolExecution, next: () => Promise<PreToolDecision>): Promise<PreToolDecision>
    /** waterfall: around the running of the body; may replace `exec.signal` only. */
    'tools/execute'(exec: ToolExecution, next: () => Promise<ToolResult>): Promise<ToolResult>
    /** waterfall: accept, replace or block the result. Denied calls come here as well. */
    'tools/post-execute'(
      exec: ToolExecution,
      result: ToolResult,
      next: () => Promise<PostToolDecision>,
    ): Promise<PostToolDecision>
    /** notify: the frozen final result. */
    'tools/result'(exec: ToolExecution, result: ToolResult): void
    /** notify: the set of tools or what a scope sees of it changed. */
    'tools/change'(): void
  }
}
