/** What a watched path holds, as far as it must be known to tell whether it changed. */

import { createHash, type Hash } from 'node:crypto'
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs'
import { stat } from 'node:fs/promises'

export interface Content {
  /** Changes whenever the file was touched. */
  readonly signature: string
  /** Changes when the content does; absent when nothing is there. */
  readonly hash: string | undefined
  readonly empty: boolean
}

/** Larger files are told apart by size and time: hashing them would hold up everything else. */
const MAX_HASHED_BYTES = 8 * 2 ** 20
const CHUNK_BYTES = 64 * 1024
const ABSENT: Content = { signature: 'absent', hash: undefined, empty: false }
let chunk: Buffer | undefined

/** Without reading it. */
export async function signatureAt(path: string): Promise<string> {
  try {
    return signatureOf(await stat(path, { bigint: true }))
  } catch (error) {
    return failed(error).signature
  }
}

/** Whether a file is gone, or there without content. */
export function isLacking(path: string): boolean {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    return !stats || (stats.isFile() && stats.size === 0)
  } catch {
    return false
  }
}

/** Never throws: what cannot be read has a content too, that of not being readable. */
export function contentOf(path: string): Content {
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false })
    if (!stats) return ABSENT
    const signature = signatureOf(stats)
    // Nothing is ever read from a pipe or a device: that would take from whoever it is meant for, or wait.
    if (!stats.isFile()) return { signature, hash: `no file ${stats.dev}:${stats.ino}`, empty: false }
    if (stats.size > MAX_HASHED_BYTES) return { signature, hash: `${stats.size}:${stats.mtimeNs}`, empty: false }
    return { signature, ...hashed(path) }
  } catch (error) {
    return failed(error)
  }
}

function failed(error: unknown): Content {
  const { code = 'UNKNOWN' } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'ELOOP') return ABSENT
  return { signature: code, hash: `unreadable: ${code}`, empty: false }
}

function signatureOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':')
}

function hashed(path: string): { hash: string; empty: boolean } {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    // Another file may have taken its place meanwhile.
    if (!fstatSync(file).isFile()) return { hash: 'no file', empty: false }
    const hash = createHash('sha1')
    const size = readInto(hash, file)
    return { hash: hash.digest('hex'), empty: size === 0 }
  } finally {
    closeSync(file)
  }
}

function readInto(hash: Hash, file: number): number {
  chunk ??= Buffer.allocUnsafe(CHUNK_BYTES)
  let size = 0
  // A file that grows while it is read is heard of again.
  while (size <= MAX_HASHED_BYTES) {
    const bytes = readSync(file, chunk)
    if (!bytes) break
    hash.update(chunk.subarray(0, bytes))
    size += bytes
  }
  return size
}
