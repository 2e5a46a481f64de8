/** An open log file that is only ever appended to, by whole lines. */

import { close, fstatSync, ftruncateSync, openSync, type Stats, writeSync } from 'node:fs'
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
  /** Opened when it is first needed: a file that is there counts as begun, also where it cannot be opened just now. */
  private fd: number | undefined
  private length: number
  /** A failed write could not be taken back. */
  private torn = false
  private fresh: boolean

  private constructor(path: string, size: number, fresh: boolean) {
    this.path = path
    this.length = size
    this.fresh = fresh
  }

  /** Publishes a new file with its first lines in one step. Undefined when there is one already. @throws as `diskError` */
  static create(path: string, text: string): LogFile | undefined {
    const bytes = Buffer.from(text)
    try {
      return createWhole(path, bytes) ? new LogFile(path, bytes.length, true) : undefined
    } catch (error) {
      throw diskError(error, 'cannot store a session', path)
    }
  }

  /** Opens one for appending at `end`: what follows there is cut off. @throws as `diskError` */
  static open(path: string, end: number): LogFile {
    const file = new LogFile(path, end, false)
    try {
      const fd = file.opened()
      if (fstatSync(fd).size !== end) ftruncateSync(fd, end)
      return file
    } catch (error) {
      void file.close()
      throw diskError(error, 'cannot open a session for writing', path)
    }
  }

  /** One that was just begun with `size` bytes. */
  static begun(path: string, size: number): LogFile {
    return new LogFile(path, size, true)
  }

  get size(): number {
    return this.length
  }

  /** Appends, or leaves the file as it was. @throws as `diskError`, `SESSION_CONFLICT` when somebody else wrote */
  append(text: string): void {
    const bytes = Buffer.from(text)
    this.assertOurs()
    const fd = this.opened()
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done)
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
      await synced(this.opened())
      if (!this.fresh) return
      this.fresh = false
      await syncFolder(dirname(this.path))
    } catch (error) {
      throw diskError(error, 'cannot store a session', this.path)
    }
  }

  close(): Promise<void> {
    const { fd } = this
    return new Promise(resolve => (fd === undefined ? resolve() : close(fd, () => resolve())))
  }

  /** @throws `SESSION_CONFLICT`, as `diskError` */
  assertOurs(): void {
    if (this.torn) this.takeBack()
    const { size, nlink } = this.look()
    if (nlink > 0 && size === this.length) return
    throw new HarnessError(
      'SESSION_CONFLICT',
      nlink ? 'another program wrote to the log of this session' : 'the log of this session was removed',
      { where: this.path, fix: nlink ? 'end one of the two, then resume' : 'fork the session to keep what it holds' },
    )
  }

  private opened(): number {
    this.fd ??= openSync(this.path, 'a')
    return this.fd
  }

  private look(): Stats {
    try {
      return fstatSync(this.opened())
    } catch (error) {
      throw diskError(error, 'cannot store a session', this.path)
    }
  }

  /** Only ever cuts off what a failed write of ours left: the size was checked right before it. */
  private takeBack(): void {
    try {
      ftruncateSync(this.opened(), this.length)
      this.torn = false
    } catch {
      // Tried again before the next write.
    }
  }
}
