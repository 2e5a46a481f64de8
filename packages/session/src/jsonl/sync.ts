/** Forcing to the disk, against power loss. */

import { closeSync, fsync, fsyncSync, openSync } from 'node:fs'

export function synced(fd: number): Promise<void> {
  return new Promise((resolve, reject) => fsync(fd, error => (error ? reject(error) : resolve())))
}

/** A new name is only safe with its folder. Not every system can do it, and none needs it for reading. */
export async function syncFolder(path: string): Promise<void> {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    await synced(fd)
  } catch {
    // Windows refuses to open folders; the file itself is stored.
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** The same at once, for the few moments in which a name has to be safe before the next one is given. */
export function syncFolderNow(path: string): void {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    fsyncSync(fd)
  } catch {
    // As above.
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** fsyncs that run at once: one thread of Node's four stays free for all else that waits for a disk. */
const AT_ONCE = 3

/** Runs the fsyncs of all sessions, a bounded number at once, in the order they were asked for. */
export class SyncQueue {
  private running = 0
  private readonly waiting: (() => void)[] = []

  async run(work: () => Promise<void>): Promise<void> {
    if (this.running >= AT_ONCE) await new Promise<void>(resolve => this.waiting.push(resolve))
    else this.running++
    try {
      await work()
    } finally {
      const next = this.waiting.shift()
      if (next) next()
      else this.running--
    }
  }
}
