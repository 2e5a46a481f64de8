/** What a session's log tells of its compactions: a fold, so that it holds after a resume and in a fork. */

import type { Route } from '@cambium/llm'
import { isIntact, type Session, type SessionEvent } from '@cambium/session'
import type { LearnedWindow } from './contract.ts'

/** A request that keeps more than this of its size was not made shorter. */
const STILL = 0.9

export interface LedgerEntry {
  /** Events taken in. */
  next: number
  /** Failed summaries in a row, the turn of the last one, and how many of them this turn has seen. */
  failures: number
  failedTurn: number
  failedNow: number
  /** Tokens of the request when the last summary failed. */
  failedAt: number
  /** Compactions of this turn, in a row, that brought next to nothing, and the next request was still too long. */
  inVain: number
  /** Compactions since the last answer that a refusal led to. */
  overflows: number
  /** Something was said since the last compaction. */
  news: boolean
  /** By route, what refusals have told; and what they seem to tell, as long as no shorter request was answered. */
  readonly learned: Map<string, LearnedWindow>
  readonly refused: Map<string, LearnedWindow>
  turn: number
}

export class Ledger {
  private readonly entries = new WeakMap<Session, LedgerEntry>()

  of(session: Session): LedgerEntry {
    let entry = this.entries.get(session)
    if (!entry) {
      entry = {
        next: 0,
        failures: 0,
        failedTurn: 0,
        failedNow: 0,
        failedAt: 0,
        inVain: 0,
        overflows: 0,
        news: false,
        learned: new Map(),
        refused: new Map(),
        turn: 0,
      }
      this.entries.set(session, entry)
    }
    if (entry.next < session.seq) {
      for (const event of session.events(entry.next)) take(entry, event)
      entry.next = session.seq
    }
    return entry
  }

  learned(session: Session, route: Route): LearnedWindow | undefined {
    return this.of(session).learned.get(routeName(route))
  }
}

export const routeName = ({ provider, model }: Route) => `${provider}/${model}`

function take(entry: LedgerEntry, event: SessionEvent): void {
  const { type, data } = event
  // A damaged log may hold anything.
  if (!isIntact(event) || typeof data !== 'object' || data === null) return
  switch (type) {
    case 'turn/start':
      entry.turn = data.turn
      entry.failedNow = 0
      entry.inVain = 0
      entry.overflows = 0
      break
    case 'user/message':
    case 'tool/result':
      entry.news = true
      break
    case 'assistant/message':
      entry.news = true
      entry.overflows = 0
      // A shorter request was answered: the refused one was too long indeed.
      for (const [name, refused] of entry.refused) learn(entry, name, refused)
      entry.refused.clear()
      break
    case 'turn/end':
      entry.refused.clear()
      break
    case 'compaction/started': {
      const { reason, learned } = data
      if (reason === 'overflow') entry.overflows++
      if (!learned || !(learned.tokens > 0)) break
      if (learned.exact) learn(entry, routeName(data), learned)
      else entry.refused.set(routeName(data), learned)
      break
    }
    case 'compaction/ended': {
      const { tier, error, aborted, fits, before, after } = data
      if (aborted) break
      if (tier) entry.news = false
      if (fits) entry.inVain = 0
      else if (after > STILL * before) entry.inVain++
      if (tier === 'summary') entry.failures = 0
      else if (error) {
        entry.failures++
        entry.failedNow++
        entry.failedTurn = entry.turn
        entry.failedAt = before
      }
    }
  }
}

function learn(entry: LedgerEntry, name: string, learned: LearnedWindow): void {
  entry.learned.set(name, narrower(entry.learned.get(name), learned))
}

/** What is named now counts; a size that was refused counts where nothing smaller is known. */
export function narrower(known: LearnedWindow | undefined, learned: LearnedWindow): LearnedWindow {
  return !known || learned.exact || learned.tokens < known.tokens ? learned : known
}
