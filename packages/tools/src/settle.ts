/** Steps 6 and 7: policy sees the outcome, then everybody does. */

import { errorMessage, notify, waterfall } from '@cambium/core'
import type { Call, Engine } from './call.ts'
import type { PostToolDecision, ToolResult } from './definition.ts'
import { build } from './dispatch.ts'
import { createResult, failedResult, inWords, resultText } from './result.ts'
import { ABORTED, untilLeft } from './signals.ts'

const ACCEPT: PostToolDecision = Object.freeze({ kind: 'accept' })

/** The call's one final result. Never rejects. */
export async function settle(engine: Engine, call: Call): Promise<ToolResult> {
  const before = call.result!
  let result = before
  if (!call.final) {
    try {
      result = await review(engine, call, before)
    } catch (error) {
      engine.warn(`a check of the result of tool "${call.name}" failed: ${errorMessage(error)}`)
      result = failedResult(
        'TOOL_POLICY_FAILED',
        `the call ended, but its result is withheld: a check failed: ${inWords(error)}`,
      )
    }
  }
  call.close()
  call.result = result = Object.freeze({ ...result, durationMs: before.durationMs })
  notify(engine.ctx, call.scope, 'tools/result', call.exec, result)
  return result
}

async function review(engine: Engine, call: Call, result: ToolResult): Promise<ToolResult> {
  const next = () => Promise.resolve(ACCEPT)
  const answer = waterfall(engine.ctx, call.scope, 'tools/post-execute', call.exec, result, next)
  const decision = await untilLeft(answer, call.signal)
  if (decision === ABORTED) throw new Error('it did not answer after the call was cancelled')
  const contexts = decision?.contexts ?? []
  switch (decision?.kind) {
    case 'block': {
      const feedback = decision.feedback || 'the result was withheld by policy'
      return createResult({
        isError: true,
        content: [{ type: 'text', text: feedback }],
        error: { code: 'TOOL_BLOCKED', message: feedback },
        contexts,
      })
    }
    case 'accept':
      return accept(engine, call, result, decision, [...result.contexts, ...contexts])
    default:
      throw new TypeError('a listener of tools/post-execute answered with no decision; it must return one, or next()')
  }
}

async function accept(
  engine: Engine,
  call: Call,
  result: ToolResult,
  decision: Extract<PostToolDecision, { kind: 'accept' }>,
  contexts: ToolResult['contexts'],
): Promise<ToolResult> {
  const { content, value, meta } = decision
  if (value !== undefined && result.isError) throw new TypeError('a failed call cannot be given a value')
  if (content === undefined && value === undefined && meta === undefined) {
    return contexts.length === result.contexts.length ? result : createResult({ ...result, contexts })
  }
  const changed = await build(engine, value === undefined ? undefined : call.tool, {
    value: value ?? result.value,
    content: content ?? (value === undefined ? result.content : undefined),
    meta: meta ?? result.meta,
    isError: result.isError,
    concludesTurn: result.concludesTurn,
    contexts,
  })
  if (!result.error) return changed
  // What was hidden in the content of a failure is not told by its error.
  const message = content === undefined ? result.error.message : resultText(changed.content).replace(/^Error: /, '')
  return createResult({ ...changed, error: { ...result.error, message } })
}
