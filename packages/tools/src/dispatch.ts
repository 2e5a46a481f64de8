/** Steps 4 and 5: the body runs, wrapped, and what it says becomes a result. */

import { type JsonValue, waterfall } from '@cambium/core'
import type { UserMessage } from '@cambium/llm'
import { joinProblems, problemsOf } from './arguments.ts'
import { abortCall, abortedBeforeDispatch, type Call, type Engine } from './call.ts'
import type { Offer, Running } from './catalogue.ts'
import type { ToolDefinition, ToolOutput, ToolResult, ToolRunContext } from './definition.ts'
import { admitImages } from './images.ts'
import { unknownTool } from './judge.ts'
import { createProgress } from './progress.ts'
import {
  createResult,
  failedResult,
  inWords,
  isToolResult,
  renderValue,
  resultText,
  snapshot,
  thrownResult,
} from './result.ts'
import { ABORTED, either, untilLeft } from './signals.ts'

/** Its effects would outlive the call, so that it gets all the time that an orderly end may take. */
const BODY_GRACE_MS = 30_000

/** Runs the call unless it has a result already. Ends when every body it started has ended. Never rejects. */
export async function dispatch(engine: Engine, call: Call): Promise<void> {
  if (call.result) return
  const { agent, tool, exec } = call
  if (!tool) {
    call.result = unknownTool(engine, call)
    return
  }
  if (call.signal.aborted) return abortCall(call)
  // Whatever changes the world must find its own call in the log after a crash.
  if (agent && !tool.readOnly && !tool.sessionLocal) {
    try {
      await engine.sessions.flush(agent.session)
    } catch (error) {
      const why = `the session's log could not be written: ${inWords(error)}`
      call.result = failedResult('SESSION_NOT_STORED', `the call was not run because ${why}`)
      return
    }
    if (call.signal.aborted) return abortCall(call)
  }
  const startedAt = performance.now()
  const bodies: Promise<ToolResult>[] = []
  const genuine = new Set<ToolResult>()
  let over = false
  let cancelled = false
  const next = async () => {
    // A wrapper that was left behind by one outside of it must not start anything any more.
    const result = over ? abortedBeforeDispatch() : await runBody(engine, call, bodies)
    genuine.add(result)
    return result
  }
  let result: ToolResult
  try {
    const work = waterfall(engine.ctx, call.scope, 'tools/execute', exec, next)
    const outcome = await untilLeft(work, call.signal, { busy: () => Promise.all(bodies) })
    if (outcome === ABORTED) {
      engine.warn(`a wrapper of tool "${call.name}" did not end after the call was cancelled, and was left behind`)
      cancelled = true
      result = abortedBeforeDispatch()
    } else result = genuine.has(outcome) ? outcome : await adopt(engine, tool, outcome)
  } catch (error) {
    result = thrownResult(error)
    // A wrapper's own wait was cut short by the caller: no failure of anybody.
    if (call.signal.aborted && isAbort(error, call.controller.signal)) cancelled = true
  }
  over = true
  // A wrapper may have given up on a body; its effects would outlive the call all the same.
  await Promise.all(bodies)
  exec.signal = call.controller.signal
  if (cancelled || (call.signal.aborted && !result.isError)) {
    result = bodies.length ? aborted(result.contexts) : abortedBeforeDispatch()
  }
  call.result = Object.freeze({ ...result, durationMs: Math.round(performance.now() - startedAt) })
}

function aborted(contexts: readonly UserMessage[] = []): ToolResult {
  return failedResult('ABORTED', 'the call was cancelled while it ran; it may have had effects', { contexts })
}

/** One run of the body; wrappers may ask for several. Never rejects. */
async function runBody(engine: Engine, call: Call, bodies: Promise<ToolResult>[]): Promise<ToolResult> {
  const offer = call.offer!
  if (call.signal.aborted) return abortedBeforeDispatch()
  if (engine.catalogue.view(call.scope).offers.get(call.name) !== offer) {
    const what = `tool "${call.name}" was reloaded or withdrawn while the call waited`
    return failedResult('TOOL_CHANGED', `${what}; nothing was run. Call it again if it is still there.`)
  }
  const own = call.controller.signal
  const { signal, release } = call.exec.signal === own ? { signal: own, release() {} } : either(own, call.exec.signal)
  const body = ended(engine, call, attempt(engine, call, offer, signal), signal)
  bodies.push(body)
  const running: Running = { ended: body, abort: reason => call.controller.abort(reason) }
  offer.running.add(running)
  try {
    return await body
  } finally {
    offer.running.delete(running)
    release()
  }
}

/** A body that is told to end and does not is left behind: it must not hold the turn, nor whoever wants to leave. */
async function ended(engine: Engine, call: Call, body: Promise<ToolResult>, signal: AbortSignal): Promise<ToolResult> {
  const result = await untilLeft(body, signal, { graceMs: BODY_GRACE_MS })
  if (result !== ABORTED) return result
  engine.warn(`tool "${call.name}" did not end within ${BODY_GRACE_MS} ms of being cancelled, and was left behind`)
  return failedResult('ABORTED', 'the call was cancelled but has not ended; it may still be running')
}

async function attempt(engine: Engine, call: Call, offer: Offer, signal: AbortSignal): Promise<ToolResult> {
  const tool = offer.definition
  const contexts: UserMessage[] = []
  let concludesTurn = false
  let open = true
  const late = (what: string) => engine.warn(`tool "${call.name}" called ${what} after its call had ended`)
  const warn = (text: string) => engine.warn(`tool "${call.name}": ${text}`)
  const progress = call.publish && createProgress(call.publish, warn)
  const run: ToolRunContext = {
    callId: call.callId,
    name: call.name,
    arguments: call.args,
    tool,
    agent: call.agent,
    ...(call.parent ? { parent: call.parent } : {}),
    signal,
    progress: data => progress?.report(data),
    deferContext(message) {
      if (open) contexts.push(message)
      else late('deferContext')
    },
    concludeTurn() {
      if (open) concludesTurn = true
      else late('concludeTurn')
    },
  }
  try {
    const output = await tool.execute(call.args as never, run)
    open = false
    return await finish(engine, tool, output, { contexts, concludesTurn }, signal)
  } catch (error) {
    open = false
    if (isAbort(error, signal)) {
      if (call.signal.aborted) return aborted(contexts)
      if (call.controller.signal.aborted) return thrownResult(call.controller.signal.reason)
    }
    return { ...thrownResult(error), contexts }
  } finally {
    progress?.end()
  }
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return signal.aborted && (error === signal.reason || (error as Error | undefined)?.name === 'AbortError')
}

interface Extras {
  readonly contexts: readonly UserMessage[]
  readonly concludesTurn: boolean
}

async function finish(
  engine: Engine,
  tool: ToolDefinition,
  output: ToolOutput,
  extras: Extras,
  signal: AbortSignal,
): Promise<ToolResult> {
  const parts = isToolResult(output) ? output : { value: output as unknown, content: undefined, meta: undefined }
  const { value, content, meta } = parts
  try {
    return await build(engine, tool, {
      value,
      content,
      meta,
      isError: isToolResult(output) && !!output.isError,
      signal,
      ...extras,
    })
  } catch (error) {
    if (isAbort(error, signal)) throw error
    return unusable(inWords(error), extras.contexts)
  }
}

interface Outcome extends Extras {
  readonly value: unknown
  readonly content: ToolResult['content'] | undefined
  readonly meta: unknown
  readonly isError: boolean
  /** Ends what takes its time: large images are scaled. */
  readonly signal?: AbortSignal
}

/** Checks and renders what a body, a wrapper or `tools/post-execute` says. @throws when it is no JSON or no content */
export async function build(engine: Engine, tool: ToolDefinition | undefined, outcome: Outcome): Promise<ToolResult> {
  const { isError, contexts, concludesTurn } = outcome
  const value = outcome.value === undefined ? undefined : snapshot(outcome.value, 'the result')
  const meta = outcome.meta === undefined ? undefined : snapshot(outcome.meta, 'meta')
  const content = await admitImages(outcome.content ?? renderValue(value), outcome.signal)
  if (isError) {
    const failed = createResult({ isError, content, contexts, ...(meta === undefined ? {} : { meta }) })
    return createResult({ ...failed, error: { code: 'TOOL_FAILED', message: resultText(failed.content) } })
  }
  if (tool?.output) {
    const problems = await outputProblems(engine, tool, value)
    if (problems) return unusable(problems, contexts)
  }
  return createResult({ content, contexts, concludesTurn, ...defined(value, meta) })
}

function defined(value: JsonValue | undefined, meta: JsonValue | undefined) {
  return { ...(value === undefined ? {} : { value }), ...(meta === undefined ? {} : { meta }) }
}

async function outputProblems(engine: Engine, tool: ToolDefinition, value: JsonValue | undefined) {
  if (value === undefined) return 'it gave no value'
  const problems = await problemsOf(tool.output!, value, 'the value', text =>
    engine.warn(`tool "${tool.name}": ${text}`),
  )
  return problems.length ? joinProblems(problems) : undefined
}

function unusable(problem: string, contexts: readonly UserMessage[]): ToolResult {
  const whose = 'This is a fault of the tool, not of the call; it may have had its effects.'
  return failedResult('INVALID_TOOL_OUTPUT', `the tool ran, but its result cannot be used: ${problem}. ${whose}`, {
    contexts,
  })
}

/** A wrapper's own result is held to the same rules as a body's. */
async function adopt(engine: Engine, tool: ToolDefinition, outcome: ToolResult | undefined): Promise<ToolResult> {
  if (typeof outcome !== 'object' || outcome === null || !Array.isArray(outcome.content)) {
    throw new TypeError('a listener of tools/execute answered with no result; it must return next() or a result')
  }
  const { isError, error, meta } = outcome
  const extras = { contexts: outcome.contexts ?? [], concludesTurn: outcome.concludesTurn === true }
  const { content } = outcome
  const built = await build(engine, tool, { value: outcome.value, content, meta, isError: isError === true, ...extras })
  return isError && error ? createResult({ ...built, error }) : built
}
