/** What the model reads: the messages that stand now, in order, after every replacement. */

import type { Message } from '@cambium/llm'
import { problemOf } from './core-types.ts'
import type { SessionEvent } from './event.ts'
import type { SurfaceNode } from './session.ts'

/** Grows with the log. Adding is O(1); reading after a change copies one array. */
export class Surface {
  /** How often a span was replaced. */
  replacements = 0
  private readonly nodes: SurfaceNode[] = []
  /** The nodes' messages that say anything. */
  private messages: Message[] = []
  private nodesRead: readonly SurfaceNode[] | undefined
  private messagesRead: readonly Message[] | undefined

  /** Takes a committed event over. A replacement whose span is not there (a damaged log) changes nothing. */
  add(event: SessionEvent): void {
    if (event.type === 'context/replaced') {
      const span = this.span(event.data)
      if (!span) return
      this.nodes.splice(span.start, span.count, node(event.seq, event.data.message))
      this.messages = this.nodes.map(({ message }) => message).filter(saysAnything)
      this.replacements++
    } else if (event.type === 'user/message' || event.type === 'assistant/message' || event.type === 'tool/result') {
      const { message } = event.data
      this.nodes.push(node(event.seq, message))
      if (saysAnything(message)) this.messages.push(message)
    } else return
    this.nodesRead = undefined
    this.messagesRead = undefined
  }

  /** Where the span from one message to another lies, or undefined when it does not stand on the surface. */
  span({ from, to }: { from: number; to: number }): { start: number; count: number } | undefined {
    const start = this.nodes.findIndex(node => node.seq === from)
    const end = start < 0 ? -1 : this.nodes.findIndex((node, index) => index >= start && node.seq === to)
    return end < 0 ? undefined : { start, count: end - start + 1 }
  }

  list(): readonly SurfaceNode[] {
    this.nodesRead ??= Object.freeze(this.nodes.slice())
    return this.nodesRead
  }

  deriveMessages(): readonly Message[] {
    this.messagesRead ??= Object.freeze(this.messages.slice())
    return this.messagesRead
  }
}

const saysAnything = (message: Message) => message.content.length > 0

function node(seq: number, message: Message): SurfaceNode {
  return Object.freeze({ seq, message })
}

/** The same from a whole log, for whoever has only the events. Events with broken data are left out. */
export function foldSurface(events: readonly SessionEvent[]): readonly SurfaceNode[] {
  const surface = new Surface()
  for (const event of events) if (!problemOf(event.type, event.data)) surface.add(event)
  return surface.list()
}
