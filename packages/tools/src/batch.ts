/** The calls of one answer: bodies may overlap, everything that is seen or judged keeps the model's order. */

import type { JsonValue } from '@cambium/core'
import { createToolResultMessage } from '@cambium/llm'
import { abortCall, type Call, type CallInput, type Engine, openCall } from './call.ts'
import type { ToolResult } from './definition.ts'
import { dispatch } from './dispatch.ts'
import { type ParsedJson, parseArguments } from './json-text.ts'
import { judge } from './judge.ts'
import type { BatchOptions, BatchOutcome, ToolCall } from './service.ts'
import { settle } from './settle.ts'
import { createController, forward } from './signals.ts'

const BREATH_MS = 20

export async function runBatch(
  engine: Engine,
  calls: readonly ToolCall[],
  { agent, signal: outer, limit }: BatchOptions & { limit: number },
): Promise<BatchOutcome> {
  const hub = createController()
  const release = forward(outer, hub)
  const { signal } = hub
  const { session } = agent
  const { turn, step } = session.open
  const results: ToolResult[] = []
  const active = new Set<Promise<void>>()
  /** The end of the last call's commit; commits are made one after the other, in the model's order. */
  let committed: Promise<void> = Promise.resolve()

  const commit = async (call: Call, before: Promise<void>, body: Promise<void>) => {
    await body
    await before
    const result = await settle(engine, call)
    const { callId } = call
    session.append('tool/result', {
      turn,
      step,
      message: createToolResultMessage({ callId, content: result.content, isError: result.isError }),
      ...(result.error ? { error: result.error } : {}),
      ...(result.meta === undefined ? {} : { meta: result.meta }),
      durationMs: result.durationMs,
    })
    results.push(result)
  }

  const start = (call: Call) => {
    const body = dispatch(engine, call).finally(() => active.delete(body))
    active.add(body)
    committed = commit(call, committed, body)
    // Seen where it is awaited; a failed commit must not count as unhandled until then.
    committed.catch(() => {})
  }

  const one = async ({ callId, name, arguments: text }: ToolCall) => {
    const parsed = parseArguments(text)
    if (signal.aborted || !overlaps(engine, agent, name, parsed)) await committed
    else while (active.size >= limit) await Promise.race(active)
    session.append('tool/call', { turn, step, callId, name, arguments: text })
    const publish: CallInput['publish'] = data => session.publish('tool/progress', { callId, name, data })
    const call = openCall(engine, { callId, name, arguments: text, agent, scope: agent, signal, publish }, parsed)
    if (signal.aborted) abortCall(call)
    else await judge(engine, call)
    if (call.rewrittenBy !== undefined) {
      session.append('tool/rewritten', { callId, arguments: call.args, by: call.rewrittenBy })
    }
    // Judging took its time: the tool may be another one by now, or the arguments may have become unsafe.
    const alone = !overlaps(engine, agent, name, { value: call.args })
    if (alone) await committed
    start(call)
    if (alone) await committed
  }

  let breath = performance.now()
  try {
    for (const call of calls) {
      await one(call)
      // Quick bodies settle without the event loop ever turning: a cancel, a signal, a timer would wait for all of them.
      if (performance.now() - breath < BREATH_MS) continue
      await new Promise(setImmediate)
      breath = performance.now()
    }
    await committed
  } catch (error) {
    // The log cannot be written: no result is made up, but no body is left running either.
    await Promise.all(active)
    throw error
  } finally {
    release()
  }
  for (const result of results) for (const context of result.contexts) agent.inject(context)
  return { results, concluded: results.some(result => result.concludesTurn) }
}

/** Whether the tool, as the scope sees it now, lets this call run beside others. */
function overlaps(engine: Engine, scope: object, name: string, parsed: ParsedJson): boolean {
  if ('problem' in parsed) return false
  const tool = engine.catalogue.view(scope).offers.get(name)?.definition
  try {
    return tool?.isConcurrencySafe?.(parsed.value as JsonValue) === true
  } catch {
    // A classifier that stumbles over the arguments cannot vouch for them.
    return false
  }
}
