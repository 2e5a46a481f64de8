/** Steps 1 to 3: the arguments are valid, every listener lets the call pass, somebody approves, no guard objects. */

import { isDeepStrictEqual } from 'node:util'
import { errorMessage, type JsonValue, nearest } from '@cambium/core'
import { joinProblems, problemsOf } from './arguments.ts'
import { abortCall, type Call, type Engine } from './call.ts'
import type { PreToolDecision, ToolResult } from './definition.ts'
import { listenersOf, type NamedListener } from './listeners.ts'
import { failedResult, snapshot, withoutStack } from './result.ts'
import { ABORTED, untilAborted } from './signals.ts'

/** Listeners that undo each other's rewrites would go on for ever. */
const MAX_REWRITES = 8

/** Leaves `call.result` undefined when the call may run. Never rejects. */
export async function judge(engine: Engine, call: Call): Promise<void> {
  if (call.signal.aborted) return abortCall(call)
  try {
    const verdict = await untilAborted(decide(engine, call), call.signal)
    if (verdict === ABORTED || call.signal.aborted) return abortCall(call)
    call.result = verdict
  } catch (error) {
    // Whoever should have judged did not: the call must not run, and there is no outcome to take further.
    engine.warn(`a check of tool "${call.name}" failed, so that the call was not run: ${errorMessage(error)}`)
    const words = withoutStack(errorMessage(error))
    call.result = failedResult('TOOL_POLICY_FAILED', `the call was not run because a check failed: ${words}`)
    call.final = true
  }
}

async function decide(engine: Engine, call: Call): Promise<ToolResult | undefined> {
  const invalid = await refuseArguments(engine, call)
  if (invalid) return invalid
  const listeners = listenersOf(engine.ctx, call.scope, 'tools/pre-execute')
  const outputs = new Map<NamedListener, JsonValue>()
  let ask: { reason: string | undefined } | undefined
  for (let rewrites = 0; ; rewrites++) {
    const round = await askListeners(call, listeners, outputs)
    if (round.decision.kind === 'deny') return denied(round.decision.reason)
    if (round.decision.kind === 'ask') ask = { reason: round.decision.reason }
    const { rewriter } = round
    if (!rewriter) break
    // The listener that rewrites is not heard again on its own output, so its wish to ask stands.
    ask = rewriter.decision.kind === 'ask' ? { reason: rewriter.decision.reason } : undefined
    if (rewrites === MAX_REWRITES) return denied(`${names(outputs)} keep rewriting the arguments of this call`)
    call.args = rewriter.arguments
    call.rewrittenBy = rewriter.by
    outputs.set(rewriter.listener, rewriter.arguments)
    const wrong = await refuseArguments(engine, call)
    if (wrong) return wrong
  }
  if (ask) {
    const refused = await approve(engine, call, ask.reason)
    if (refused) return refused
  }
  return guard(engine, call)
}

async function refuseArguments(engine: Engine, call: Call): Promise<ToolResult | undefined> {
  const { tool, malformed, rewrittenBy } = call
  // A tool that nobody offers is still shown to policy; there is nothing to check against.
  if (!tool) return undefined
  if (malformed !== undefined && !rewrittenBy) {
    const help = 'Nothing was run. Send the whole arguments again as one JSON object.'
    return failedResult('INVALID_ARGUMENTS', `invalid arguments: not valid JSON: ${malformed}. ${help}`)
  }
  const warn = (text: string) => engine.warn(`tool "${tool.name}": ${text}`)
  const problems = await problemsOf(tool.parameters, call.args, 'the whole', warn)
  if (!problems.length) return undefined
  const who = rewrittenBy ? `invalid arguments, as ${rewrittenBy} rewrote them` : 'invalid arguments'
  return failedResult('INVALID_ARGUMENTS', `${who}: ${joinProblems(problems)}`)
}

interface Rewriter {
  readonly listener: NamedListener
  readonly decision: Exclude<PreToolDecision, { kind: 'deny' }>
  readonly arguments: JsonValue
  readonly by: string
}

/**
 * One round of the waterfall. A listener is passed over while the arguments are what it made of them itself: so a rewrite
 * that is no fixed point does not repeat itself, and the listeners inside of it are heard on what will really run.
 */
async function askListeners(
  call: Call,
  listeners: readonly NamedListener[],
  outputs: ReadonlyMap<NamedListener, JsonValue>,
): Promise<{ decision: PreToolDecision; rewriter: Rewriter | undefined }> {
  const proposals: Rewriter[] = []
  const from = async (index: number): Promise<PreToolDecision> => {
    const listener = listeners[index]
    if (!listener) return { kind: 'allow' }
    const own = outputs.get(listener)
    if (own !== undefined && isDeepStrictEqual(own, call.args)) return from(index + 1)
    const decision = checked(await listener.run(call.exec, () => from(index + 1)), listener)
    if (decision.kind === 'deny' || decision.arguments === undefined) return decision
    const wanted = snapshot(decision.arguments, `the arguments that ${listener.plugin} wants`)
    if (isDeepStrictEqual(wanted, call.args)) return decision
    const by = decision.by ?? listener.plugin
    proposals.push({ listener, decision, arguments: wanted, by })
    return { ...decision, arguments: wanted, by }
  }
  const decision = await from(0)
  if (decision.kind === 'deny' || decision.arguments === undefined) return { decision, rewriter: undefined }
  // Inner answers come first: the first proposal of what came out is who had the idea, the others passed it on.
  const rewriter = proposals.find(proposal => isDeepStrictEqual(proposal.arguments, decision.arguments))
  return { decision, rewriter }
}

function checked(decision: unknown, listener: NamedListener): PreToolDecision {
  const kind = (decision as PreToolDecision | null | undefined)?.kind
  if (kind === 'allow' || kind === 'deny' || kind === 'ask') return decision as PreToolDecision
  throw new TypeError(`${listener.plugin} answered tools/pre-execute with no decision; it must return one, or next()`)
}

function names(outputs: ReadonlyMap<NamedListener, JsonValue>): string {
  return [...new Set([...outputs.keys()].map(listener => listener.plugin))].join(' and ')
}

async function approve(engine: Engine, call: Call, reason: string | undefined): Promise<ToolResult | undefined> {
  const approval = engine.ctx.get('approval')
  const why = reason ? `: ${reason}` : ''
  if (!approval) return denied(`this call needs approval and nobody is there to give it${why}`)
  const { exec } = call
  const answer = await approval.request({ exec, ...(reason ? { reason } : {}), signal: call.controller.signal })
  if (answer.kind === 'allow') return undefined
  if (answer.kind === 'cancelled') return denied(`the question whether this call may run was withdrawn${why}`)
  return denied(answer.reason)
}

function guard(engine: Engine, call: Call): ToolResult | undefined {
  for (const judge of engine.catalogue.guards.chain(call.scope)) {
    const reason: unknown = judge(call.exec)
    if (reason === undefined) continue
    if (typeof reason === 'string') return denied(reason)
    throw new TypeError('a guard must answer at once with a reason or undefined')
  }
  return undefined
}

function denied(reason: string | undefined): ToolResult {
  return failedResult('TOOL_DENIED', reason || 'the call was denied by policy')
}

/** Says which tools there are: the likely one, or all when there is none. */
export function unknownTool(engine: Engine, call: Call): ToolResult {
  const known = [...engine.catalogue.view(call.scope).offers.keys()]
  const meant = nearest(call.name, known)
  const listed = known.length > 40 ? `${known.slice(0, 40).join(', ')}, …` : known.join(', ')
  const help = meant ? `Did you mean "${meant}"?` : known.length ? `There are: ${listed}.` : 'There are no tools.'
  return failedResult('UNKNOWN_TOOL', `there is no tool "${call.name}". ${help}`)
}
