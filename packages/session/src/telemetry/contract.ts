/** What watches sessions from outside: `ctx.telemetry`, and what a backend is. */

import type { LiveEvent, SessionEvent, SessionHeader } from '../event.ts'

/** One event of one session, as `telemetry/record` has let it through. Frozen; the same object for every backend. */
export interface TelemetryRecord {
  readonly session: SessionHeader
  readonly event: SessionEvent | LiveEvent
}

export interface SessionTelemetryBackend {
  /** Unique among those that are registered. */
  readonly name: string
  /** Asks for live events too: the deltas of answers, the progress of tools, the news of retries. */
  readonly live?: boolean
  /**
   * Takes the next record, in order and never on the stack of a turn. Where it returns a promise the next record waits for
   * it. What it throws or rejects with is reported once and costs that record.
   */
  record(record: TelemetryRecord): void | Promise<void>
  /** Sends what it still holds; asked once, when it leaves. Past the signal nobody waits any more. */
  flush?(signal: AbortSignal): Promise<void>
}

export interface SessionTelemetry {
  /**
   * Feeds the backend with what happens in every session from now on, for as long as the calling plugin lives. The undo
   * resolves when what was queued has been taken and flushed, at the latest after 3 s: register after acquiring what the
   * backend needs for that.
   * @throws `TELEMETRY_DUPLICATE`
   */
  register(backend: SessionTelemetryBackend): () => Promise<void>
}

declare module 'cordis' {
  interface Context {
    /** Where backends of telemetry are registered; a failing or slow one delays no turn. */
    telemetry: SessionTelemetry
  }
  interface Events {
    /**
     * waterfall: may change what `next()` answers, for all backends, or keep it back by answering undefined; known secrets
     * are out of it already. Synchronous, on the stack of the event; what throws keeps the record back.
     */
    'telemetry/record'(record: TelemetryRecord, next: () => TelemetryRecord | undefined): TelemetryRecord | undefined
  }
}
