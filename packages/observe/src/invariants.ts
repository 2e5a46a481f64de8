/**
 * Holds each session to what its log promises, while it runs: for tests and development. What breaks it is named, with
 * its plugin and the line.
 */

import type {} from '@cambium/agent'
import { type Context, HarnessError, Service } from '@cambium/core'
import { type LlmRequest, LlmRuntime } from '@cambium/llm'
import type { Session, SessionEvent } from '@cambium/session'
import type { Agent, ToolExecution, ToolResult } from '@cambium/tools'
import Schema from 'schemastery'
import { type Culprit, culpritBelow } from './invariants/culprit.ts'
import { LogState } from './invariants/log-state.ts'
import { RequestCheck } from './invariants/request.ts'
import { judge, LIVE, type Problem, RULES, type Rule } from './invariants/rules.ts'

export const name = 'invariants'
export const inject = ['sessions']
export const provide = ['invariants']

export interface Config {
  mode: 'throw' | 'report'
}
export const Config: Schema<Config> = Schema.object({
  mode: Schema.union([
    Schema.const('throw' as const).description('keeps the event out of the log, and the request from being made'),
    Schema.const('report' as const).description('logs an error, once for each rule and plugin'),
  ])
    .default('report')
    .description('What a breach comes to'),
})

export interface Breach {
  readonly rule: Rule
  /** What is wrong, in one sentence without anything that was said. */
  readonly problem: string
  readonly session: string | undefined
  /** Whose code it was, as far as the stack tells. */
  readonly plugin: string
  /** `plugins/audit.ts:14:11` */
  readonly at: string | undefined
}

export interface Invariants {
  /** The first hundred breaches of this tree, in order; those that were vetoed too. */
  breaches(): readonly Breach[]
}

declare module 'cordis' {
  interface Context {
    /** What broke the promises of a log, where somebody looks for it: in tests and development. */
    invariants: Invariants
  }
}

const MAX_KEPT = 100
const MAX_COMPARED = 100

interface Watched {
  readonly state: LogState
  readonly requests: RequestCheck
  /** Seq of the next event that listeners are to hear. */
  told: number | undefined
}

class Watch extends Service implements Invariants {
  private readonly found: Breach[] = []
  private readonly said = new Set<string>()
  private readonly base: Context
  private readonly vetoes: boolean

  constructor(ctx: Context, mode: Config['mode']) {
    super(ctx, 'invariants')
    this.base = ctx
    this.vetoes = mode === 'throw'
  }

  breaches(): readonly Breach[] {
    return [...this.found]
  }

  /** A breach that can be kept from happening. @throws `INVARIANT_BROKEN` where that is wanted */
  forbid(problem: Problem, session: string | undefined, culprit: Culprit): void {
    const error = this.broken(problem, session, culprit)
    if (this.vetoes) throw error
    this.say(problem.rule, culprit, error)
  }

  /** One that has happened already. */
  tell(problem: Problem, session: string | undefined, culprit: Culprit): void {
    this.say(problem.rule, culprit, this.broken(problem, session, culprit))
  }

  private broken({ rule, problem }: Problem, session: string | undefined, { plugin, at }: Culprit): HarnessError {
    if (this.found.length < MAX_KEPT) this.found.push({ rule, problem, session, plugin, at })
    const place = [plugin, at].filter(part => part !== undefined).join(', ')
    return new HarnessError('INVARIANT_BROKEN', problem, {
      where: session === undefined ? place : `${place}, in session ${session}`,
      fix: `the rule ${rule}: ${RULES[rule]}`,
    })
  }

  private say(rule: Rule, { plugin }: Culprit, error: HarnessError): void {
    const key = `${rule} ${plugin}`
    if (this.said.has(key)) return
    this.said.add(key)
    this.base.logger.error(error.message)
  }
}

export function apply(ctx: Context, config: Config) {
  const watch = new Watch(ctx, config.mode)
  const sights = new WeakMap<Session, Watched>()
  /** Asking the service for a session costs more than all else that a request is asked. */
  const open = new Map<string, Session>()
  ctx.on('session/disposed', session => void open.delete(session.id))
  const sight = (session: Session): Watched => {
    let found = sights.get(session)
    if (!found) {
      found = { state: new LogState(), requests: new RequestCheck(), told: undefined }
      sights.set(session, found)
      open.set(session.id, session)
    }
    found.state.catchUp(session)
    return found
  }

  /** Types by the way they were told: what is live is never logged. */
  const live = new Set<string>(LIVE)
  const logged = new Set<string>()

  ctx.on('session/append', (session, draft) => {
    const problem = live.has(draft.type) ? appendedLive(draft) : judge(sight(session).state, draft)
    if (problem) watch.forbid(problem, session.id, culpritBelow(ctx, session.append))
  })

  ctx.on('llm/stream', (request, next) => {
    const session = belongsTo(request) ? open.get(request.sessionId) : undefined
    if (session) {
      const { state, requests } = sight(session)
      const problem = requests.judge(session, state, request)
      if (problem) watch.forbid(problem, session.id, culpritBelow(ctx, LlmRuntime.prototype.stream))
    }
    return next()
  })

  ctx.on('session/event', (session, event) => {
    const { type } = event
    if (event.seq === undefined) {
      // Most of what is told is a piece of an answer, and nothing new.
      if (live.has(type)) return
      live.add(type)
      if (logged.has(type)) watch.tell(toldLive(event), session.id, culpritBelow(ctx, session.publish))
      return
    }
    logged.add(type)
    const problem = heard(sight(session), event)
    if (problem) watch.tell(problem, session.id, culpritBelow(ctx, session.append))
  })

  ctx.on('agent/inbox', agent => {
    const problem = inboxOf(agent, sight(agent.session).state)
    if (problem) watch.tell(problem, agent.id, culpritBelow(ctx, apply))
  })

  const results = new WeakSet<ToolExecution>()
  ctx.on('tools/result', (exec, result) => {
    const problem = final(exec, result, results.has(exec))
    results.add(exec)
    if (problem) watch.tell(problem, exec.agent?.id, culpritBelow(ctx, apply))
  })
}

const appendedLive = ({ type }: { readonly type: string }): Problem => ({
  rule: 'live-events',
  problem: `${type} is live and was appended to the log`,
})

const toldLive = ({ type }: { readonly type: string }): Problem => ({
  rule: 'live-events',
  problem: `${type} is logged and was told without being so`,
})

const belongsTo = (request: LlmRequest): request is LlmRequest & { sessionId: string } =>
  request.sessionId !== undefined && request.purpose === undefined

/** What a listener hears is what the log has, once and in order. */
function heard(watched: Watched, event: SessionEvent): Problem | undefined {
  const { type, seq } = event
  const rule = 'told-in-order'
  const expected = watched.told ?? seq
  watched.told = seq + 1
  if (seq !== expected) return { rule, problem: `event ${seq} (${type}) was told in the place of event ${expected}` }
  if (!Number.isFinite(event.time)) return { rule, problem: `event ${seq} (${type}) was told without a time` }
  if (Object.isFrozen(event) && Object.isFrozen(event.data)) return undefined
  return { rule, problem: `event ${seq} (${type}) was told and can be changed` }
}

/** What waits in an agent is what the log says is waiting. */
function inboxOf(agent: Agent, { pending }: LogState): Problem | undefined {
  const waiting = agent.pending()
  // Long ones by their length alone: this is asked at every message.
  if (waiting.length === pending.size && pending.size > MAX_COMPARED) return undefined
  const held = new Set(waiting.map(({ id }) => id))
  const lost = [...pending].find(id => !held.has(id))
  if (lost !== undefined) return { rule: 'inbox-conserved', problem: `message ${lost} was received and is lost` }
  const made = [...held].find(id => !pending.has(id))
  return made === undefined
    ? undefined
    : { rule: 'inbox-conserved', problem: `message ${made} waits, and the log does not have it` }
}

function final({ name: tool, callId }: ToolExecution, result: ToolResult, again: boolean): Problem | undefined {
  const rule = 'results-frozen'
  if (again) return { rule, problem: `the result of call ${callId} (${tool}) is told a second time` }
  const parts = [result, result.content, ...result.content]
  return parts.every(part => Object.isFrozen(part))
    ? undefined
    : { rule, problem: `the result of call ${callId} (${tool}) is told and can be changed` }
}
