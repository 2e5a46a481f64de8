/** Files for output that is too long to keep in memory: private, bounded, without known secrets. */

import { randomBytes } from 'node:crypto'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ByteRedactor } from '@cambium/core'
import type { SpillFile } from './process.ts'

export interface SpillLimits {
  /** Of one file. */
  readonly maxBytes: number
  /** Of all files together that go with the provider; the oldest goes first. */
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

  /**
   * Opens a new file, or returns undefined when the disk will not have it: losing it must not fail the command. In a
   * folder of the caller's it is the caller's to remove; without one it is gone with the provider at the latest.
   */
  open(folder?: string): Spill | undefined {
    const { maxBytes } = this.limits
    try {
      if (folder === undefined) this.folder ??= mkdtempSync(join(tmpdir(), 'cambium-output-'))
      else mkdirSync(folder, { recursive: true, mode: 0o700 })
      const place = folder ?? this.folder!
      const kept = { path: join(place, `output-${randomBytes(6).toString('hex')}.log`), bytes: 0 }
      const fd = openSync(kept.path, 'wx', 0o600)
      if (folder !== undefined) return new Spill(fd, kept, maxBytes, () => {})
      this.files.push(kept)
      return new Spill(fd, kept, maxBytes, () => this.makeRoom(kept))
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
  private readonly redactor = new ByteRedactor()
  private complete = true

  constructor(fd: number, kept: Kept, maxBytes: number, grown: () => void) {
    this.fd = fd
    this.kept = kept
    this.maxBytes = maxBytes
    this.grown = grown
  }

  write(chunk: Uint8Array): void {
    this.put(this.redactor.push(chunk))
  }

  private put(chunk: Uint8Array): void {
    if (!this.complete || !chunk.length) return
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
    this.put(this.redactor.end())
    closeSync(this.fd)
    this.grown()
    return { path: this.kept.path, complete: this.complete }
  }
}
