/** Contents of a tree as they were last seen, one behind the other in a file: a copy that lives as long as its session is open. */

import { closeSync, mkdirSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { sizeOf } from './objects.ts'

export type Place = readonly [offset: number, length: number]

const BATCH_BYTES = 1 << 20

export class Mirror {
  private readonly path: string
  private waiting: Uint8Array[] = []
  private waitingBytes = 0
  /** Bytes in the file and on their way there. */
  size: number

  constructor(path: string) {
    this.path = path
    this.size = sizeOf(path) ?? 0
  }

  append(bytes: Uint8Array): Place {
    const place: Place = [this.size, bytes.length]
    this.waiting.push(bytes)
    this.waitingBytes += bytes.length
    this.size += bytes.length
    if (this.waitingBytes > BATCH_BYTES) this.flush()
    return place
  }

  /** @throws what the file system says; nothing that was appended since the last flush is there then */
  flush(): void {
    if (!this.waiting.length) return
    const bytes = Buffer.concat(this.waiting)
    const from = this.size - this.waitingBytes
    this.waiting = []
    this.waitingBytes = 0
    mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
    const file = openSync(this.path, from ? 'r+' : 'w', 0o600)
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, from + at)
    } finally {
      closeSync(file)
    }
  }

  /** Undefined when it is not there. Whoever reads checks what it got. */
  read([offset, length]: Place): Buffer | undefined {
    try {
      const file = openSync(this.path, 'r')
      try {
        const bytes = Buffer.allocUnsafe(length)
        let at = 0
        while (at < length) {
          const got = readSync(file, bytes, at, length - at, offset + at)
          if (!got) return undefined
          at += got
        }
        return bytes
      } finally {
        closeSync(file)
      }
    } catch {
      return undefined
    }
  }

  remove(): void {
    this.waiting = []
    this.waitingBytes = 0
    this.size = 0
    rmSync(this.path, { force: true })
  }
}
