/** The agent of a replay: made, taken up from the store, or begun anew from what was recorded. */

import type { Agent, AgentHandle } from '@cambium/agent'
import type { Context } from '@cambium/core'
import { ReplayAdapter, recordedAnswers, recordedSummaries } from '@cambium/llm/replay'
import type { SessionEvent, StoredSession } from '@cambium/session'
import { Reader } from './compare.ts'
import { lastHeader, PROVIDER } from './stand-ins.ts'

export class Stage {
  /** Undefined while there is none. */
  agent: Agent | undefined
  /** Answers as the model did. */
  adapter!: ReplayAdapter
  /** Of what the agent logs. */
  reader!: Reader
  private readonly ctx: Context
  private readonly stored: StoredSession
  private readonly interrupted: () => void
  private readonly providers: ReadonlySet<string>
  private handle: AgentHandle | undefined
  /** Where messages of the recording stand in the replay, beside those that were taken over. */
  private readonly places = new Map<number, number>()
  private seeded = 0

  /** `interrupted` is called when all of an answer that was cut off then has been told. */
  constructor(ctx: Context, stored: StoredSession, interrupted: () => void) {
    this.ctx = ctx
    this.stored = stored
    this.interrupted = interrupted
    this.providers = new Set(recordedAnswers(stored.events).map(({ config }) => config.provider))
  }

  /** A new agent that stands where the recorded one stood before event `seeded`. */
  async open(seeded: number): Promise<void> {
    const { events, header } = this.stored
    this.seeded = seeded
    this.places.clear()
    const left = [...lastHeader(events.slice(0, seeded)), ...events.slice(seeded)]
    this.adapter = new ReplayAdapter(left, {
      provider: PROVIDER,
      summaries: recordedSummaries(left),
      interrupted: this.interrupted,
    })
    this.ctx.llm.meter.forget()
    this.handle = await this.ctx.agents.create({
      cwd: header.cwd,
      model: `${PROVIDER}/recorded`,
      ...(seeded ? { seed: events.slice(0, seeded) } : {}),
      setup: agent => this.setUp(agent),
    })
  }

  /** What was taken up in another process then is taken up from the store now. */
  async resume(): Promise<void> {
    const { ctx, agent, handle } = this
    if (!agent || !handle || !ctx.get('sessionPersistence')) return
    await handle.dispose()
    ctx.llm.meter.forget()
    this.handle = await ctx.agents.resume(agent.id, { setup: resumed => this.setUp(resumed) })
  }

  async leave(): Promise<void> {
    const { handle } = this
    this.handle = undefined
    this.agent = undefined
    await handle?.dispose()
  }

  /** The message logged at `recorded` then stands at `now`. */
  place(recorded: number, now: number): void {
    this.places.set(recorded, now)
  }

  /** Does what was done by hand. False where the replay does not have the messages that are replaced. */
  replace(event: SessionEvent<'context/replaced'>): boolean {
    const [from, to] = [event.data.from, event.data.to].map(seq => this.placeOf(seq))
    if (!this.agent || from === undefined || to === undefined) return false
    try {
      const placed = this.agent.session.append('context/replaced', { ...event.data, from, to })
      this.place(event.seq, placed.seq)
      return true
    } catch {
      // They do not stand on the surface any more: the caller takes over what was recorded.
      return false
    }
  }

  private placeOf(seq: number): number | undefined {
    return this.places.get(seq) ?? (seq < this.seeded ? seq : undefined)
  }

  private setUp(agent: Agent): void {
    this.agent = agent
    this.reader = new Reader()
    const { adapter, providers } = this
    for (const provider of providers) agent.ctx.llm.registerAdapter(provider, adapter)
    const { tools } = agent.ctx
    for (const { name } of tools.schemas(agent)) {
      const { output, ...tool } = tools.get(name, agent) ?? {}
      // The log has no values that could be held against a schema.
      if (output && 'execute' in tool) tools.register(tool as Parameters<typeof tools.register>[0])
    }
  }
}
