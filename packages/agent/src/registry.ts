/** `ctx.agents`: who is alive, and how one comes to life and ends. */

import { type Context, createScope, HarnessError, notify, Service } from '@cambium/core'
import type { LlmCallConfig, LlmService } from '@cambium/llm'
import { type CreateSessionOptions, newSessionId, type Session, type SessionId, type Sessions } from '@cambium/session'
import type { Agent } from '@cambium/tools'
import type { Driver } from './driver.ts'
import type { AgentHandle, Agents, CreateAgentOptions } from './events.ts'
import { LiveAgent } from './live-agent.ts'

interface Origin {
  readonly source: 'startup' | 'resume'
  readonly options: CreateAgentOptions
  /** The context whose plugin owns the agent. */
  readonly owner: Context
}

export class AgentRegistry extends Service implements Agents {
  private readonly core: AgentCore

  constructor(ctx: Context) {
    super(ctx, 'agents')
    this.core = new AgentCore(ctx)
  }

  async create(options: CreateAgentOptions = {}): Promise<AgentHandle> {
    return this.core.create(options, this.ctx)
  }

  async resume(id: SessionId, options: Omit<CreateAgentOptions, 'id' | 'seed' | 'cwd'> = {}): Promise<AgentHandle> {
    return this.core.resume(id, options, this.ctx)
  }

  get(id: SessionId): Agent | undefined {
    return this.core.live.get(id)?.agent
  }

  list(): Agent[] {
    return [...this.core.live.values()].map(handle => handle.agent)
  }

  /** Makes `driver` the loop of every agent, for as long as the calling plugin lives. @throws `AGENT_TWO_LOOPS` */
  drive(driver: Driver): () => void {
    return this.core.drive(driver, this.ctx)
  }
}

interface LiveHandle extends AgentHandle {
  readonly agent: LiveAgent
}

class AgentCore {
  readonly live = new Map<SessionId, LiveHandle>()
  private readonly ctx: Context
  private readonly llm: LlmService
  private readonly sessions: Sessions
  private driver: Driver | undefined

  constructor(ctx: Context) {
    this.ctx = ctx
    this.llm = ctx.llm
    this.sessions = ctx.sessions
  }

  drive(driver: Driver, owner: Context): () => void {
    if (this.driver) {
      throw new HarnessError('AGENT_TWO_LOOPS', 'a loop is mounted already', { fix: 'mount one loop plugin only' })
    }
    return owner.effect(() => {
      this.driver = driver
      for (const { agent } of this.live.values()) agent.wake()
      return async () => {
        this.driver = undefined
        // A turn belongs to the code that runs it; what is queued waits for the next loop.
        const agents = [...this.live.values()].map(handle => handle.agent)
        for (const agent of agents) agent.cancel({ by: 'hook', reason: 'the loop was unloaded' }, { keepInbox: true })
        await Promise.all(agents.map(agent => agent.whenIdle()))
      }
    }, 'agent loop') as unknown as () => void
  }

  async create(options: CreateAgentOptions, owner: Context): Promise<LiveHandle> {
    const id = options.id ?? newSessionId()
    const config = await this.route(options.model ?? this.driver?.model ?? 'auto')
    const session: CreateSessionOptions = {}
    if (options.cwd ?? options.parent) session.cwd = options.cwd ?? options.parent!.session.header.cwd
    if (options.seed) session.seed = options.seed
    if (options.parent) {
      session.header = { origin: 'subagent', depth: (options.parent.session.header.depth ?? 0) + 1 }
    }
    return this.open(this.sessions.create(id, session), config, { source: 'startup', options, owner })
  }

  async resume(id: SessionId, options: CreateAgentOptions, owner: Context): Promise<LiveHandle> {
    const session = await this.sessions.resume(id)
    try {
      const config = options.model
        ? await this.route(options.model)
        : (lastRoute(session) ?? (await this.route(this.driver?.model ?? 'auto')))
      return await this.open(session, config, { source: 'resume', options, owner })
    } catch (error) {
      await this.sessions.close(session)
      throw error
    }
  }

  private async route(selection: string): Promise<LlmCallConfig> {
    const { route, notice } = await this.llm.resolve(selection)
    // A choice that nobody made by name is never silent.
    if (notice) this.ctx.logger.warn(notice)
    return { provider: route.provider, model: route.model }
  }

  /** Private until its setup has spoken; a refusal leaves nothing behind. Whoever wants to veto gates `session/created`. */
  private async open(session: Session, config: LlmCallConfig, origin: Origin): Promise<LiveHandle> {
    const { source, options, owner } = origin
    const agent = new LiveAgent({ session, config, source, llm: this.llm, driver: () => this.driver })
    const scope = createScope(this.ctx, agent, options.parent)
    agent.ctx = scope.ctx
    const unbind = this.sessions.bindScope(session, agent)
    let announced = false
    let ended = false
    const forget: (() => void)[] = []
    let disposal: Promise<void> | undefined
    const dispose = () => {
      disposal ??= (async () => {
        agent.cancel({ by: 'disposed' }, { keepInbox: true })
        await agent.whenIdle()
        await scope.dispose()
        this.live.delete(agent.id)
        // Its own scope is gone; whoever was told of it above is told of its end.
        if (announced) notify(this.ctx, options.parent, 'agent/disposed', agent)
        unbind()
        try {
          await this.sessions.close(session)
        } finally {
          // Whoever disposes first is told what storing failed with; the plugin's end has nothing to add.
          ended = true
          for (const undo of forget) undo()
        }
      })()
      return disposal
    }
    const handle = { agent, dispose }
    const endWith = (ctx: Context) => {
      const undo: unknown = ctx.effect(() => () => (ended ? undefined : dispose()), `agent ${agent.id}`)
      forget.push(undo as () => void)
    }
    // Acquired after the scope and the session, so that it ends before they do.
    endWith(this.ctx)
    try {
      await options.setup?.(agent)
      // Throws for an owner that has gone meanwhile.
      endWith(owner)
    } catch (error) {
      await dispose()
      throw error
    }
    this.live.set(agent.id, handle)
    announced = true
    notify(this.ctx, agent, 'agent/created', agent)
    return handle
  }
}

/**
 * The route of the next request, by the log: the last choice or the last request, whichever is later. What else that
 * request was made with, listeners have added to it, and they add it anew.
 */
function lastRoute(session: Session): LlmCallConfig | undefined {
  const header = session.last('request/header')
  const choice = session.last('agent/model')
  const used = header?.data.config
  // Where another route stood in for the one that was chosen, the choice stands.
  const last = choice && (!header || choice.seq > header.seq) ? choice.data : (used?.insteadOf ?? used)
  return last && { provider: last.provider, model: last.model }
}
