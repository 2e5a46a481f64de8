/** One call's state on its way through the pipeline, and the view of it that listeners get. */

import type { Context, JsonValue, ScopeKey } from '@cambium/core'
import type { CallId } from '@cambium/llm'
import type { Sessions } from '@cambium/session'
import type { Agent } from './agent.ts'
import type { Catalogue, Offer } from './catalogue.ts'
import type { ToolDefinition, ToolExecution, ToolResult } from './definition.ts'
import { type ParsedJson, parseArguments } from './json-text.ts'
import { deepFreeze, failedResult } from './result.ts'
import { createController, forward } from './signals.ts'

/** What every call needs, held once. */
export interface Engine {
  readonly ctx: Context
  readonly catalogue: Catalogue
  readonly sessions: Sessions
  warn(text: string): void
}

export interface CallInput {
  readonly callId: CallId
  readonly name: string
  /** The model's text. */
  readonly arguments: string
  readonly agent: Agent | undefined
  readonly scope: ScopeKey | undefined
  readonly parent?: ToolExecution | undefined
  /** The caller's: aborts the call. */
  readonly signal: AbortSignal
  readonly publish?: ((data: JsonValue) => void) | undefined
}

export interface Call extends Omit<CallInput, 'arguments'> {
  /** Effective arguments; the raw text while it is no JSON. */
  args: JsonValue
  readonly malformed: string | undefined
  readonly offer: Offer | undefined
  readonly tool: ToolDefinition | undefined
  readonly exec: ToolExecution
  /** The signal of the call itself: the caller's, and the unloading of the tool's plugin. */
  readonly controller: AbortController
  /** Who rewrote the arguments last. */
  rewrittenBy: string | undefined
  /** The outcome so far. Set before the body ran, it means that the body will not. */
  result: ToolResult | undefined
  /** The outcome is not shown to `tools/post-execute`. */
  final: boolean
  /** Stops listening to the caller's signal. */
  close(): void
}

/** What listeners get: reads through to the call, and only the signal can be set. */
class ExecutionView implements ToolExecution {
  readonly #call: Call
  readonly parent?: ToolExecution
  signal: AbortSignal

  constructor(call: Call) {
    this.#call = call
    this.signal = call.controller.signal
    if (call.parent) this.parent = call.parent
  }

  get callId() {
    return this.#call.callId
  }
  get name() {
    return this.#call.name
  }
  get arguments() {
    return this.#call.args
  }
  get tool() {
    return this.#call.tool
  }
  get agent() {
    return this.#call.agent
  }
}

export function openCall(engine: Engine, input: CallInput, parsed: ParsedJson = parseArguments(input.arguments)): Call {
  const { callId, name, agent, scope, parent, signal, publish } = input
  const controller = createController()
  const offer = engine.catalogue.view(scope).offers.get(name)
  const call: Omit<Call, 'exec'> & { exec?: ToolExecution } = {
    callId,
    name,
    agent,
    scope,
    parent,
    signal,
    publish,
    args: deepFreeze('value' in parsed ? parsed.value : input.arguments),
    malformed: 'problem' in parsed ? parsed.problem : undefined,
    offer,
    tool: offer?.definition,
    controller,
    rewrittenBy: undefined,
    result: undefined,
    final: false,
    close: forward(signal, controller),
  }
  call.exec = new ExecutionView(call as Call)
  return call as Call
}

/** Ends the call for good: policy had no say yet, or its say does not matter any more. */
export function abortCall(call: Call): void {
  call.result = abortedBeforeDispatch()
  call.final = true
}

export function abortedBeforeDispatch(): ToolResult {
  return failedResult('ABORTED_BEFORE_DISPATCH', 'the call was cancelled before it started; nothing was done')
}
