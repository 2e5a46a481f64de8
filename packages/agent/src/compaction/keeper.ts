/** Decides when a conversation is made shorter: before a request, after a refusal, when asked; one at a time for a session. */

import { type Context, errorMessage, HarnessError } from '@cambium/core'
import type { FailedAttempt, LlmCallConfig, LlmService, Route } from '@cambium/llm'
import type { Session } from '@cambium/session'
import type { Agent } from '@cambium/tools'
import type { PromptAssembly } from '../events.ts'
import { renderPrompt } from '../prompt.ts'
import type { CompactionResult, Envelope, LearnedWindow } from './contract.ts'
import type { Engine, Need, Outcome } from './engine.ts'
import { Ledger, type LedgerEntry, narrower } from './ledger.ts'
import { type Room, readRefusal, roomOf } from './room.ts'
import type { Settings } from './settings.ts'
import { sizeOf } from './size.ts'

/** After a failed summary the conversation has to grow by this share before the next, then by twice as much. */
const GROWTH = 0.04
/** Of the size that was refused, where no window was named: what the next request may have. */
const HALF = 0.5
/** Tokens of all messages below which there is nothing to make shorter. */
const LEAST_SAID = 250

export class Keeper {
  private readonly ctx: Context
  private readonly llm: LlmService
  private readonly settings: Settings
  private readonly ledger = new Ledger()
  private readonly assemblies = new WeakMap<Agent, PromptAssembly>()
  private readonly runs = new Map<Session, Promise<unknown>>()
  /** Turns that were told what is too large. */
  private readonly told = new WeakMap<Session, number>()
  private readonly disposal = new AbortController()
  private engine: Promise<Engine> | undefined

  constructor(ctx: Context, settings: Settings) {
    this.ctx = ctx
    this.llm = ctx.llm
    this.settings = settings
  }

  /** What the agent's next request is made with, beside its messages. */
  remember(agent: Agent, assembly: PromptAssembly): void {
    this.assemblies.set(agent, assembly)
  }

  running(session: Session): boolean {
    return this.runs.has(session)
  }

  /** Ends what runs, and waits for it. */
  async dispose(): Promise<void> {
    this.disposal.abort(new Error('the compaction plugin was unloaded'))
    await Promise.allSettled(this.runs.values())
  }

  /** Never throws: a request that may be too long is for the provider to judge. */
  async beforeRequest(agent: Agent, config: LlmCallConfig, signal: AbortSignal): Promise<void> {
    const { session } = agent
    // What somebody asked for while nothing ran goes first: no request may be under way when the conversation changes.
    await ended(this.runs.get(session), signal)
    if (!this.settings.enabled || signal.aborted) return
    const envelope = await this.envelope(agent, config)
    const room = this.room(session, config)
    const size = sizeOf(session, this.llm, envelope)
    if (!room || size <= room.threshold) return
    const entry = this.ledger.of(session)
    const must = size > room.limit
    if (entry.inVain >= this.settings.attempts || !this.mayHelp(session, envelope, room.window)) {
      return this.warn(agent, envelope, room)
    }
    const mayAsk = this.mayAsk(session, entry, { size, must, threshold: room.threshold })
    const need = { reason: 'pressure', envelope, room, goal: room.threshold, must, mayAsk, level: 1 } as const
    const outcome = await this.run(agent, { ...need, signal })
    if (signal.aborted || outcome.aborted) return
    if (outcome.error) {
      const { code, message } = outcome.error
      this.ctx.logger.warn(`session ${session.id}: no summary could be had (${code}): ${message}`)
    }
    if (outcome.after > room.limit) await this.warn(agent, envelope, room)
  }

  /**
   * After the provider said that the request is too long. True when it is shorter now.
   * @throws `CONTEXT_WINDOW_EXCEEDED` naming what is too large
   */
  async afterRefusal(input: FailedAttempt & { readonly agent: Agent }): Promise<boolean> {
    const { agent, config, failure, signal } = input
    const { session } = agent
    const envelope = await this.envelope(agent, config)
    const level = this.ledger.of(session).overflows + 1
    const { window, counted } = readRefusal(failure.message)
    const size = sizeOf(session, this.llm, envelope)
    const refused = counted ?? size
    const learned: LearnedWindow = window ? { tokens: window, exact: true } : { tokens: refused, exact: false }
    const known = narrower(this.ledger.learned(session, config), learned)
    const room = roomOf(config, this.llm.modelInfo(config), known, this.settings.threshold)
    let outcome: Outcome | undefined
    if (level <= this.settings.attempts && !signal.aborted && this.mayHelp(session, envelope, window)) {
      const goal = Math.min(room?.threshold ?? refused, level > 1 || !window ? HALF * refused : refused)
      const mayAsk = level === 1 && !this.circuitOpen(session)
      const need = { reason: 'overflow', envelope, room, goal, must: true, mayAsk, level, least: refused } as const
      outcome = await this.run(agent, { ...need, learned, signal })
      if (outcome.aborted || signal.aborted) return false
      if (outcome.tier && outcome.after < outcome.before) return true
    }
    const { Survey } = await import('./survey.ts')
    const { tooLarge } = await import('./report.ts')
    const { problem, fix } = tooLarge(new Survey(session, this.llm, envelope, size), envelope, room, this.llm)
    const said = outcome?.error
      ? `${failure.message}; no summary could be had: ${outcome.error.message}`
      : failure.message
    throw new HarnessError('CONTEXT_WINDOW_EXCEEDED', `${problem} (${said})`, { fix })
  }

  /** False where next to nothing was said, or all that is no message is too long for a window by itself. */
  private mayHelp(session: Session, { config, system, tools }: Envelope, window = Number.POSITIVE_INFINITY): boolean {
    const { meter } = this.llm
    const fixed = meter.estimate(config, { ...(system === undefined ? {} : { system }), tools, messages: [] })
    return fixed < window && meter.estimate(config, { messages: session.deriveMessages() }) >= LEAST_SAID
  }

  /** @throws as `ctx.compaction.compact` */
  async compact(agent: Agent, focus: string | undefined, signal: AbortSignal | undefined): Promise<CompactionResult> {
    const { session } = agent
    if (agent.status === 'running' || session.open.turn || this.runs.has(session)) {
      const what = this.runs.has(session) ? 'a compaction' : 'a turn'
      throw new HarnessError('COMPACTION_BUSY', `${what} is running in session ${session.id}`, {
        fix: 'wait until it has ended, or interrupt it, and ask again',
      })
    }
    const stop = AbortSignal.any([this.disposal.signal, ...(signal ? [signal] : [])])
    const work = this.byHand(agent, focus, stop)
    return this.held(session, work)
  }

  private async byHand(agent: Agent, focus: string | undefined, signal: AbortSignal): Promise<CompactionResult> {
    const { session } = agent
    const config = agent.config ?? session.last('request/header')?.data.config
    if (!config) throw failed('it is not known which model the conversation is for')
    const envelope = await this.envelope(agent, config)
    const size = sizeOf(session, this.llm, envelope)
    if (!this.ledger.of(session).news) {
      return { before: size, after: size, why: 'nothing was said since it was last made shorter' }
    }
    const room = this.room(session, config)
    const goal = Math.min(room?.threshold ?? size, size)
    const need = { reason: 'manual', envelope, room, goal, must: false, mayAsk: true, level: 1 } as const
    const writer = this.writer(session, envelope, size)
    const engine = await this.load()
    const outcome = await engine.run(agent, { ...need, writer, ...(focus ? { focus } : {}), signal })
    const { error, aborted, ...result } = outcome
    if (aborted)
      throw new HarnessError('COMPACTION_CANCELLED', 'the conversation is as it was: its summary was cancelled')
    if (error) throw failed(error.message)
    return result
  }

  /** One at a time for a session; errors of our own end here, since a request goes on without. */
  private async run(agent: Agent, need: Omit<Need, 'writer'>): Promise<Outcome> {
    const { session } = agent
    const signal = AbortSignal.any([need.signal, this.disposal.signal])
    const writer = this.writer(session, need.envelope, need.least ?? 0)
    const work = this.load().then(engine => engine.run(agent, { ...need, writer, signal }))
    try {
      return await this.held(session, work)
    } catch (error) {
      // A session that is closed, an event that somebody keeps out: nothing was changed.
      const size = sizeOf(session, this.llm, need.envelope)
      return { before: size, after: size, error: { code: 'UNKNOWN', message: errorMessage(error) } }
    }
  }

  private async held<T>(session: Session, work: Promise<T>): Promise<T> {
    this.runs.set(session, work)
    try {
      return await work
    } finally {
      if (this.runs.get(session) === work) this.runs.delete(session)
    }
  }

  private load(): Promise<Engine> {
    this.engine ??= import('./engine.ts').then(({ Engine }) => new Engine(this.ctx, this.settings))
    return this.engine
  }

  private async envelope(agent: Agent, config: LlmCallConfig): Promise<Envelope> {
    const header = agent.session.last('request/header')?.data
    let assembly = this.assemblies.get(agent)
    if (!assembly && !header) assembly = await this.ctx.systemPrompt.assemble({ agent })
    if (!assembly) return { config, ...(header?.system ? { system: header.system } : {}), tools: header?.tools ?? [] }
    const system = renderPrompt(assembly)
    return { config, ...(system ? { system } : {}), tools: assembly.tools }
  }

  /** With what a summary is asked for: what the last request was made with, which the provider has in its cache. */
  private writer(session: Session, next: Envelope, size: number): Envelope {
    const header = session.last('request/header')?.data
    const { model } = this.settings
    const base: Envelope = header
      ? { config: next.config, ...(header.system ? { system: header.system } : {}), tools: header.tools ?? [] }
      : next
    if (model) {
      const slash = model.indexOf('/')
      return { ...base, config: { provider: model.slice(0, slash), model: model.slice(slash + 1) } }
    }
    if (!header) return base
    const { config } = header
    if (isSame(config, next.config)) return { ...base, config }
    if (next.config.insteadOf && isSame(config, next.config.insteadOf)) return base
    // Another model is to go on, perhaps a smaller one: who has read the conversation before still can.
    const here = this.room(session, next.config)
    const there = this.room(session, config)
    const needed = Math.max(size, sizeOf(session, this.llm, { ...base, config: next.config }))
    return here && needed > here.limit && (!there || there.limit > here.limit) ? { ...base, config } : base
  }

  private room(session: Session, config: LlmCallConfig): Room | undefined {
    return roomOf(config, this.llm.modelInfo(config), this.ledger.learned(session, config), this.settings.threshold)
  }

  private circuitOpen(session: Session): boolean {
    const { failures, failedTurn } = this.ledger.of(session)
    return failures >= this.settings.failures && session.lastTurn - failedTurn < this.settings.restTurns
  }

  private mayAsk(
    session: Session,
    { failedNow, failedAt }: LedgerEntry,
    { size, must, threshold }: { size: number; must: boolean; threshold: number },
  ): boolean {
    if (this.circuitOpen(session)) return false
    return must || !failedNow || size >= failedAt + threshold * GROWTH * 2 ** (failedNow - 1)
  }

  /** Once a turn. */
  private async warn(agent: Agent, envelope: Envelope, room: Room): Promise<void> {
    const { session } = agent
    const { turn } = session.open
    if (this.told.get(session) === turn) return
    this.told.set(session, turn)
    const { Survey } = await import('./survey.ts')
    const { tooLarge } = await import('./report.ts')
    const { problem, fix } = tooLarge(new Survey(session, this.llm, envelope), envelope, room, this.llm)
    this.ctx.logger.warn(`session ${session.id}: ${problem}; ${fix}`)
  }
}

const failed = (why: string) =>
  new HarnessError('COMPACTION_FAILED', `the conversation is as it was: ${why}`, {
    fix: 'ask again later, or go on: it is made shorter by itself when it has to be',
  })

const isSame = (a: Route, b: Route) => a.provider === b.provider && a.model === b.model

/** Resolves when it has, whatever came of it, or when nobody waits any more. */
async function ended(work: Promise<unknown> | undefined, signal: AbortSignal): Promise<void> {
  if (!work || signal.aborted) return
  await new Promise<void>(resolve => {
    const done = () => {
      signal.removeEventListener('abort', done)
      resolve()
    }
    signal.addEventListener('abort', done, { once: true })
    work.then(done, done)
  })
}
