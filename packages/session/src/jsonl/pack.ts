/** Compresses a file that is written no more, so that `zgrep` finds in it what `grep` found. */

import { createHash, type Hash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { type FileHandle, open, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { fileChunks, packedChunks } from './lines.ts'
import { packedOf, unfinished } from './places.ts'
import { syncFolder } from './sync.ts'

/**
 * The plain file goes only when the compressed one is whole, on the disk, and was read back. `firstLine` may say its header
 * anew. Nothing changes when the file grew meanwhile, or when another compressed one is there that holds something else.
 * @throws what the file system says, the signal's reason
 */
export async function pack(path: string, signal: AbortSignal, firstLine?: (line: string) => string): Promise<boolean> {
  const packed = packedOf(path)
  // Whoever compresses holds the lease: what a killed one left is overwritten.
  const next = unfinished(packed)
  const before = await stat(path)
  const content = createHash('sha256')
  try {
    await withFile(path, plain =>
      pipeline(
        () => hashed(withFirstLine(fileChunks(plain), firstLine), content),
        createGzip(),
        createWriteStream(next, { mode: 0o600, flush: true }),
        { signal },
      ),
    )
    const digest = content.digest('hex')
    if (digest !== (await digestOf(next, signal))) throw new Error(`what was compressed to ${next} reads differently`)
    const now = await stat(path)
    if (now.size !== before.size || now.mtimeMs !== before.mtimeMs) return false
    if (await exists(packed)) {
      if (digest !== (await digestOf(packed, signal))) return false
    } else {
      await utimes(next, before.atime, before.mtime)
      await rename(next, packed)
      await syncFolder(dirname(packed))
    }
    await rm(path)
    return true
  } finally {
    await rm(next, { force: true })
  }
}

async function withFile<T>(path: string, work: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, 'r')
  try {
    return await work(file)
  } finally {
    await file.close()
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

async function digestOf(path: string, signal: AbortSignal): Promise<string> {
  return withFile(path, async file => {
    const hash = createHash('sha256')
    for await (const chunk of packedChunks(file)) {
      signal.throwIfAborted()
      hash.update(chunk)
    }
    return hash.digest('hex')
  })
}

/** Streams keep what they are given, and so they get copies. */
async function* hashed(chunks: AsyncIterable<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    hash.update(chunk)
    yield Buffer.from(chunk)
  }
}

async function* withFirstLine(chunks: AsyncIterable<Buffer>, change: ((line: string) => string) | undefined) {
  let first = change !== undefined
  for await (const chunk of chunks) {
    const end = first ? chunk.indexOf(0x0a) : -1
    // A header is far shorter than a chunk; one that is not stays as it is.
    if (change && end > 0) {
      yield Buffer.from(change(chunk.toString('utf8', 0, end)))
      yield chunk.subarray(end)
    } else yield chunk
    first = false
  }
}
