/** Lets running calls end before the rows that offer their tools are dropped. */

import { Deadline } from '@cambium/core'
import type {} from '@cambium/loader'
import type { Offer } from './catalogue.ts'
import { untilAborted } from './signals.ts'

export interface Leaving {
  /** The rows that go, or restart. */
  readonly rows: ReadonlySet<string>
  /** The rows that asked for it. */
  readonly askers: ReadonlySet<string>
  /** Aborts when nobody waits any longer. */
  readonly signal: AbortSignal
}

/** Resolves when no call of a tool of these rows is running. */
export async function drain(offers: ReadonlySet<Offer>, leaving: Leaving, warn: (text: string) => void): Promise<void> {
  const { rows, askers, signal } = leaving
  const concerned = () => [...offers].filter(({ row = '' }) => rows.has(row))
  for (;;) {
    const running = concerned().flatMap(offer => {
      // A call that asks for the change of its own row waits for that change, which cannot wait for the call.
      if (askers.has(offer.row ?? '')) for (const call of offer.running) call.leaving = 'asking'
      return [...offer.running].filter(call => call.leaving !== 'asking').map(call => ({ offer, call }))
    })
    if (!running.length) return
    await untilAborted(Promise.all(running.map(({ call }) => call.ended)), signal)
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
