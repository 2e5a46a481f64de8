/** The answer that is being streamed, kept beside the log until it is logged: a killed process loses no more than a second of it. */

import { readFileSync, rmSync } from 'node:fs'
import { parsedProblem } from '@cambium/core'
import { writeAtomic } from '@cambium/store'
import { problemOf } from '../core-types.ts'
import type { PartialMessage } from '../session.ts'
import { encodeLine } from './format.ts'
import { partialOf } from './places.ts'

export class Journal {
  private readonly everyMs: number
  private readonly write: () => void
  private timer: NodeJS.Timeout | undefined
  /** There is a file. */
  private written = false

  /** `write` is called when it is time, and must not throw. */
  constructor(everyMs: number, write: () => void) {
    this.everyMs = everyMs
    this.write = write
  }

  /** Something was streamed. */
  hear(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.write()
    }, this.everyMs)
  }

  /** @throws what the file system says */
  keep(log: string, partial: PartialMessage): void {
    writeAtomic(partialOf(log), encodeLine(partial))
    this.written = true
  }

  /** What a former writer left, if it is sound. */
  read(log: string): PartialMessage | undefined {
    const partial = readPartial(partialOf(log))
    this.written = partial !== undefined
    return partial
  }

  /** The answer is logged, or void. */
  drop(log: string | undefined): void {
    if (!this.written) return
    try {
      if (log) rmSync(partialOf(log), { force: true })
      this.written = false
    } catch {
      // It says which step it belongs to, and that one is answered. The next commit tries again.
    }
  }

  stop(): void {
    clearTimeout(this.timer)
  }
}

function readPartial(path: string): PartialMessage | undefined {
  try {
    const partial = JSON.parse(readFileSync(path, 'utf8')) as PartialMessage
    const { turn, step, attempt, content } = partial
    const message = { id: 'partial', role: 'assistant', content, source: {} }
    const sound = Number.isInteger(attempt) && !problemOf('assistant/message', { turn, step, message })
    return sound && !parsedProblem(partial) ? partial : undefined
  } catch {
    // None was written, or it is of no use: the log itself is what counts.
    return undefined
  }
}
