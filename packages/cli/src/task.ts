/** The task in words: from the arguments, from standard input, or both. */

import { fstatSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { usageError } from './flags.ts'

export type Input = Readable & { readonly isTTY?: boolean; readonly fd?: number }

const MAX_BYTES = 8 * 1024 * 1024
/** How long a shell's pipe is waited for that brings nothing, when there are words as well. */
const PIPE_MS = 10_000
const NOTICE_MS = 1_000
/** The same for a socket, which is what a program gives that forgets to close our input: who writes, writes at once. */
const SOCKET_MS = 1_000

/**
 * Joins what was typed with what was piped. A terminal is not read. Input that may be left out and brings nothing is
 * given up in the end, since scripts often leave a pipe open; `warn` is told of it.
 *
 * @throws `CLI_USAGE` for more than 8 MiB.
 */
export async function readTask(words: readonly string[], stdin: Input, warn: (text: string) => void): Promise<string> {
  const typed = words.join(' ').trim()
  const piped = stdin.isTTY ? '' : (await readPiped(stdin, typed ? warn : undefined)).trim()
  if (!typed) return piped
  return piped ? `${typed}\n\n<stdin>\n${piped}\n</stdin>` : typed
}

function isSocket({ fd }: Input): boolean {
  try {
    return fd !== undefined && fstatSync(fd).isSocket()
  } catch {
    // A descriptor that is closed is read as an empty input.
    return false
  }
}

/** `warn` is given when the input may be left out; without it, it is waited for until its end. */
async function readPiped(stdin: Input, warn: ((text: string) => void) | undefined): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  const timers: NodeJS.Timeout[] = []
  const gaveUp = new Promise<'gave up'>(resolve => {
    if (!warn) return
    const after = (ms: number, run: () => void) => timers.push(setTimeout(run, ms))
    if (isSocket(stdin)) return after(SOCKET_MS, () => resolve('gave up'))
    after(NOTICE_MS, () => warn('waiting for standard input; redirect it from /dev/null to go without'))
    after(PIPE_MS, () => {
      warn(`nothing came on standard input within ${PIPE_MS / 1000} s; going on without it`)
      resolve('gave up')
    })
  })
  const clear = () => {
    for (const timer of timers) clearTimeout(timer)
  }
  const iterator = stdin[Symbol.asyncIterator]() as AsyncIterator<Buffer | string>
  try {
    for (;;) {
      const next = await Promise.race([iterator.next(), gaveUp])
      if (next === 'gave up') {
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
  const bytes = Buffer.concat(chunks)
  if (bytes.includes(0)) await refusePicture(bytes)
  return bytes.toString('utf8')
}

/** Text holds no zeros, and a picture read as text is nothing but noise. */
async function refusePicture(bytes: Buffer): Promise<void> {
  const { imageTypeOf } = await import('@cambium/llm/image')
  if (imageTypeOf(bytes)) {
    throw usageError('standard input is a picture', 'save it to a file, and give that with --image <file>')
  }
}
