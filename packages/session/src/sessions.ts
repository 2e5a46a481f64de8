/** The service behind `ctx.sessions`. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join, resolve } from 'node:path'
import {
  type Context,
  gate,
  HarnessError,
  notify,
  parallel,
  report,
  type ScopeKey,
  Service,
  toJson,
} from '@cambium/core'
import type { EventType, SessionEvent, SessionHeader, SessionId } from './event.ts'
import { EventTypes } from './event-types.ts'
import { childEvents, type ForkPoint, pointOfEnd, pointOfSeq, pointOfTurn } from './fork.ts'
import { deepFreeze } from './freeze.ts'
import { type LogHost, SessionLog } from './log.ts'
import { interruptedClosers } from './repair.ts'
import { type RewindTarget, type Rewound, rewindPoint } from './rewind.ts'
import { renumber } from './seed.ts'
import type {
  CreateSessionOptions,
  EventDefinition,
  ForkOptions,
  RewindOptions,
  SessionPersistence,
  Sessions,
  StoredSession,
} from './service.ts'
import type { Session } from './session.ts'
import { assertSessionId, newSessionId } from './session-id.ts'

interface Entry {
  readonly log: SessionLog
  /** Ends the session and takes it off its owner's fiber. */
  end: () => Promise<void>
  scope: ScopeKey | undefined
  /** Made for a session that no store keeps. */
  folder: string | undefined
}

export class SessionService extends Service implements Sessions {
  /** The providing plugin's own context; `ctx` is the caller's. */
  private readonly base: Context
  private readonly live = new Map<SessionId, Entry>()
  private readonly types = new EventTypes()
  private readonly host: LogHost

  constructor(ctx: Context) {
    super(ctx, 'sessions')
    this.base = ctx
    const { live, types } = this
    this.host = {
      check(session, type, data) {
        const scope = live.get(session.id)?.scope
        const flag = types.check(type, data, session.id, scope)
        gate(ctx, scope, 'session/append', session, { type: type as EventType, data })
        return flag
      },
      tell: (session, event) => notify(ctx, live.get(session.id)?.scope, 'session/event', session, event),
    }
  }

  create(id: SessionId = newSessionId(), options: CreateSessionOptions = {}): Session {
    const { cwd = process.cwd(), seed = [], header } = options
    if (!isAbsolute(cwd)) {
      throw new HarnessError('SESSION_CWD_RELATIVE', `a session's working directory must be absolute, not "${cwd}"`, {
        where: `session ${id}`,
        fix: `pass ${resolve(cwd)}`,
      })
    }
    const full: SessionHeader = { version: 1, id, createdAt: Date.now(), cwd, ...header }
    return this.enter(this.ctx, full, renumber(seed))
  }

  async resume(id: SessionId): Promise<Session> {
    // The caller's context: the session is its own.
    const owner = this.ctx
    assertSessionId(id)
    // A session on its way out still holds its lease.
    await this.live.get(id)?.log.ending?.catch(() => {})
    if (this.live.has(id)) throw duplicate(id)
    const store = this.store()
    if (!store) {
      throw new HarnessError('SESSION_NOT_FOUND', `session ${id} cannot be resumed: no store of sessions is mounted`, {
        fix: 'mount @cambium/session/jsonl',
      })
    }
    const stored = await store.acquire(id)
    let session: SessionLog | undefined
    try {
      const events = [...stored.events]
      const closers = interruptedClosers(events, stored.partial)
      session = this.enter(owner, stored.header, events)
      const notices = [...stored.notices, ...this.types.unreadable(events, session.broken)]
      for (const { type, data, time } of closers) session.commit(type, data, time)
      session.append('session/resumed', { ...(notices.length ? { notices } : {}), closed: closers.length })
      for (const notice of notices) this.base.logger.warn(`session ${id}: ${notice}`)
      await this.flush(session)
      return session
    } catch (error) {
      // The first failure is the one to tell: ending a session that cannot be stored fails in the same way.
      await (session ? this.close(session) : store.release(id)).catch(() => {})
      throw error
    }
  }

  get(id: SessionId): Session | undefined {
    const entry = this.live.get(id)
    return entry && !entry.log.ending ? entry.log : undefined
  }

  list(): Session[] {
    return [...this.live.values()].filter(({ log }) => !log.ending).map(({ log }) => log)
  }

  fork(source: Session | StoredSession, options: ForkOptions = {}): Session {
    const { seq, turn, ...rest } = options
    const { id } = source.header
    const events = eventsOf(source)
    const point =
      seq !== undefined
        ? pointOfSeq(id, events, seq)
        : turn !== undefined
          ? pointOfTurn(id, events, turn)
          : pointOfEnd(id, events, 'append' in source)
    return this.branch(source, events, point, rest)
  }

  rewind(source: Session | StoredSession, to: RewindTarget, options: RewindOptions = {}): Rewound {
    const events = eventsOf(source)
    const { seq, mend, ...answer } = rewindPoint(source.header.id, events, to)
    const session = this.branch(source, events, { seq, ...(mend ? { mend } : {}) }, options)
    return { session, ...answer }
  }

  private branch(
    source: Session | StoredSession,
    events: readonly SessionEvent[],
    point: ForkPoint,
    { id = newSessionId(), header }: RewindOptions,
  ): Session {
    const { id: parent, origin, depth, cwd } = source.header
    return this.create(id, {
      cwd,
      seed: childEvents(events, point),
      header: {
        ...(origin ? { origin } : {}),
        ...(depth === undefined ? {} : { depth }),
        ...header,
        parent: { id: parent, events: point.seq + 1 },
      },
    })
  }

  async flush(session: Session): Promise<void> {
    try {
      await parallel(this.base, this.live.get(session.id)?.scope, 'session/flush', session)
    } catch (error) {
      throw error instanceof AggregateError && error.errors.length === 1 ? error.errors[0] : error
    }
  }

  async close(session: Session): Promise<void> {
    const entry = this.live.get(session.id)
    if (entry?.log !== session) return
    // A disposer answers its first caller only; whoever comes later waits for the same end.
    await entry.end()
    await entry.log.ending
  }

  /** Closes whatever is live still. Never rejects; for the plugin's end. */
  async endAll(): Promise<void> {
    const ends = [...this.live.values()].map(async ({ log }) => this.close(log))
    for (const end of await Promise.allSettled(ends))
      if (end.status === 'rejected') report(this.base, 'closing a session', end.reason)
  }

  folder(session: Session): string {
    const kept = this.store()?.folder?.(session.header)
    if (kept) return kept
    const entry = this.live.get(session.id)
    if (entry?.log !== session) {
      throw new HarnessError('SESSION_CLOSED', `session ${session.id} is not live and has no folder`)
    }
    entry.folder ??= mkdtempSync(join(tmpdir(), 'cambium-session-'))
    return entry.folder
  }

  bindScope(session: Session, key: ScopeKey): () => void {
    const entry = this.live.get(session.id)
    if (!entry || entry.log !== session) {
      throw new HarnessError('SESSION_CLOSED', `session ${session.id} is not live and cannot be bound to a scope`)
    }
    entry.scope = key
    return () => {
      if (entry.scope === key) entry.scope = undefined
    }
  }

  defineEvent<K extends EventType>(type: K, definition: EventDefinition = {}): () => void {
    return this.types.register(this.ctx, type, definition)
  }

  private store(): SessionPersistence | undefined {
    return this.base.get('sessionPersistence')
  }

  private enter(owner: Context, header: SessionHeader, events: SessionEvent[]): SessionLog {
    const { id } = header
    assertSessionId(id)
    if (this.live.has(id)) throw duplicate(id)
    const log = new SessionLog(deepFreeze(toJson(header, 'header')) as unknown as SessionHeader, events, this.host)
    const entry: Entry = { log, end: async () => {}, scope: undefined, folder: undefined }
    entry.end = owner.effect(() => {
      this.live.set(id, entry)
      try {
        gate(this.base, undefined, 'session/created', log)
      } catch (error) {
        // Those who were told of it before the veto are told of its end.
        log.close()
        this.live.delete(id)
        notify(this.base, undefined, 'session/disposed', log)
        throw error
      }
      return () => this.leave(entry)
    }, `session ${id}`)
    return log
  }

  private leave(entry: Entry): Promise<void> {
    const { log } = entry
    log.ending ??= (async () => {
      try {
        await this.flush(log)
      } finally {
        log.close()
        notify(this.base, entry.scope, 'session/disposed', log)
        if (entry.folder) rmSync(entry.folder, { recursive: true, force: true })
        try {
          await this.store()?.release(log.id)
        } finally {
          this.live.delete(log.id)
        }
      }
    })()
    return log.ending
  }
}

const eventsOf = (source: Session | StoredSession): readonly SessionEvent[] =>
  'append' in source ? source.events() : source.events

function duplicate(id: SessionId) {
  return new HarnessError('SESSION_DUPLICATE', `session ${id} is live in this process already`, {
    fix: 'get it with ctx.sessions.get, or choose another id',
  })
}
