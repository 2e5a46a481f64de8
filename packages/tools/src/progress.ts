/** Thins out what a running tool reports, so that a chatty one cannot flood the viewers. */

import { errorMessage, type JsonValue, redactCut, redactJson } from '@cambium/core'
import { snapshot } from './result.ts'

const EVERY_MS = 100
const MAX_CHARS = 16_384

export interface Progress {
  report(data: JsonValue): void
  /** Publishes what is still held back; later reports are ignored. */
  end(): void
}

/** At most ten reports a second reach `publish`; the last one always does. Never throws. */
export function createProgress(publish: (data: JsonValue) => void, warn: (text: string) => void): Progress {
  let held: { data: JsonValue } | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  let sentAt = Number.NEGATIVE_INFINITY
  let ended = false
  const send = () => {
    clearTimeout(timer)
    timer = undefined
    if (!held) return
    const { data } = held
    held = undefined
    sentAt = performance.now()
    try {
      publish(bounded(data))
    } catch (error) {
      // Showing progress must not fail the call.
      warn(`progress was not shown: ${errorMessage(error)}`)
    }
  }
  return {
    report(data) {
      if (ended) return
      held = { data }
      const wait = sentAt + EVERY_MS - performance.now()
      if (wait <= 0) send()
      else timer ??= setTimeout(send, wait).unref()
    },
    end() {
      ended = true
      send()
    },
  }
}

/** Without secrets, parts of them too: what is shown of a stream begins and ends anywhere. No listener comes between. */
function bounded(data: JsonValue): JsonValue {
  const copy = redactJson(snapshot(data, 'progress'), redactCut)
  if (typeof copy === 'string') return copy.length > MAX_CHARS ? `…${copy.slice(-MAX_CHARS)}` : copy
  const text = JSON.stringify(copy)
  return text.length > MAX_CHARS ? { truncated: true, start: text.slice(0, MAX_CHARS) } : copy
}
