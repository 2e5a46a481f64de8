/** What a session's log tells of its compactions: a fold, so that it holds after a resume and in a fork. */

import type { Route } from '@cambium/llm'
import { isIntact, type Session, type SessionEvent } from '@cambium/session'
import type { LearnedWindow } from './contract.ts'

export interface LedgerEntry {
  /** Events taken in. */
  next: number
  /** Failed summaries in a row, the turn of the last one, and how many of them this turn has seen. */
  failures: number
  failedTurn: number
  failedNow: number
  /** Tokens of the request when the last summary failed. */
  failedAt: number
  /** Compactions of this turn after which the next request was still too long. */
  inVain: number
  /** Compactions since the last answer that a refusal led to. */
  overflows: number
  /** Something was said since the last compaction. */
  news: boolean
  readonly learned: Map<string, LearnedWindow>
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
      break
    case 'compaction/started': {
      const { reason, learned } = data
      if (reason === 'overflow') entry.overflows++
      if (learned && Number.isFinite(learned.tokens)) entry.learned.set(routeName(data), narrower(entry, data, learned))
      break
    }
    case 'compaction/ended': {
      const { tier, error, aborted, fits, before } = data
      if (aborted) break
      if (tier) entry.news = false
      if (!fits) entry.inVain++
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

/** A window that was named counts before sizes that were refused, and of those the smallest. */
function narrower({ learned: known }: LedgerEntry, route: Route, learned: LearnedWindow): LearnedWindow {
  const before = known.get(routeName(route))
  if (!before || learned.exact) return learned
  return before.exact && before.tokens <= learned.tokens ? before : before.tokens < learned.tokens ? before : learned
}
