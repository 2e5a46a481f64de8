/** Server-sent events out of a body, as many at once as one network read brought. */

import type { IncomingMessage } from 'node:http'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { AnswerTimeout, plainBody, readBody } from './http.ts'

export interface EventLimits {
  /** Until the first event. */
  readonly firstMs: number
  /** Between two events. Comments do not count: a server that only says that it lives is silent all the same. */
  readonly idleMs: number
}

/** No provider's event comes near it; a stream that never ends a line must not fill the memory. */
const MAX_EVENT_CHARS = 32 * 2 ** 20
/** What is kept of a body that holds no event at all, to say what it was; of JSON all, which may be a whole answer. */
const MAX_STRAY_CHARS = 64 * 1024

/** Rejection when a stream was silent for too long; `begun` tells whether an event had come before. */
export class SilenceError extends Error {
  override readonly name = 'SilenceError'
  readonly begun: boolean
  readonly ms: number
  constructor(begun: boolean, ms: number) {
    super(`no event within ${ms} ms`)
    this.begun = begun
    this.ms = ms
  }
}

/** The body holds something other than events: its beginning. */
export class NoEventsError extends Error {
  override readonly name = 'NoEventsError'
  readonly text: string
  constructor(text: string) {
    super('the body holds no events')
    this.text = text
  }
}

/** Only time spent waiting for the network counts; a consumer may take as long as it likes between two reads. */
export async function* readEvents(
  body: IncomingMessage,
  limits: () => EventLimits,
): AsyncGenerator<EventSourceMessage[]> {
  const decoder = new TextDecoder()
  let events: EventSourceMessage[] = []
  let overlong = false
  let begun = false
  let silentMs = 0
  let stray = ''
  const parser = createParser({
    onEvent: event => {
      // One without data is none (HTML §9.2.6), and space around JSON or `[DONE]` means nothing.
      const data = event.data.trim()
      if (data) events.push(data === event.data ? event : { ...event, data })
    },
    onError: error => {
      overlong ||= error.type === 'max-buffer-size-exceeded'
    },
    maxBufferSize: MAX_EVENT_CHARS,
  })
  const plain = await plainBody(body)
  for (;;) {
    const { firstMs, idleMs } = limits()
    const limit = begun ? idleMs : firstMs
    const asked = performance.now()
    let chunk: Buffer | undefined
    try {
      chunk = await readBody(plain, Math.max(1, limit - silentMs))
    } catch (error) {
      throw error instanceof AnswerTimeout ? new SilenceError(begun, limit) : error
    }
    silentMs += performance.now() - asked
    const text = chunk ? decoder.decode(chunk, { stream: true }) : `${decoder.decode()}\n\n`
    parser.feed(text)
    // A body that ends without its last empty line still ends an event, since servers exist that cut it; half an event is none.
    if (!chunk) events = events.filter(event => event.data === '[DONE]' || isJson(event.data))
    if (overlong) throw new NoEventsError('')
    const most = /^\s*\{/.test(stray) ? MAX_EVENT_CHARS : MAX_STRAY_CHARS
    if (!begun && stray.length < most) stray += text.slice(0, most)
    if (events.length) {
      begun = true
      silentMs = 0
      stray = ''
      const batch = events
      events = []
      yield batch
    }
    if (!chunk) {
      if (!begun && stray.trim()) throw new NoEventsError(stray.trim())
      return
    }
    if (silentMs > limit) throw new SilenceError(begun, limit)
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** A wait in words. */
export const spell = (ms: number) => (ms < 1000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`)
