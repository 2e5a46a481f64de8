/** One question to a person at a terminal. */

import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'

/** The line that comes; an end of the input is an empty one. The terminal's own Ctrl-C still ends the process. */
export async function ask(
  keyboard: Readable,
  stream: { write(text: string): unknown },
  question: string,
): Promise<string> {
  stream.write(question)
  const lines = createInterface({ input: keyboard, terminal: false })
  try {
    for await (const line of lines) return line
    stream.write('\n')
    return ''
  } finally {
    lines.close()
  }
}
