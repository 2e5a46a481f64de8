/** Shows viewers the end of a running command's output, ten times a second at most. */

import { plainText } from './terminal-text.ts'

const EVERY_MS = 100
const SHOWN_CHARS = 4_000

export interface FeedState {
  readonly kind: 'output'
  /** The last lines so far. */
  readonly tail: string
  readonly totalChars: number
  readonly elapsedMs: number
  readonly [key: string]: string | number
}

export interface OutputFeed {
  push(text: string): void
  end(): void
}

/** The first report comes 100 ms after the first output: a quick command makes none, its result says it all. */
export function createOutputFeed(report: (state: FeedState) => void): OutputFeed {
  const startedAt = performance.now()
  let recent = ''
  let totalChars = 0
  let timer: NodeJS.Timeout | undefined
  const tell = () => {
    timer = undefined
    const elapsedMs = Math.round(performance.now() - startedAt)
    report({ kind: 'output', tail: plainText(recent).slice(-SHOWN_CHARS), totalChars, elapsedMs })
  }
  return {
    push(text) {
      totalChars += text.length
      recent += text.length > SHOWN_CHARS ? text.slice(-SHOWN_CHARS) : text
      if (recent.length > SHOWN_CHARS * 4) recent = recent.slice(-SHOWN_CHARS)
      timer ??= setTimeout(tell, EVERY_MS)
    },
    end() {
      clearTimeout(timer)
    },
  }
}
