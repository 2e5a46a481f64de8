/** Standard error with one redrawn line at its end: everything that writes to it goes through here. */

import type { Writable } from 'node:stream'

/** What is needed of a stream; a terminal has `isTTY`. */
export type Output = Pick<Writable, 'write' | 'on' | 'off' | 'once'> & {
  readonly isTTY?: boolean
  /** Of a terminal. */
  readonly columns?: number | undefined
}

// Without automatic wrapping a long line is cut by the terminal itself, so that no width has to be known.
const CLEAR = '\r\x1b[2K'
const CUT = (text: string) => `\x1b[?7l${text}\x1b[?7h`

export class StatusLine {
  private readonly stream: Output
  private readonly redraws: boolean
  private text = ''

  /** `redraws` is false where the stream is no terminal that can; then only `print` writes. */
  constructor(stream: Output, redraws: boolean) {
    this.stream = stream
    this.redraws = redraws
  }

  /** A line, or several, that stay. */
  print(text: string): void {
    this.stream.write(`${this.text ? CLEAR : ''}${text}\n${this.text ? CUT(this.text) : ''}`)
  }

  /** A question without a line's end, and what ends it. */
  write(text: string): void {
    this.set('')
    this.stream.write(text)
  }

  /** Replaces the redrawn line; empty takes it away. */
  set(text: string): void {
    if (!this.redraws || text === this.text) return
    this.text = text
    this.stream.write(CLEAR + (text ? CUT(text) : ''))
  }
}
