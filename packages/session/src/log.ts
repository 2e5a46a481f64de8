/** A live session: the log in memory and what is derived from it as it grows. */

import { HarnessError, toJson } from '@cambium/core'
import type { Message } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type {
  EventType,
  LiveEvent,
  LiveEventMap,
  LiveType,
  SessionEvent,
  SessionEventMap,
  SessionHeader,
  SessionId,
} from './event.ts'
import { deepFreeze } from './freeze.ts'
import { PartialAnswer } from './partial.ts'
import type { PartialMessage, Session, SurfaceNode } from './session.ts'
import { Surface } from './surface.ts'
import { type TranscriptEntry, transcript } from './transcript.ts'

/** What the owner of the sessions does for each of them. */
export interface LogHost {
  /** Throws when data does not fit the type; answers what its definition says about skipping it. */
  check(session: Session, type: string, data: unknown): { ignorable?: false }
  /** Tells listeners. Never throws. */
  tell(session: Session, event: SessionEvent | LiveEvent): void
}

/**
 * Listeners that answer each event with another one would never end; far more than any real reaction, far less than
 * what fills the memory.
 */
const MAX_ROUND = 10_000

export class SessionLog implements Session {
  readonly id: SessionId
  readonly header: SessionHeader
  /** Set once the end has begun; for the owner. */
  ending: Promise<void> | undefined
  /** Core events of a damaged log that say nothing, and why; for the owner. */
  readonly broken = new Map<SessionEvent, string>()
  private readonly host: LogHost
  private readonly log: SessionEvent[]
  private readonly lasts = new Map<string, SessionEvent>()
  private readonly view = new Surface()
  private answer: PartialAnswer | undefined
  private turn = 0
  private step = 0
  private turns = 0
  private closed = false
  private telling = false
  private readonly untold: (SessionEvent | LiveEvent)[] = []

  /** Takes `events` over: they are numbered from 0, frozen, and the caller keeps no reference. They are not told. */
  constructor(header: SessionHeader, events: SessionEvent[], host: LogHost) {
    this.id = header.id
    this.header = header
    this.host = host
    this.log = events
    for (const event of events) this.derive(event)
  }

  get seq(): number {
    return this.log.length
  }

  get open(): { readonly turn: number; readonly step: number } {
    return { turn: this.turn, step: this.step }
  }

  get lastTurn(): number {
    return this.turns
  }

  get partial(): PartialMessage | undefined {
    return this.answer?.read()
  }

  get replacements(): number {
    return this.view.replacements
  }

  append<K extends EventType>(type: K, data: SessionEventMap[K]): SessionEvent<K> {
    return this.commit(type, data, Date.now()) as SessionEvent<K>
  }

  /** As `append`, at a time of the past. */
  commit(type: string, data: unknown, time: number): SessionEvent {
    this.assertOpen(type)
    const copy = toJson(data, 'data')
    const { ignorable } = this.host.check(this, type, copy)
    const flag = ignorable === false ? { ignorable } : {}
    const event = deepFreeze({ seq: this.log.length, time, type, data: copy, ...flag }) as unknown as SessionEvent
    if (event.type === 'context/replaced' && !this.view.span(event.data)) {
      const { from, to } = event.data
      throw new HarnessError('SESSION_EVENT_INVALID', `messages ${from} to ${to} are not on the surface now`, {
        where: `session ${this.id}, context/replaced`,
        fix: 'take both numbers from surface(), the first not after the second',
      })
    }
    this.log.push(event)
    this.derive(event)
    this.tell(event)
    return event
  }

  publish<K extends LiveType>(type: K, data: LiveEventMap[K]): void {
    // A tool that outlives its session may still report; there is nobody left to tell.
    if (this.closed) return
    this.assertOpen(type)
    const time = Date.now()
    if (type === 'assistant/chunk') {
      const chunk = data as LiveEventMap['assistant/chunk']
      if (!this.answer?.accepts(chunk)) this.answer = new PartialAnswer(chunk)
      this.answer.add(chunk)
      this.tell(Object.freeze({ time, type, data: Object.freeze(chunk) }) as LiveEvent)
    } else {
      // A tool may go on changing what it reported; a chunk is its adapter's no longer.
      this.tell(deepFreeze({ time, type, data: toJson(data, 'data') }) as unknown as LiveEvent)
    }
  }

  events(from = 0): readonly SessionEvent[] {
    return this.log.slice(from)
  }

  last<K extends EventType>(type: K): SessionEvent<K> | undefined {
    return this.lasts.get(type) as SessionEvent<K> | undefined
  }

  deriveMessages(): readonly Message[] {
    return this.view.deriveMessages()
  }

  surface(): readonly SurfaceNode[] {
    return this.view.list()
  }

  transcript(): readonly TranscriptEntry[] {
    return transcript(this.log)
  }

  /** From now on nothing can be appended; reading goes on. */
  close(): void {
    this.closed = true
    this.answer = undefined
  }

  private assertOpen(type: string): void {
    if (this.closed) {
      throw new HarnessError('SESSION_CLOSED', `session ${this.id} is closed and takes no more events (${type})`, {
        fix: 'resume it with ctx.sessions.resume',
      })
    }
    if (this.untold.length >= MAX_ROUND) {
      throw new HarnessError('SESSION_EVENT_LOOP', `one event of session ${this.id} led to ${MAX_ROUND} others`, {
        where: `appending ${type}`,
        fix: 'look for a session/event listener that answers its own events',
      })
    }
  }

  private derive(event: SessionEvent): void {
    const problem = problemOf(event.type, event.data)
    if (problem) {
      this.broken.set(event, problem)
      return
    }
    this.lasts.set(event.type, event)
    this.view.add(event)
    switch (event.type) {
      case 'turn/start':
        this.turn = event.data.turn
        this.step = 0
        this.turns = Math.max(this.turns, event.data.turn)
        break
      case 'step/start':
        this.step = event.data.step
        break
      case 'turn/end':
        this.turn = 0
        this.step = 0
        this.answer = undefined
        break
      case 'step/end':
        this.step = 0
        this.answer = undefined
        break
      case 'assistant/message':
      case 'request/failed':
        this.answer = undefined
    }
  }

  /** One round at a time: what a listener appends is told after everybody has heard the event it reacts to. */
  private tell(event: SessionEvent | LiveEvent): void {
    this.untold.push(event)
    if (this.telling) return
    this.telling = true
    try {
      for (let at = 0; at < this.untold.length; at++) this.host.tell(this, this.untold[at]!)
    } finally {
      this.untold.length = 0
      this.telling = false
    }
  }
}
