/** An agent: a session, an inbox, a scope, and the state of running or being idle. */

import { type Context, notify, report, serial } from '@cambium/core'
import type { LlmCallConfig, LlmService, MessageId, UserMessage } from '@cambium/llm'
import type { Session, SessionId } from '@cambium/session'
import type { Agent, CancelCause } from '@cambium/tools'
import type { DrivenAgent, Driver } from './driver.ts'
import { type Delivery, Inbox } from './inbox.ts'
import { Cancelled, heard } from './listeners.ts'

export interface LiveAgentOptions {
  readonly session: Session
  readonly llm: LlmService
  readonly config: LlmCallConfig
  readonly source: 'startup' | 'resume'
  /** The loop that is mounted now, if one is. */
  driver(): Driver | undefined
}

export class LiveAgent implements Agent, DrivenAgent {
  readonly id: SessionId
  readonly session: Session
  readonly inbox: Inbox
  ctx!: Context
  status: 'idle' | 'running' = 'idle'
  config: LlmCallConfig
  private readonly options: LiveAgentOptions
  private controller = new AbortController()
  private running: Promise<void> | undefined
  private starting: Promise<unknown> | undefined
  private disposed = false

  constructor(options: LiveAgentOptions) {
    this.options = options
    this.session = options.session
    this.id = options.session.id
    this.config = options.config
    this.inbox = new Inbox(options.session)
  }

  followup(message: UserMessage): MessageId {
    return this.deliver(message, { target: 'next-turn', wakes: true })
  }

  steer(message: UserMessage): MessageId {
    // What comes after a cancel belongs to the next turn: the one being cancelled has no next step.
    const target = this.controller.signal.aborted ? 'next-turn' : 'next-step'
    return this.deliver(message, { target, wakes: true })
  }

  inject(message: UserMessage): MessageId {
    return this.deliver(message, { target: 'next-step', wakes: false })
  }

  private deliver(message: UserMessage, delivery: Delivery): MessageId {
    this.inbox.insert(message, delivery)
    notify(this.ctx, this, 'agent/inbox', this)
    if (delivery.wakes) this.wake()
    return message.id
  }

  pending(): readonly UserMessage[] {
    return this.inbox.list()
  }

  async selectModel(selection: string): Promise<void> {
    const { route } = await this.options.llm.resolve(selection)
    this.config = { provider: route.provider, model: route.model }
    this.session.append('agent/model', { selection, ...this.config })
  }

  cancel(cause: CancelCause, options: { keepInbox?: boolean } = {}): void {
    if (cause.by === 'disposed') this.disposed = true
    if (!options.keepInbox) {
      this.inbox.clear()
      notify(this.ctx, this, 'agent/inbox', this)
    }
    // An abort keeps its first reason; an idle agent has nothing to abort.
    if (this.running) this.controller.abort(cause)
  }

  async whenIdle(): Promise<void> {
    while (this.running) await this.running
  }

  /** Starts running when something pending wakes and a loop is mounted. Called again when a loop comes. */
  wake(): void {
    if (this.running || this.disposed || !this.inbox.wakes || !this.options.driver()) return
    this.inbox.release()
    this.controller = new AbortController()
    this.running = this.run().finally(() => {
      this.running = undefined
      this.setStatus('idle')
      // What arrived between the last look and now must not wait for somebody else to speak.
      this.wake()
    })
  }

  private async run(): Promise<void> {
    this.setStatus('running')
    // The waking call returns first, with its receipt, and may be followed by more input for the same turn.
    await Promise.resolve()
    while (this.inbox.wakes && !this.disposed) {
      const driver = this.options.driver()
      if (!driver) return
      if (this.controller.signal.aborted) this.controller = new AbortController()
      const offered = this.inbox.peek(true)
      try {
        await driver.turn(this, this.controller.signal)
      } catch (error) {
        // A turn closes itself whatever happens.
        report(this.ctx, `the turn of ${this.id}`, error)
      }
      // What a turn has neither taken nor put aside would open the next one like it at once, for ever.
      if (this.options.driver() === driver) this.inbox.hold(offered, 'failed')
    }
  }

  private setStatus(status: 'idle' | 'running') {
    this.status = status
    notify(this.ctx, this, 'agent/status', this, status)
  }

  async started(signal: AbortSignal): Promise<void> {
    const { source } = this.options
    const event = 'agent/session-start'
    const begin = () => heard(this.ctx, event, serial(this.ctx, this, event, { agent: this, source, signal }), signal)
    // Told once, whatever comes of it: one that had to be left behind must not hold up the next turn as well.
    this.starting ??= begin().then(
      () => {},
      error => error instanceof Cancelled || report(this.ctx, event, error),
    )
    await this.starting
  }
}
