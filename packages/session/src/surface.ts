/** What the model reads: the messages that stand now, in order, after every replacement. */

import type { Message } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type { SessionEvent } from './event.ts'
import type { SurfaceNode } from './session.ts'

/** Grows with the log. Adding is O(1); reading after a change copies the list once. */
export class Surface {
  /** How often a span was replaced. */
  replacements = 0
  private readonly nodes: SurfaceNode[] = []
  private messages: readonly Message[] | undefined
  private snapshot: readonly SurfaceNode[] | undefined

  /** Takes a committed event over. A replacement whose span is not there (a damaged log) changes nothing. */
  add(event: SessionEvent): void {
    if (event.type === 'context/replaced') {
      const span = this.span(event.data)
      if (!span) return
      this.nodes.splice(span.start, span.count, node(event.seq, event.data.message))
      this.replacements++
    } else if (event.type === 'user/message' || event.type === 'assistant/message' || event.type === 'tool/result') {
      this.nodes.push(node(event.seq, event.data.message))
    } else return
    this.messages = undefined
    this.snapshot = undefined
  }

  /** Where the span from one message to another lies, or undefined when it does not stand on the surface. */
  span({ from, to }: { from: number; to: number }): { start: number; count: number } | undefined {
    const start = this.nodes.findIndex(node => node.seq === from)
    const end = start < 0 ? -1 : this.nodes.findIndex((node, index) => index >= start && node.seq === to)
    return end < 0 ? undefined : { start, count: end - start + 1 }
  }

  list(): readonly SurfaceNode[] {
    this.snapshot ??= Object.freeze([...this.nodes])
    return this.snapshot
  }

  deriveMessages(): readonly Message[] {
    this.messages ??= Object.freeze(this.nodes.flatMap(({ message }) => (message.content.length ? [message] : [])))
    return this.messages
  }
}

function node(seq: number, message: Message): SurfaceNode {
  return Object.freeze({ seq, message })
}

/** The same from a whole log, for whoever has only the events. Events with broken data are left out. */
export function foldSurface(events: readonly SessionEvent[]): readonly SurfaceNode[] {
  const surface = new Surface()
  for (const event of events) if (!problemOf(event.type, event.data)) surface.add(event)
  return surface.list()
}
