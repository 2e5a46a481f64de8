/** Lets running calls end before the rows that offer their tools are dropped. */

import { type Context, Deadline, sleep } from '@cambium/core'
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

/** Somebody who saved a file wonders by then why nothing happens. */
const NOTICE_MS = 1_000
/** How soon it is seen that a call which is waited for has itself come to wait for a change. */
const LOOK_MS = 100

/** Resolves when no call of a tool of these rows is running. */
export async function drain(
  offers: ReadonlySet<Offer>,
  leaving: Leaving,
  log: Pick<Context['logger'], 'info' | 'warn'>,
): Promise<void> {
  const { rows, askers, signal } = leaving
  let noticeAt: number | undefined = performance.now() + NOTICE_MS
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
    if (noticeAt !== undefined && performance.now() >= noticeAt) {
      const left = concerned().filter(offer => offer.running.size)
      if (left.length) log.info(`a change waits for running calls of ${namesOf(left)}`)
      noticeAt = undefined
    }
    if (!signal.aborted) continue
    const { reason } = signal
    if (!(reason instanceof Deadline)) return
    const late = running.filter(({ offer, call }) => offer.running.has(call))
    for (const { call } of late) call.leaving = 'late'
    const names = namesOf(late.map(({ offer }) => offer))
    if (names) log.warn(`a call of ${names} did not end within ${reason.ms} ms; its row does not wait any longer`)
    return
  }
}

const namesOf = (offers: readonly Offer[]) =>
  [...new Set(offers.map(({ definition, row }) => `tool "${definition.name}" (row ${row})`))].join(', ')
