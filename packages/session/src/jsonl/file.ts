/** An open log file that is only ever appended to, by whole lines. */

import { close, fstatSync, ftruncateSync, openSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { HarnessError } from '@cambium/core'
import { createWhole, diskError } from '@cambium/store'
import { synced, syncFolder } from './sync.ts'

/**
 * Writes are synchronous: 7 µs into the page cache against 75 µs through the thread pool, and never half done when the
 * process ends. What the process has written survives it; only the machine's own end needs `sync`.
 */
export class LogFile {
  readonly path: string
  private readonly fd: number
  private length: number
  /** A failed write could not be taken back. */
  private torn = false
  private fresh: boolean

  private constructor(path: string, size: number, fresh: boolean) {
    this.path = path
    this.fd = openSync(path, 'a')
    this.length = size
    this.fresh = fresh
  }

  /** Publishes a new file with its first lines in one step. Undefined when there is one already. @throws as `diskError` */
  static create(path: string, text: string): LogFile | undefined {
    const bytes = Buffer.from(text)
    let created = false
    try {
      created = createWhole(path, bytes)
      return created ? new LogFile(path, bytes.length, true) : undefined
    } catch (error) {
      if (created) rmSync(path, { force: true })
      throw diskError(error, 'cannot store a session', path)
    }
  }

  /** Opens one for appending at `end`: what follows there is cut off. @throws as `diskError` */
  static open(path: string, end: number): LogFile {
    try {
      const file = new LogFile(path, end, false)
      if (fstatSync(file.fd).size !== end) ftruncateSync(file.fd, end)
      return file
    } catch (error) {
      throw diskError(error, 'cannot open a session for writing', path)
    }
  }

  /** Opens one that was just begun with `size` bytes. @throws as `diskError` */
  static begun(path: string, size: number): LogFile {
    try {
      return new LogFile(path, size, true)
    } catch (error) {
      throw diskError(error, 'cannot open a session for writing', path)
    }
  }

  get size(): number {
    return this.length
  }

  /** Appends, or leaves the file as it was. @throws as `diskError`, `SESSION_CONFLICT` when somebody else wrote */
  append(text: string): void {
    const bytes = Buffer.from(text)
    this.assertOurs()
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(this.fd, bytes, done)
      this.length += bytes.length
    } catch (error) {
      this.torn = true
      this.takeBack()
      throw diskError(error, 'cannot store a session', this.path)
    }
  }

  /** Makes what was appended outlive the machine. @throws as `diskError` */
  async sync(): Promise<void> {
    try {
      await synced(this.fd)
      if (!this.fresh) return
      this.fresh = false
      await syncFolder(dirname(this.path))
    } catch (error) {
      throw diskError(error, 'cannot store a session', this.path)
    }
  }

  close(): Promise<void> {
    return new Promise(resolve => close(this.fd, () => resolve()))
  }

  /** @throws `SESSION_CONFLICT` */
  assertOurs(): void {
    if (this.torn) this.takeBack()
    const { size, nlink } = fstatSync(this.fd)
    if (nlink > 0 && size === this.length) return
    throw new HarnessError(
      'SESSION_CONFLICT',
      nlink ? 'another program wrote to the log of this session' : 'the log of this session was removed',
      { where: this.path, fix: nlink ? 'end one of the two, then resume' : 'fork the session to keep what it holds' },
    )
  }

  /** Only ever cuts off what a failed write of ours left: the size was checked right before it. */
  private takeBack(): void {
    try {
      ftruncateSync(this.fd, this.length)
      this.torn = false
    } catch {
      // Tried again before the next write.
    }
  }
}
