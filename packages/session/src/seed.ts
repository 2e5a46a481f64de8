/** Taking events over from another log. */

import { toJson } from '@cambium/core'
import { problemOf } from './core-types.ts'
import type { SessionEvent } from './event.ts'
import { deepFreeze } from './freeze.ts'

/** Copies of the events, numbered from 0, with the references among them following. */
export function renumber(seed: readonly SessionEvent[]): SessionEvent[] {
  const places = new Map(seed.map((event, index) => [event.seq, index]))
  return seed.map((event, seq) => {
    const copy = toJson({ ...event, seq }, `seed[${seq}]`) as unknown as SessionEvent
    if (copy.type !== 'context/replaced' || problemOf(copy.type, copy.data)) return deepFreeze(copy)
    const { from, to, message } = copy.data
    return deepFreeze({ ...copy, data: { from: places.get(from) ?? from, to: places.get(to) ?? to, message } })
  })
}

/** The turn that is open after the last of the events, or undefined. */
export function openTurnOf(events: readonly SessionEvent[]): number | undefined {
  const boundary = events.findLast(
    ({ type, data }) => (type === 'turn/start' || type === 'turn/end') && !problemOf(type, data),
  )
  return boundary?.type === 'turn/start' ? boundary.data.turn : undefined
}

/** The last event that lies outside every turn, or -1. */
export function lastBoundary(events: readonly SessionEvent[]): number {
  if (!openTurnOf(events)) return events.length - 1
  return events.findLastIndex(({ type, data }) => type === 'turn/start' && !problemOf(type, data)) - 1
}
