/** A copy of a stored session, stored itself: all of it, up to a turn, or before one. */

import { type Rewound, rewindPoint, type Session, type Sessions, type StoredSession, turnsOf } from '@cambium/session'

/** What is stored under an id of its own from now on. */
export interface Copy {
  readonly id: string
  /** Where it comes from, and how many events it has taken over. */
  readonly parent: { readonly id: string; readonly events: number }
  /** Its last turn, or 0. */
  readonly turn: number
  /** A turn of the parent that has not ended, and is not in the copy. */
  readonly unfinished?: number
}

export interface RewoundCopy extends Copy, Pick<Rewound, 'message' | 'earlier'> {
  /** The turn that was taken back. */
  readonly back: number
}

/** @throws as `ctx.sessions.fork`, and as the store */
export async function copySession(sessions: Sessions, source: StoredSession, turn?: number): Promise<Copy> {
  const copy = await stored(sessions, sessions.fork(source, turn === undefined ? {} : { turn }))
  const last = turnsOf(source.events).at(-1)
  const open = turn === undefined && last !== undefined && last.to === undefined
  return open ? { ...copy, unfinished: last.turn } : copy
}

/** @throws as `ctx.sessions.rewind`, and as the store */
export async function rewindSession(sessions: Sessions, source: StoredSession, turn: number): Promise<RewoundCopy> {
  const { session, turn: back, message, earlier } = sessions.rewind(source, { turn })
  return { ...(await stored(sessions, session)), back, earlier, ...(message ? { message } : {}) }
}

/** Of a number, or `last`. @throws `SESSION_TURN_UNKNOWN` where there is none */
export function turnOf(source: StoredSession, wanted: string): number {
  if (wanted !== 'last') return Number(wanted)
  const last = turnsOf(source.events).at(-1)
  // The same words as for a turn that is not there.
  return last?.turn ?? rewindPoint(source.header.id, source.events, { turn: 1 }).turn
}

async function stored(sessions: Sessions, session: Session): Promise<Copy> {
  const { id, lastTurn: turn } = session
  // A store keeps nothing of a session without events.
  if (!session.seq) session.append('session/resumed', { closed: 0 })
  await storeWhole(sessions, session)
  return { id, parent: session.header.parent!, turn }
}

/** Stores a new session and ends it. @throws as the store, once: what cannot be stored is given up, and not tried again at the end */
export async function storeWhole(sessions: Sessions, session: Session): Promise<void> {
  try {
    // First, since an end has to be quick, and a long log takes its time.
    await sessions.flush(session)
  } catch (error) {
    await sessions.close(session).catch(() => {})
    throw error
  }
  await sessions.close(session)
}
