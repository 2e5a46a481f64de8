/** A second account of what the model reads, kept up to date event by event: the one the session's own is held against. */

import type { Message } from '@cambium/llm'
import type { SessionEvent, SessionEventMap } from '@cambium/session'

export interface SurfaceEntry {
  readonly seq: number
  readonly message: Message
}

export class SurfaceModel {
  readonly entries: SurfaceEntry[] = []
  /** Messages that say something, as requests carry them. */
  messages: Message[] = []
  replacements = 0

  add(event: SessionEvent): void {
    switch (event.type) {
      case 'user/message':
      case 'assistant/message':
      case 'tool/result': {
        const { message } = event.data
        this.entries.push({ seq: event.seq, message })
        if (message.content.length) this.messages.push(message)
        break
      }
      case 'context/replaced': {
        const span = this.span(event.data)
        if (!span) break
        this.entries.splice(span.start, span.end - span.start, { seq: event.seq, message: event.data.message })
        this.messages = this.entries.flatMap(({ message }) => (message.content.length ? [message] : []))
        this.replacements++
      }
    }
  }

  /** What a replacement would tear apart: a call from its result. In words, or undefined. */
  tornBy({ from, to, message }: SessionEventMap['context/replaced']): string | undefined {
    const span = this.span({ from, to })
    // The log refuses it by itself.
    if (!span) return undefined
    const calls = new Set<string>()
    /** Results whose calls stand before the span. */
    const owed = new Set<string>()
    for (const entry of this.entries.slice(span.start, span.end)) {
      for (const id of callsOf(entry.message)) calls.add(id)
      for (const id of resultsOf(entry.message)) if (!calls.delete(id)) owed.add(id)
    }
    for (const id of resultsOf(message)) {
      if (!owed.delete(id)) return `it brings a result of call ${id}, which does not stand before it without one`
    }
    const [lone] = owed
    if (lone !== undefined) return `the result of call ${lone} goes and the call stays`
    for (const id of callsOf(message)) {
      // An answer may take the place of itself, shorter.
      if (!calls.delete(id)) return `it brings call ${id}, which stood in none of what it replaces`
    }
    if (!calls.size) return undefined
    for (const entry of this.entries.slice(span.end)) {
      const id = resultsOf(entry.message).find(result => calls.has(result))
      if (id !== undefined) return `call ${id} goes and its result stays`
    }
    return undefined
  }

  private span({ from, to }: { from: number; to: number }): { start: number; end: number } | undefined {
    const start = this.entries.findIndex(({ seq }) => seq === from)
    const last = this.entries.findIndex(({ seq }, at) => at >= start && seq === to)
    return start < 0 || last < 0 ? undefined : { start, end: last + 1 }
  }
}

const callsOf = ({ content }: Message) => content.flatMap(block => (block.type === 'tool-call' ? [block.id] : []))
const resultsOf = ({ content }: Message) =>
  content.flatMap(block => (block.type === 'tool-result' ? [block.toolCallId] : []))
