/** Reads a file of text that a person named, whatever it turns out to be. */

import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/** Far more than anybody writes by hand; a device has no end. */
const MAX_BYTES = 64 * 2 ** 20
const CHUNK_BYTES = 64 * 1024
/** How long a pipe may take to bring something, as that of `cordis start <(generate)` does. */
const PIPE_MS = 10_000
const POLL_MS = 10

/** @throws what the file system says; `EFBIG`, `ETIMEDOUT`, `EILSEQ` for what has no end, brings nothing, or is no UTF-8 */
export function readTextFile(path: string): string {
  // Without waiting: a pipe that nobody writes to would keep the whole process, its signal handlers too.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    if (fstatSync(file).isDirectory()) throw failure('EISDIR')
    return decode(readAll(file))
  } finally {
    closeSync(file)
  }
}

function readAll(file: number): Buffer {
  const chunks: Buffer[] = []
  const until = performance.now() + PIPE_MS
  for (let size = 0; size <= MAX_BYTES; ) {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    const bytes = readSome(file, chunk, until)
    if (!bytes) return Buffer.concat(chunks)
    chunks.push(chunk.subarray(0, bytes))
    size += bytes
  }
  throw failure('EFBIG')
}

function readSome(file: number, chunk: Buffer, until: number): number {
  for (;;) {
    try {
      return readSync(file, chunk)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
      if (performance.now() > until) throw failure('ETIMEDOUT')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, POLL_MS)
    }
  }
}

function decode(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw failure('EILSEQ')
  }
}

const failure = (code: string) => Object.assign(new Error(code), { code })
