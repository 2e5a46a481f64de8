/** One session's log in memory, and the views derived from it. */

import type { AssistantBlock, Message } from '@cambium/llm'
import type {
  EventType,
  LiveEventMap,
  LiveType,
  SessionEvent,
  SessionEventMap,
  SessionHeader,
  SessionId,
} from './event.ts'
import type { TranscriptEntry } from './transcript.ts'

/** The answer being streamed: what a viewer who comes late has missed. */
export interface PartialMessage {
  readonly turn: number
  readonly step: number
  readonly attempt: number
  /** Blocks so far; the last may be unfinished. */
  readonly content: readonly AssistantBlock[]
}

export interface SurfaceNode {
  /** Seq of the event that put the message there. */
  readonly seq: number
  readonly message: Message
}

export interface Session {
  readonly id: SessionId
  readonly header: SessionHeader
  /** Number of logged events, which is the next event's seq. */
  readonly seq: number
  /** The turn and step that are open, or 0 for none; and the last turn's number. */
  readonly open: { readonly turn: number; readonly step: number }
  readonly lastTurn: number
  /** Undefined while no answer is being streamed. */
  readonly partial: PartialMessage | undefined
  /**
   * Commits an event: a deep copy of `data`, checked against the type's schema, then told to `session/event` listeners.
   * From inside such a listener the event is committed at once and told after the current round.
   * @throws `SESSION_EVENT_INVALID`, `JSON_UNSUPPORTED`, `SESSION_CLOSED`
   */
  append<K extends EventType>(type: K, data: SessionEventMap[K]): SessionEvent<K>
  /** Tells a live event; nothing is kept but `partial`. */
  publish<K extends LiveType>(type: K, data: LiveEventMap[K]): void
  /** Logged events from `seq` on, those of a damaged log too (`isIntact`). The array is the caller's; the events are frozen. */
  events(from?: number): readonly SessionEvent[]
  /** The last event of a type. */
  last<K extends EventType>(type: K): SessionEvent<K> | undefined
  /** What the model reads: the surface's messages in order, those with no content left out. Cached until it changes. */
  deriveMessages(): readonly Message[]
  surface(): readonly SurfaceNode[]
  /** What a person reads: everything that was ever said, made anew at each call. */
  transcript(): readonly TranscriptEntry[]
  /** Increases with each `context/replaced`. */
  readonly replacements: number
}
