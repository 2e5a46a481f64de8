/** `ctx.sessions` and the seam of the store, `ctx.sessionPersistence`. */

import type { EventType, LiveEvent, SessionEvent, SessionHeader, SessionId } from './event.ts'
import type { Session } from './session.ts'

export interface CreateSessionOptions {
  /** Absolute; the process's own by default. */
  cwd?: string
  /** Events to start from, renumbered from 0: a replay, a fork. */
  seed?: readonly SessionEvent[]
  header?: Partial<Pick<SessionHeader, 'parent' | 'origin' | 'depth' | 'createdAt'>>
}

export interface EventDefinition {
  /** A Standard Schema for the data, checked at append; on load a mismatch is reported, never fatal. */
  readonly schema?: { readonly '~standard': { readonly validate: (value: unknown) => unknown } }
  /** A reader that does not know the type may skip it. The default. */
  readonly ignorable?: boolean
}

export interface Sessions {
  /**
   * A new live session, or one from a seed. It ends with the calling plugin's fiber or by `close`.
   * @throws `SESSION_DUPLICATE`, or what a `session/created` listener vetoes with.
   */
  create(id?: SessionId, options?: CreateSessionOptions): Session
  /** Takes a stored session up for writing: leased, repaired, live. @throws `SESSION_NOT_FOUND`, `SESSION_BUSY`, `SESSION_DAMAGED` */
  resume(id: SessionId): Promise<Session>
  get(id: SessionId): Session | undefined
  /** Live sessions, oldest first. */
  list(): Session[]
  /** A new session with the parent's events up to `seq` (all by default), which must not lie inside an open turn. @throws `SESSION_OPEN_TURN` */
  fork(source: Session, options?: { seq?: number; id?: SessionId }): Session
  /** Resolves when everything appended so far is stored; rejects when that failed. At once where no store is mounted. */
  flush(session: Session): Promise<void>
  /** Flushes, tells `session/disposed`, and releases the session. Idempotent. */
  close(session: Session): Promise<void>
  /** Declares a plugin's own event type, for as long as the plugin lives; returns the undo. */
  defineEvent<K extends EventType>(type: K, definition?: EventDefinition): () => void
}

export interface SessionSummary {
  readonly id: SessionId
  readonly cwd: string
  readonly createdAt: number
  /** Time of the last write. */
  readonly updatedAt: number
  /** The first words of the first prompt, or a title that was set. */
  readonly title?: string
  /** Where it is stored. */
  readonly path: string
  /** Set when the log cannot be read; it is listed all the same. */
  readonly damaged?: string
  /** Who writes it now. */
  readonly holder?: string
}

export interface StoredSession {
  readonly header: SessionHeader
  readonly events: readonly SessionEvent[]
  /** What was found and set right, in words for a person. */
  readonly notices: readonly string[]
}

/** A store of sessions. `session/jsonl` is the first; tests and embedders may bring others. */
export interface SessionPersistence {
  /** Stored sessions, last written first, of one working directory or of all; does not read whole logs. */
  list(options?: { cwd?: string; limit?: number }): Promise<SessionSummary[]>
  /** Reads without taking the lease. @throws `SESSION_NOT_FOUND`, `SESSION_DAMAGED` */
  read(id: SessionId): Promise<StoredSession>
  /** Reads and takes the lease, to be given back by `release`. The file is made fit for appending. @throws also `SESSION_BUSY` */
  acquire(id: SessionId): Promise<StoredSession>
  release(id: SessionId): Promise<void>
  delete(id: SessionId): Promise<void>
}

declare module 'cordis' {
  interface Context {
    sessions: Sessions
    sessionPersistence: SessionPersistence
  }
  interface Events {
    /** gate: a session is about to be live; throwing vetoes it. */
    'session/created'(session: Session): void
    /** notify: an event was committed, or a live one happened. */
    'session/event'(session: Session, event: SessionEvent | LiveEvent): void
    /** notify: a session is gone; told exactly once for each that `session/created` let in. */
    'session/disposed'(session: Session): void
    /** parallel: store what is pending of this session. */
    'session/flush'(session: Session): Promise<void> | void
  }
}
