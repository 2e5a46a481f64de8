/** Gives the events of a log their numbers, whatever its lines say of them. */

import type { SessionEvent } from '../event.ts'
import type { StoredLine } from './format.ts'

/**
 * An event's place is its number, whatever the line says. References to other events follow as far as can be told: a
 * line whose number is its place was written by somebody who saw the numbering we give.
 */
export class Renumbering {
  readonly events: SessionEvent[] = []
  moved = 0
  /** How many events are missing between files, as far as the files tell. */
  lost = 0
  /** Where a written number is, where that is not the place of the same number. */
  private readonly places = new Map<number, number>()
  private next = 0

  /** A file begins, whose first event has this number. */
  expect(from: number): void {
    if (from > this.next) this.lost += from - this.next
  }

  add({ seq: written, time, type, data, ignorable }: StoredLine): void {
    const { events, places } = this
    const seq = events.length
    if (written !== seq) {
      this.moved++
      if (written !== undefined) places.set(written, seq)
    } else if (places.size) places.delete(seq)
    this.next = (written ?? seq) + 1
    const event = {
      seq,
      time: time ?? events[seq - 1]?.time ?? 0,
      type,
      data: type === 'context/replaced' && written !== seq ? this.follow(data) : data,
      ...(ignorable === false ? { ignorable } : {}),
    }
    events.push(Object.freeze(event) as SessionEvent)
  }

  private follow(data: unknown): unknown {
    if (typeof data !== 'object' || data === null) return data
    const { from, to, ...rest } = data as Record<string, unknown>
    const place = (seq: unknown) => (typeof seq === 'number' ? (this.places.get(seq) ?? seq) : seq)
    return Object.freeze({ from: place(from), to: place(to), ...rest })
  }
}
