/** Files for output that is too long to keep in memory: private, bounded, gone with the provider. */

import { randomBytes } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, rmSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SpillFile } from './process.ts'

export interface SpillLimits {
  /** Of one file. */
  readonly maxBytes: number
  /** Of all files together; the oldest goes first. */
  readonly maxTotalBytes: number
}

interface Kept {
  readonly path: string
  bytes: number
}

export class SpillFolder {
  private readonly limits: SpillLimits
  private folder: string | undefined
  private readonly files: Kept[] = []

  constructor(limits: SpillLimits) {
    this.limits = limits
  }

  /** Opens a new file, or returns undefined when the disk will not have it: losing it must not fail the command. */
  open(): Spill | undefined {
    try {
      this.folder ??= mkdtempSync(join(tmpdir(), 'cambium-output-'))
      const kept = { path: join(this.folder, `${randomBytes(6).toString('hex')}.log`), bytes: 0 }
      const fd = openSync(kept.path, 'wx', 0o600)
      this.files.push(kept)
      return new Spill(fd, kept, this.limits.maxBytes, () => this.makeRoom(kept))
    } catch {
      return undefined
    }
  }

  dispose(): void {
    if (!this.folder) return
    rmSync(this.folder, { recursive: true, force: true })
    this.folder = undefined
    this.files.length = 0
  }

  private makeRoom(current: Kept): void {
    let total = this.files.reduce((sum, file) => sum + file.bytes, 0)
    while (total > this.limits.maxTotalBytes && this.files[0] && this.files[0] !== current) {
      const oldest = this.files.shift()!
      total -= oldest.bytes
      try {
        unlinkSync(oldest.path)
      } catch {
        // Somebody tidied up before us.
      }
    }
  }
}

/** Written synchronously: the bound keeps it to milliseconds, and nothing can pile up in memory behind a slow disk. */
export class Spill {
  private readonly fd: number
  private readonly kept: Kept
  private readonly maxBytes: number
  private readonly grown: () => void
  private complete = true

  constructor(fd: number, kept: Kept, maxBytes: number, grown: () => void) {
    this.fd = fd
    this.kept = kept
    this.maxBytes = maxBytes
    this.grown = grown
  }

  write(chunk: Uint8Array): void {
    if (!this.complete) return
    const part = chunk.subarray(0, this.maxBytes - this.kept.bytes)
    if (part.length < chunk.length) this.complete = false
    try {
      for (let at = 0; at < part.length; ) at += writeSync(this.fd, part, at)
      this.kept.bytes += part.length
    } catch {
      this.complete = false
    }
  }

  close(): SpillFile {
    closeSync(this.fd)
    this.grown()
    return { path: this.kept.path, complete: this.complete }
  }
}
