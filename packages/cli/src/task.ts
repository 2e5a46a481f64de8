/** The task in words: from the arguments, from standard input, or both. */

import type { Readable } from 'node:stream'
import { usageError } from './flags.ts'

export type Input = Readable & { readonly isTTY?: boolean }

const MAX_BYTES = 8 * 1024 * 1024
/** How long a pipe that nobody has written to is waited for when there are arguments as well. */
const FIRST_BYTE_MS = 10_000

/**
 * Joins what was typed with what was piped. A terminal is not read. A pipe that brings nothing within ten seconds is
 * given up, since scripts and CI often leave one open; `waiting` is told after one second.
 *
 * @throws `CLI_USAGE` when there is neither, or more than 8 MiB.
 */
export async function readTask(words: readonly string[], stdin: Input, warn: (text: string) => void): Promise<string> {
  const typed = words.join(' ').trim()
  const piped = stdin.isTTY ? '' : (await readPiped(stdin, typed ? warn : undefined)).trim()
  if (!typed) return piped
  return piped ? `${typed}\n\n<stdin>\n${piped}\n</stdin>` : typed
}

/** `warn` is given when the input may be left out; without it, it is waited for until its end. */
async function readPiped(stdin: Input, warn: ((text: string) => void) | undefined): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  const timers: NodeJS.Timeout[] = []
  const gaveUp = new Promise<'gave up'>(resolve => {
    if (!warn) return
    timers.push(
      setTimeout(() => warn('waiting for standard input; redirect it from /dev/null to go without'), 1000),
      setTimeout(() => resolve('gave up'), FIRST_BYTE_MS),
    )
  })
  const clear = () => {
    for (const timer of timers) clearTimeout(timer)
  }
  const iterator = stdin[Symbol.asyncIterator]() as AsyncIterator<Buffer | string>
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), gaveUp])
      if (next === 'gave up') {
        warn?.(`nothing came on standard input within ${FIRST_BYTE_MS / 1000} s; going on without it`)
        stdin.destroy()
        return ''
      }
      clear()
      if (next.done) break
      const chunk = typeof next.value === 'string' ? Buffer.from(next.value) : next.value
      size += chunk.length
      if (size > MAX_BYTES) {
        stdin.destroy()
        throw usageError('standard input is larger than 8 MiB', 'save it to a file and name the file in the task')
      }
      chunks.push(chunk)
    }
  } catch (error) {
    // A closed descriptor reads as an error: there is no input then. Our own refusal goes through.
    if ((error as NodeJS.ErrnoException).syscall) return ''
    throw error
  } finally {
    clear()
  }
  return Buffer.concat(chunks).toString('utf8')
}
