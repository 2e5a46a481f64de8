/** Takes a fresh agent through what was recorded: the same input, the same answers, the same results, the real loop. */

import type { Context } from '@cambium/core'
import { isIntact, type SessionEvent, type StoredSession } from '@cambium/session'
import type { ToolExecution, ToolResult } from '@cambium/tools'
import { plural } from '../printable.ts'
import { type Comparable, Comparison, counts, expectedOf } from './compare.ts'
import { type RecordedTurn, type Recording, readRecording, turnsToReplay } from './recording.ts'
import type { ReplayReport } from './render.ts'
import { Stage } from './stage.ts'
import {
  causeOf,
  failed,
  howItEnded,
  Nobody,
  nothing,
  PROVIDER,
  type Recorded,
  resultsOf,
  resultText,
} from './stand-ins.ts'

export interface ReplayOptions {
  /** Only this one; what was said before it is taken over. */
  readonly turn?: number | undefined
  /** Tools that change nothing run, and what they answer now is compared. */
  readonly runTools: boolean
  /** Whether what requests are made with is compared. */
  readonly headers: boolean
  readonly signal: AbortSignal
  readonly progress: (text: string) => void
}

/** Results of calls that had not come to their end. */
const CUT = new Set(['ABORTED', 'ABORTED_BEFORE_DISPATCH', 'TOOL_NOT_STARTED', 'TOOL_OUTCOME_UNKNOWN'])
/** Results of calls whose tool was not reached. */
const REFUSED = new Set(['TOOL_DENIED', 'INVALID_ARGUMENTS', 'UNKNOWN_TOOL', 'SESSION_NOT_STORED', 'TOOL_CHANGED'])

export class Replayer {
  private readonly ctx: Context
  private readonly stored: StoredSession
  private readonly options: ReplayOptions
  private readonly recording: Recording
  /** By the seq at which a turn begins. */
  private readonly expected: ReadonlyMap<number, readonly Comparable[]>
  private readonly results: ReadonlyMap<string, Recorded>
  private readonly comparison = new Comparison()
  private readonly notes: string[] = []
  private readonly startedAt = performance.now()
  private readonly stage: Stage
  private current: RecordedTurn | undefined
  private broken: RecordedTurn | undefined
  private turns = 0
  private steps = 0
  private replayed = 0
  private ran = 0

  constructor(ctx: Context, stored: StoredSession, options: ReplayOptions) {
    this.ctx = ctx
    this.stored = stored
    this.options = options
    const { events } = stored
    this.recording = readRecording(events)
    this.expected = expectedOf(this.recording, options.headers)
    this.stage = new Stage(ctx, stored, () => this.breakOff())
    this.results = resultsOf(events)
  }

  /** @throws `CLI_USAGE` for a turn that there is not */
  async run(): Promise<ReplayReport> {
    const { signal } = this.options
    const chosen = turnsToReplay(this.recording, this.options.turn)
    if (this.recording.open) this.notes.push('the last turn has no end yet and is left out')
    this.listen()
    const stop = () => this.stage.agent?.cancel({ by: 'user', reason: 'stopped' })
    signal.addEventListener('abort', stop)
    try {
      let before: RecordedTurn | undefined
      for (const turn of chosen) {
        await this.ready(turn, before)
        await this.play(turn)
        if (this.comparison.divergence || signal.aborted) break
        this.turns++
        before = turn
        if (turn.brokenOff) await this.stage.leave()
      }
    } finally {
      signal.removeEventListener('abort', stop)
      await this.stage.leave()
    }
    return this.report()
  }

  private report(): ReplayReport {
    const { divergence } = this.comparison
    const { replayed, ran, turns, steps, notes } = this
    return {
      session: this.stored.header.id,
      same: !divergence && !this.options.signal.aborted,
      turns,
      steps,
      tools: { replayed, run: ran },
      durationMs: Math.round(performance.now() - this.startedAt),
      notes,
      ...(divergence ? { divergence } : {}),
    }
  }

  /** The agent stands where the recorded one stood when `turn` began. */
  private async ready(turn: RecordedTurn, before: RecordedTurn | undefined): Promise<void> {
    const { stage } = this
    if (!stage.agent) return stage.open(before || this.options.turn !== undefined ? turn.from : 0)
    const between = this.recording.events.slice(before ? before.to + 1 : 0, turn.from)
    if (between.some(({ type }) => type === 'session/resumed')) await stage.resume()
    for (const event of between) {
      if (event.type !== 'context/replaced' || !isIntact(event) || stage.replace(event)) continue
      await stage.leave()
      return stage.open(turn.from)
    }
  }

  // A turn ---------------------------------------------------------------------------------------------------------

  private async play(turn: RecordedTurn): Promise<void> {
    const { comparison } = this
    const { agent } = this.stage
    if (!agent) return
    this.current = turn
    const own = this.expected.get(turn.from) ?? []
    comparison.expect(own.filter(item => !(turn.brokenOff && item.noun === 'the end of the turn')))
    this.deliver(turn, 1)
    if (agent.status === 'idle') {
      this.notes.push(`turn ${turn.turn} was begun by nobody who could be asked again: it is taken over as it is`)
      comparison.mute()
      await this.stage.leave()
      return
    }
    await agent.whenIdle()
    comparison.end()
    this.current = undefined
  }

  /** What came from outside for a step, in its order. */
  private deliver(turn: RecordedTurn, step: number): void {
    const { agent } = this.stage
    if (!agent) return
    const there = agent.pending().map(({ content }) => JSON.stringify(content))
    for (const { message, given, target } of turn.inputs.get(step) ?? []) {
      if (!given) continue
      const fromPlugin = message.source.kind === 'plugin'
      // Who gave it then may have given it again.
      const again = fromPlugin ? there.indexOf(JSON.stringify(message.content)) : -1
      if (again >= 0) {
        there.splice(again, 1)
        continue
      }
      if (step === 1 && target === 'next-turn') agent.followup(message)
      else if (fromPlugin) agent.inject(message)
      else agent.steer(message)
    }
  }

  /** Cancels where the recorded turn was cancelled, or where it simply ends. What follows is not compared. */
  private breakOff(): void {
    const { current, comparison } = this
    const { agent } = this.stage
    if (!agent || !current) return
    if (this.broken !== current) {
      const step = agent.session.open.step || current.steps
      this.notes.push(`turn ${current.turn} ${howItEnded(current)} in step ${step}: it is replayed up to there`)
    }
    this.broken = current
    comparison.mute()
    agent.cancel(causeOf(current), { keepInbox: true })
  }

  // What the loop asks -----------------------------------------------------------------------------------------------

  private listen(): void {
    const { ctx, comparison } = this
    ctx.llm.registerAdapter(PROVIDER, new Nobody())
    ctx.on('session/event', (session, event) => {
      if (session === this.stage.agent?.session && event.seq !== undefined) this.hear(event)
    })
    // Innermost: what other listeners make of the choice is what is compared.
    ctx.on('agent/request', async (input, next) => {
      if (input.agent !== this.stage.agent) return next()
      const answer = this.stage.adapter.upcoming()
      const { current } = this
      const due = answer && current && answer.turn === current.turn && answer.step === input.step
      if (!due || answer.failure?.code === 'ABORTED') {
        if (current?.brokenOff) this.breakOff()
        else this.part(input.step, 'a request that was not recorded')
      }
      const { provider, model, insteadOf } = answer?.config ?? input.config
      return { provider, model, ...(insteadOf ? { insteadOf } : {}) }
    })
    ctx.on(
      'agent/request-error',
      async (input, next) => {
        if (input.agent !== this.stage.agent) return next()
        // Nobody waits for a provider here; only what shortens the conversation has to be done.
        if (input.failure.code === 'CONTEXT_WINDOW_EXCEEDED') await next()
        const answer = this.stage.adapter.upcoming()
        return { kind: answer?.turn === input.turn && answer.step === input.step ? 'retry' : 'fail' }
      },
      { prepend: true },
    )
    // What a person decided then is decided the same way.
    ctx.on(
      'tools/pre-execute',
      async (exec, next) => {
        const decision = await next()
        if (!exec.agent || exec.agent !== this.stage.agent || decision?.kind !== 'ask') return decision
        const { kind: _kind, reason: _reason, ...wanted } = decision
        const error = this.results.get(exec.callId)?.error
        if (error?.code === 'TOOL_DENIED') return { kind: 'deny', reason: error.message }
        return { kind: 'allow', ...wanted }
      },
      { prepend: true },
    )
    ctx.on('tools/execute', async (exec, next) => {
      return exec.agent === undefined || exec.agent !== this.stage.agent ? next() : this.answer(exec, next)
    })
    // Nothing goes out: no title, no child, no plugin of one's own.
    ctx.on(
      'llm/stream',
      (request, next) => (this.stage.agent && request.scope === this.stage.agent ? next() : nothing()),
      {
        prepend: true,
      },
    )
    ctx.effect(() => () => comparison.mute(), 'replay')
  }

  private hear(event: SessionEvent): void {
    const { current, comparison } = this
    const { agent } = this.stage
    const came = this.stage.reader.read(event)
    if (!current || !agent) return
    if (came && counts(came, this.options.headers)) {
      const expected = comparison.take(came)
      if (expected) this.stage.place(expected.seq, event.seq)
      if (comparison.divergence) agent.cancel({ by: 'user', reason: 'the replay parts from the recording' })
    }
    if (event.type === 'assistant/message') {
      this.steps++
      const last = this.recording.turns.at(-1)?.turn
      this.options.progress(`turn ${current.turn} of ${last} · ${plural(this.steps, 'step')}`)
    }
    if (event.type !== 'step/end') return
    const { step } = event.data
    this.deliver(current, step + 1)
    if (current.brokenOff && step >= current.steps) this.breakOff()
  }

  private async answer(exec: ToolExecution, next: () => Promise<ToolResult>): Promise<ToolResult> {
    const { current } = this
    const step = this.stage.agent?.session.open.step ?? 0
    const recorded = this.results.get(exec.callId)
    const code = recorded?.error?.code
    if (!recorded || (code && CUT.has(code))) {
      if (current?.brokenOff) this.breakOff()
      else this.part(step, `a call of ${exec.name} whose result was not recorded`)
      return failed('ABORTED', 'the recording has no result of this call')
    }
    if (code && REFUSED.has(code)) {
      this.part(step, `the call of ${exec.name} was refused (${code}), and is let through now`, resultText(recorded))
      return failed(code, resultText(recorded))
    }
    if (this.options.runTools && exec.tool?.readOnly) {
      this.ran++
      return next()
    }
    this.replayed++
    const [block] = recorded.message.content
    const content = block?.type === 'tool-result' ? block.content : []
    const { meta, error } = recorded
    return {
      isError: block?.type === 'tool-result' && block.isError === true,
      content,
      ...(meta === undefined ? {} : { meta }),
      ...(error ? { error } : {}),
      contexts: [],
      concludesTurn: current?.concluded === true && step === current.steps,
      durationMs: recorded.durationMs ?? 0,
    }
  }

  private part(step: number, what: string, expected?: string): void {
    const turn = this.current?.turn ?? 0
    this.comparison.diverge({ turn, step, what, ...(expected === undefined ? {} : { expected }) })
    this.stage.agent?.cancel({ by: 'user', reason: 'the replay parts from the recording' })
  }
}
