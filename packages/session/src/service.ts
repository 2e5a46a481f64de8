/** `ctx.sessions` and the seam of the store, `ctx.sessionPersistence`. */

import type { ScopeKey } from '@cambium/core'
import type { EventType, LiveEvent, SessionEvent, SessionHeader, SessionId } from './event.ts'
import type { RewindTarget, Rewound } from './rewind.ts'
import type { PartialMessage, Session } from './session.ts'

export interface CreateSessionOptions {
  /** Absolute; the process's own by default. */
  cwd?: string
  /** Events to start from, copied and renumbered from 0: a replay, a fork. They are not told to listeners. */
  seed?: readonly SessionEvent[]
  header?: Partial<Pick<SessionHeader, 'parent' | 'origin' | 'depth' | 'createdAt'>>
}

export interface ForkOptions {
  /** The last event taken over: the parent's last by default, or a stored parent's last outside an open turn. */
  seq?: number
  /** In place of `seq`: up to the end of this turn. */
  turn?: number
  id?: SessionId
  header?: Partial<Pick<SessionHeader, 'origin' | 'depth'>>
}

export type RewindOptions = Omit<ForkOptions, 'seq' | 'turn'>

export interface EventDefinition {
  /** A Standard Schema for the data, checked at append; on load a mismatch is reported, never fatal. */
  readonly schema?: { readonly '~standard': { readonly validate: (value: unknown) => unknown } }
  /** A reader that does not know the type may skip it in silence. The default; with false it says so. */
  readonly ignorable?: boolean
}

export interface Sessions {
  /**
   * A new live session, or one from a seed. It ends with the calling plugin's fiber or by `close`. Nothing is stored
   * before the first append.
   * @throws `SESSION_DUPLICATE`, `SESSION_ID_INVALID`, or what a `session/created` listener vetoes with.
   */
  create(id?: SessionId, options?: CreateSessionOptions): Session
  /**
   * Takes a stored session up for writing: leased, repaired, live. It ends as one of `create` does. What had to be set
   * right is logged in words by its `session/resumed` event and by the logger.
   * @throws `SESSION_NOT_FOUND`, `SESSION_BUSY`, `SESSION_DAMAGED`, `SESSION_VERSION`, `SESSION_DUPLICATE` when it is live here
   */
  resume(id: SessionId): Promise<Session>
  get(id: SessionId): Session | undefined
  /** Live sessions, oldest first. */
  list(): Session[]
  /**
   * A new session with the parent's events up to and with `seq`, which must not lie inside an open turn. What waits in
   * the parent's inbox is withdrawn in the child; its title goes along. The parent may be a stored session, another process's too.
   * @throws `SESSION_OPEN_TURN`, `SESSION_FORK_INVALID`, `SESSION_TURN_UNKNOWN`
   */
  fork(source: Session | StoredSession, options?: ForkOptions): Session
  /**
   * A fork that ends right before the turn of a message, and what the message said, so that it can be edited and said
   * anew. The parent stays as it is. Also for a turn that is open or was never ended.
   * @throws `SESSION_TURN_UNKNOWN`, `SESSION_MESSAGE_UNKNOWN`; their fix names the turns there are
   */
  rewind(source: Session | StoredSession, to: RewindTarget, options?: RewindOptions): Rewound
  /** Resolves when everything appended so far is stored; rejects when that failed. At once where no store is mounted. */
  flush(session: Session): Promise<void>
  /** Flushes, tells `session/disposed`, and releases the session. Idempotent. @throws what flushing failed with, when all the rest is done */
  close(session: Session): Promise<void>
  /**
   * A private folder for what belongs to the session and does not fit into its log. It is not made yet; it goes when the
   * session is deleted, or, where no store is mounted, when the session ends.
   */
  folder(session: Session): string
  /** From now on the session's events belong to the scope of `key` (its agent): heard there, above it, and by untagged listeners. */
  bindScope(session: Session, key: ScopeKey): () => void
  /**
   * Declares a plugin's own event type, for as long as the plugin lives; returns the undo. Only declared types can be
   * appended. @throws `SESSION_EVENT_DUPLICATE`, `SESSION_EVENT_NAME`
   */
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
  /** Of its log, as it is stored. */
  readonly bytes: number
  /** Where a fork came from. */
  readonly parent?: SessionHeader['parent']
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
  /** The answer that was being streamed when the writer was cut off, as it was last journalled. */
  readonly partial?: PartialMessage
}

export interface PruneOptions {
  /** Tells what would go, and changes nothing. */
  dryRun?: boolean
  /** Sessions whose last activity is longer ago go. */
  olderThanMs?: number
  /** The oldest go until the rest takes no more than this. */
  maxTotalBytes?: number
  /** The newest ones that stay, whatever else is asked; given alone, all others go. */
  keep?: number
  /** Only sessions of this working directory. */
  cwd?: string
}

export interface PruneReport {
  readonly removed: SessionSummary[]
  /** How many sessions are left. */
  readonly kept: number
  /** What the removed ones took, their folders too. */
  readonly freedBytes: number
  /** What would have gone and stays, and every damaged one: those are for a person to judge. */
  readonly skipped: { readonly id: SessionId; readonly why: string }[]
  /** Neither was a limit given nor is one configured. */
  readonly unlimited?: true
}

/** A store of sessions. `session/jsonl` is the first; tests and embedders may bring others. */
export interface SessionPersistence {
  /** Stored sessions, last written first, of one working directory or of all; does not read whole logs. */
  list(options?: { cwd?: string; limit?: number }): Promise<SessionSummary[]>
  /** Reads without taking the lease, while somebody writes too. @throws `SESSION_NOT_FOUND`, `SESSION_DAMAGED`, `SESSION_VERSION` */
  read(id: SessionId): Promise<StoredSession>
  /** Reads and takes the lease, to be given back by `release`. The file is made fit for appending. @throws also `SESSION_BUSY` */
  acquire(id: SessionId): Promise<StoredSession>
  /** Stores what is pending and gives the lease back; nothing when it is not held. */
  release(id: SessionId): Promise<void>
  /** Log, folder and all; told by `session/deleted`. @throws `SESSION_NOT_FOUND`, `SESSION_BUSY` when somebody writes it, this process too */
  delete(id: SessionId): Promise<void>
  /**
   * Deletes the sessions that are beyond the limits given here, or beyond the configured ones when none is; never one that
   * somebody writes, nor a damaged one. Without any limit nothing goes.
   */
  prune?(options?: PruneOptions): Promise<PruneReport>
  /** The folder of a session's own files, which is not made here and goes with `delete`. A store without one has none kept. */
  folder?(header: SessionHeader): string
}

declare module 'cordis' {
  interface Context {
    /** Live sessions: the log of what happened in a conversation, its event types, forks and resuming. */
    sessions: Sessions
    /** Where sessions are stored; replaceable, and sessions live in memory without it. */
    sessionPersistence: SessionPersistence
  }
  interface Events {
    /** gate: a session is about to be live; throwing vetoes it. */
    'session/created'(session: Session): void
    /** gate: an event of a sound shape is about to be committed, on the stack of who appends it; throwing vetoes it. */
    'session/append'(session: Session, draft: { readonly type: EventType; readonly data: unknown }): void
    /** notify: an event was committed, or a live one happened. */
    'session/event'(session: Session, event: SessionEvent | LiveEvent): void
    /** notify: a session is gone; told exactly once for each that `session/created` let in. */
    'session/disposed'(session: Session): void
    /** notify: a stored session is no more, whoever deleted it. */
    'session/deleted'(id: SessionId): void
    /** parallel: store what is pending of this session. */
    'session/flush'(session: Session): Promise<void> | void
  }
}
