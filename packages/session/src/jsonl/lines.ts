/** Frames the bytes of a log into lines, plain or compressed, in bounded memory. */

import type { FileHandle } from 'node:fs/promises'

export interface Line {
  /** Undefined for a line that is too long to be kept. Good until the taker returns. */
  readonly bytes: Buffer | undefined
  readonly end: number
  readonly terminated: boolean
}

const CHUNK_BYTES = 1 << 20
const LINE_FEED = 0x0a

/**
 * Frames on 0x0A only. A line over the limit is passed over without being kept. Lines are handed on as they come and not
 * awaited one by one, which would cost more than parsing them; between two chunks others have their turn.
 */
export async function readLines(
  chunks: AsyncIterable<Buffer>,
  maxLineBytes: number,
  take: (line: Line) => void,
): Promise<void> {
  let parts: Buffer[] = []
  let length = 0
  let position = 0
  for await (const chunk of chunks) {
    let start = 0
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, start)) {
      length += at - start
      const bytes = length > maxLineBytes ? undefined : join(parts, chunk.subarray(start, at))
      take({ bytes, end: position + at + 1, terminated: true })
      if (parts.length) parts = []
      length = 0
      start = at + 1
    }
    length += chunk.length - start
    if (length > maxLineBytes) parts = []
    // The chunk's memory is its reader's again.
    else if (start < chunk.length) parts.push(Buffer.from(chunk.subarray(start)))
    position += chunk.length
  }
  if (length) take({ bytes: length > maxLineBytes ? undefined : join(parts), end: position, terminated: false })
}

function join(parts: Buffer[], last?: Buffer): Buffer {
  if (!parts.length) return last ?? Buffer.alloc(0)
  return Buffer.concat(last ? [...parts, last] : parts)
}

/** All of the file through one buffer, whatever its size: a chunk is good until the next one is asked for. */
export async function* fileChunks(file: FileHandle): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let position = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, position)
    if (!bytesRead) return
    yield buffer.subarray(0, bytesRead)
    position += bytesRead
  }
}

/** @throws what zlib says of a damaged file, after all that could be read of it */
export async function* packedChunks(file: FileHandle): AsyncGenerator<Buffer> {
  const [{ createGunzip }, { Readable }] = await Promise.all([import('node:zlib'), import('node:stream')])
  const source = Readable.from(copies(fileChunks(file)), { objectMode: false })
  const gunzip = createGunzip({ chunkSize: 256 << 10 })
  source.on('error', error => gunzip.destroy(error))
  source.pipe(gunzip)
  try {
    yield* gunzip
  } finally {
    source.destroy()
    gunzip.destroy()
  }
}

/** A stream reads ahead, and so keeps what it was given. */
async function* copies(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) yield Buffer.from(chunk)
}
