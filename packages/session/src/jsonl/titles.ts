/** What lists call a session: the title that was set last, else the first words of the first prompt. */

import type { SessionEvent } from '../event.ts'
import { firstWords } from '../first-words.ts'

export const TITLE_EVENT = 'session/title'
const TITLE_CHARS = 80

/** Of a live session's events, a fork's taken over included. */
export function titleOf(events: readonly SessionEvent[]): string | undefined {
  const set = events.findLast(({ type, data }) => (type as string) === TITLE_EVENT && setTitle(data))
  return set ? setTitle(set.data) : promptTitle(events)
}

function promptTitle(events: readonly SessionEvent[]): string | undefined {
  for (const { type, data } of events) {
    const text = type === 'inbox/changed' || type === 'user/message' ? promptOf(data) : undefined
    if (text?.trim()) return shorten(text)
  }
  return undefined
}

/** The title that the data of an event sets, fit to be shown. */
export function setTitle(data: unknown): string | undefined {
  const { title } = (typeof data === 'object' && data !== null ? data : {}) as { title?: unknown }
  return (typeof title === 'string' && shorten(title)) || undefined
}

interface Prompt {
  readonly source?: { readonly kind?: string }
  readonly content?: readonly { readonly type?: string; readonly text?: string }[]
}

/** The text of a person's message in the data of an event. */
export function promptOf(data: unknown): string | undefined {
  const { message, inserted } = (typeof data === 'object' && data !== null ? data : {}) as {
    message?: Prompt
    inserted?: readonly { message?: Prompt }[]
  }
  const candidates: (Prompt | undefined)[] = Array.isArray(inserted) ? inserted.map(entry => entry?.message) : []
  for (const candidate of [message, ...candidates]) {
    if (candidate?.source?.kind !== 'user' || !Array.isArray(candidate.content)) continue
    const text = candidate.content.find(block => block?.type === 'text' && typeof block.text === 'string')?.text
    if (text) return text
  }
  return undefined
}

/** Control characters would reach the terminal of whoever lists. */
export const shorten = (text: string): string => firstWords(text, TITLE_CHARS)
