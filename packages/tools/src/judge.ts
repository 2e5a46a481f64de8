/** Steps 1 to 3: the arguments are valid, every listener lets the call pass, somebody approves, no guard objects. */

import { isDeepStrictEqual } from 'node:util'
import { errorMessage, type JsonValue, nearest } from '@cambium/core'
import { joinProblems, problemsOf } from './arguments.ts'
import { abortCall, type Call, type Engine } from './call.ts'
import type { PreToolDecision, ToolResult } from './definition.ts'
import { listenersOf, type NamedListener } from './listeners.ts'
import { failedResult, inWords, snapshot } from './result.ts'
import { ABORTED, untilAborted } from './signals.ts'

/** Listeners that undo each other's rewrites would go on for ever. */
const MAX_REWRITES = 8

/** Which plugin's listener an error came from. */
const blame = new WeakMap<object, string>()

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
    const whose = blame.get(error as object)
    const check = whose ? `a check by ${whose}` : 'a check'
    call.result = failedResult('TOOL_POLICY_FAILED', `the call was not run because ${check} failed: ${inWords(error)}`)
    call.final = true
  }
}

async function decide(engine: Engine, call: Call): Promise<ToolResult | undefined> {
  const invalid = await refuseArguments(engine, call)
  if (invalid) return invalid
  const listeners = listenersOf(engine.ctx, call.scope, 'tools/pre-execute')
  const rewrites: Rewriter[] = []
  let decision: PreToolDecision
  for (;;) {
    const round = await askListeners(call, listeners, rewrites)
    // Aborted meanwhile: the call has its result, and must not change any more.
    if (call.final) return undefined
    decision = round.decision
    if (decision.kind === 'deny') return denied(decision.reason)
    if (!round.rewriter) break
    if (rewrites.length === MAX_REWRITES) return denied(`${names(rewrites)} keep rewriting the arguments of this call`)
    rewrites.push(round.rewriter)
    call.args = round.rewriter.arguments
    call.rewrittenBy = round.rewriter.by
    const wrong = await refuseArguments(engine, call)
    if (wrong) return wrong
  }
  // Who was passed over on its own output is not asked again, so that its wish to ask stands.
  const asks = [
    decision,
    ...rewrites.filter(({ listener }) => isOwnOutput(call, listener, rewrites)).map(r => r.decision),
  ]
  const ask = asks.find(answer => answer.kind === 'ask')
  if (ask?.kind === 'ask') {
    const refused = await approve(engine, call, ask.reason)
    if (refused || call.final) return refused
  }
  return guard(engine, call)
}

async function refuseArguments(engine: Engine, call: Call): Promise<ToolResult | undefined> {
  const { tool, malformed, rewrittenBy } = call
  // A tool that nobody offers is still shown to policy; there is nothing to check against.
  if (!tool) return undefined
  if (malformed !== undefined) {
    const help = 'Nothing was run. Send the whole arguments again as one JSON object.'
    return failedResult('INVALID_ARGUMENTS', `invalid arguments: ${malformed}. ${help}`)
  }
  const warn = (text: string) => engine.warn(`tool "${tool.name}": ${text}`)
  const problems = await problemsOf(tool.parameters, call.args, 'the arguments', warn)
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
  rewrites: readonly Rewriter[],
): Promise<{ decision: PreToolDecision; rewriter: Rewriter | undefined }> {
  const proposals: Rewriter[] = []
  const from = async (index: number): Promise<PreToolDecision> => {
    const listener = listeners[index]
    if (!listener) return { kind: 'allow' }
    if (isOwnOutput(call, listener, rewrites)) return from(index + 1)
    const decision = await answerOf(listener, call, () => from(index + 1))
    if (decision.kind === 'deny' || decision.arguments === undefined) return decision
    if (isDeepStrictEqual(decision.arguments, call.args)) return decision
    const by = decision.by ?? listener.plugin
    proposals.push({ listener, decision, arguments: decision.arguments, by })
    return { ...decision, by }
  }
  const decision = await from(0)
  if (decision.kind === 'deny' || decision.arguments === undefined) return { decision, rewriter: undefined }
  // Inner answers come first: the first proposal of what came out is who had the idea, the others passed it on.
  const rewriter = proposals.find(proposal => isDeepStrictEqual(proposal.arguments, decision.arguments))
  return { decision, rewriter }
}

function isOwnOutput(call: Call, listener: NamedListener, rewrites: readonly Rewriter[]): boolean {
  const last = rewrites.findLast(rewrite => rewrite.listener === listener)
  return last !== undefined && isDeepStrictEqual(last.arguments, call.args)
}

async function answerOf(
  listener: NamedListener,
  call: Call,
  next: () => Promise<PreToolDecision>,
): Promise<PreToolDecision> {
  try {
    const decision = (await listener.run(call.exec, next)) as PreToolDecision | null | undefined
    if (decision?.kind === 'deny') return decision
    if (decision?.kind === 'allow' || decision?.kind === 'ask') {
      if (decision.arguments === undefined) return decision
      return { ...decision, arguments: snapshot(decision.arguments, 'what it wants as arguments') }
    }
    throw new TypeError('it answered tools/pre-execute with no decision; it must return one, or next()')
  } catch (error) {
    // The innermost listener that an error came through is where it came from.
    if (typeof error === 'object' && error && !blame.has(error)) blame.set(error, listener.plugin)
    throw error
  }
}

function names(rewrites: readonly Rewriter[]): string {
  return [...new Set(rewrites.map(({ listener }) => listener.plugin))].join(' and ')
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
