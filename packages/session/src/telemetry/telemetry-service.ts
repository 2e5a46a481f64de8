/** The service behind `ctx.telemetry`: from `session/event`, by way of redaction, to a queue for each backend. */

import { type Context, errorMessage, HarnessError, type JsonValue, redactJson, Service, waterfall } from '@cambium/core'
import type { LiveEvent, SessionEvent } from '../event.ts'
import { deepFreeze } from '../freeze.ts'
import type { Session } from '../session.ts'
import type { SessionTelemetry, SessionTelemetryBackend, TelemetryRecord } from './contract.ts'
import { BackendFeed } from './feed.ts'

export interface TelemetryOptions {
  readonly maxQueued: number
  readonly flushMs: number
}

export class TelemetryService extends Service implements SessionTelemetry {
  /** The providing plugin's own context; `ctx` is the caller's. */
  private readonly base: Context
  private readonly options: TelemetryOptions
  private readonly feeds = new Map<string, BackendFeed>()
  private withheld = 0

  constructor(ctx: Context, options: TelemetryOptions) {
    super(ctx, 'telemetry')
    this.base = ctx
    this.options = options
  }

  register(backend: SessionTelemetryBackend): () => Promise<void> {
    const { name } = backend
    if (this.feeds.has(name)) {
      throw new HarnessError('TELEMETRY_DUPLICATE', `a telemetry backend "${name}" is registered already`, {
        where: this.ctx.fiber.name,
        fix: 'give the second one another name, or mount its row once',
      })
    }
    const { logger } = this.base
    const feed = new BackendFeed(backend, {
      ...this.options,
      warn: text => logger.warn(`telemetry to ${name} ${text}`),
    })
    const undo = this.ctx.effect(() => {
      this.feeds.set(name, feed)
      return () => this.remove(feed)
    }, `telemetry to ${name}`)
    return async () => {
      await undo()
      // A disposer answers its first caller only.
      await feed.leave()
    }
  }

  /** Listener of `session/event`; nothing happens and nothing is made while nobody wants the event. Never throws. */
  hear(session: Session, event: SessionEvent | LiveEvent): void {
    let record: TelemetryRecord | undefined
    for (const feed of this.feeds.values()) {
      if (event.seq === undefined && !feed.backend.live) continue
      record ??= this.admit({ session: session.header, event })
      if (!record) return
      feed.push(record)
    }
  }

  /** Lets all backends go, whoever they belong to: whoever redacts for them may be gone next. */
  async drain(): Promise<void> {
    await Promise.all([...this.feeds.values()].map(feed => this.remove(feed)))
  }

  private async remove(feed: BackendFeed): Promise<void> {
    if (this.feeds.get(feed.backend.name) === feed) this.feeds.delete(feed.backend.name)
    await feed.leave()
  }

  private admit(raw: TelemetryRecord): TelemetryRecord | undefined {
    try {
      const known = Object.freeze(redactJson(raw as unknown as JsonValue)) as unknown as TelemetryRecord
      const record: unknown = waterfall(this.base, undefined, 'telemetry/record', known, () => known)
      if (record === undefined || record === null) return undefined
      if (!isRecord(record)) throw new TypeError('a listener answered something that is no record')
      return deepFreeze(record)
    } catch (error) {
      // A record that could not be looked at may hold what nobody may see.
      if (!this.withheld++) {
        this.base.logger.error(
          `telemetry: a record was withheld, since a telemetry/record listener failed, and so will those be on which it fails again: ${errorMessage(error)}`,
        )
      }
      return undefined
    }
  }
}

/** Not a promise either: redaction is synchronous, or it would be undone while the record is under way. */
function isRecord(value: unknown): value is TelemetryRecord {
  const { session, event } = value as Partial<TelemetryRecord>
  return typeof session?.id === 'string' && typeof event?.type === 'string'
}
