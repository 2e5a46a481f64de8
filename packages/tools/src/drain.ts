/** Lets running calls end before the rows that offer their tools are dropped. */

import { Deadline, sleep } from '@cambium/core'
import type {} from '@cambium/loader'
import type { Offer } from './catalogue.ts'
import { untilAborted } from './signals.ts'

export interface Leaving {
  /** The rows that go, or restart. */
  readonly rows: ReadonlySet<string>
  /** The rows that wait for this change or for one after it; grows meanwhile. */
  readonly askers: ReadonlySet<string>
  /** Aborts when nobody waits any longer. */
  readonly signal: AbortSignal
}

/** How soon it is seen that a call which is waited for has itself come to wait for a change. */
const LOOK_MS = 100

/** Resolves when no call of a tool of these rows is running. */
export async function drain(offers: ReadonlySet<Offer>, leaving: Leaving, warn: (text: string) => void): Promise<void> {
  const { rows, askers, signal } = leaving
  const concerned = () => [...offers].filter(({ row = '' }) => rows.has(row))
  for (;;) {
    const running = concerned().flatMap(offer => {
      // A call that waits for a change cannot be waited for: this change is before that one, or is it.
      if (askers.has(offer.row ?? '')) for (const call of offer.running) call.leaving = 'asking'
      return [...offer.running].filter(call => call.leaving !== 'asking').map(call => ({ offer, call }))
    })
    if (!running.length) return
    const look = new AbortController()
    const ended = Promise.all(running.map(({ call }) => call.ended))
    await untilAborted(Promise.race([ended, sleep(LOOK_MS, look.signal)]), signal)
    look.abort()
    if (!signal.aborted) continue
    const { reason } = signal
    if (!(reason instanceof Deadline)) return
    const late = running.filter(({ offer, call }) => offer.running.has(call))
    for (const { call } of late) call.leaving = 'late'
    const names = [...new Set(late.map(({ offer }) => `"${offer.definition.name}" (row ${offer.row})`))].join(', ')
    if (names) warn(`a call of tool ${names} did not end within ${reason.ms} ms; its row does not wait any longer`)
    return
  }
}
