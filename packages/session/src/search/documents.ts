/** What is searched of a log: what people, models and tools said, each with the event that said it. */

import { redact } from '@cambium/core'
import { isIntact } from '../core-types.ts'
import type { SessionEvent } from '../event.ts'
import { tidy } from './characters.ts'
import type { SessionHit } from './contract.ts'

export interface SessionText {
  readonly seq: number
  readonly time: number
  readonly role: SessionHit['role']
  /** One line, without known secrets. */
  readonly text: string
}

/** Of what a person or a model says. */
const MAX_SAID_CHARS = 64_000

/** What the event says, or undefined. Of a tool's result at most `maxResultChars` are kept, half from its end. */
export function textOfEvent(event: SessionEvent, maxResultChars: number): SessionText | undefined {
  const { seq, time } = event
  const text = (role: SessionHit['role'], parts: readonly unknown[], max: number) => {
    const said = tidy(cut(redact(parts.filter(part => typeof part === 'string').join('\n')), max))
    return said ? { seq, time, role, text: said } : undefined
  }
  // Of a plugin of its own, which may be absent: taken as what it says it is.
  if ((event.type as string) === 'session/title') {
    const { title, by } = (event.data ?? {}) as { title?: unknown; by?: unknown }
    // The words of a prompt are in the prompt.
    return by === 'prompt' ? undefined : text('title', [title], MAX_SAID_CHARS)
  }
  if (!isIntact(event)) return undefined
  switch (event.type) {
    case 'user/message': {
      const { source, content } = event.data.message
      // What plugins tell the model is none of a conversation, and the same in all of them.
      return source.kind === 'user' ? text('user', content.map(textOf), MAX_SAID_CHARS) : undefined
    }
    case 'assistant/message':
      return text('assistant', event.data.message.content.map(textOf), MAX_SAID_CHARS)
    case 'tool/result': {
      const parts = event.data.message.content.flatMap(block =>
        block.type === 'tool-result' ? block.content.map(textOf) : [],
      )
      return text('tool', parts, maxResultChars)
    }
    default:
      return undefined
  }
}

const textOf = (block: { readonly type: string; readonly text?: unknown }) =>
  block.type === 'text' ? block.text : undefined

function cut(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max / 2)} … ${text.slice(-max / 2)}`
}
