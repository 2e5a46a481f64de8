/** What a writer has written and the disk may not have yet, which only the machine's own end can take away. */

import type { LogFile } from './file.ts'
import type { SyncQueue } from './sync.ts'

export class Unsynced {
  /** A turn has ended in it. */
  turnEnded = false
  private readonly queue: SyncQueue
  private readonly current: () => LogFile | undefined
  /** Closed segments. */
  private retired: LogFile[] = []
  private written = false
  private syncing: Promise<void> = Promise.resolve()

  /** `current` is the file that is being written. */
  constructor(queue: SyncQueue, current: () => LogFile | undefined) {
    this.queue = queue
    this.current = current
  }

  add(turnEnded: boolean): void {
    this.written = true
    this.turnEnded ||= turnEnded
  }

  /** The file is written no more; it is closed once the disk has it. */
  retire(file: LogFile): void {
    this.retired.push(file)
  }

  /** Resolves when the disk has all of it. @throws as a disk fails; then it is tried again by the next call */
  sync(): Promise<void> {
    if (!this.written || !this.current()) return this.syncing
    this.written = false
    this.turnEnded = false
    const done = this.syncing.catch(() => {}).then(() => this.queue.run(() => this.syncFiles()))
    done.catch(() => {
      this.written = true
      this.turnEnded = true
    })
    this.syncing = done
    return done
  }

  /** Waits for what is under way, and closes files whatever the disk has of them. Never rejects. */
  async end(): Promise<void> {
    await this.syncing.catch(() => {})
    for (const file of this.retired) await file.close()
    this.retired = []
  }

  private async syncFiles(): Promise<void> {
    for (const file of [...this.retired]) {
      await file.sync()
      this.retired = this.retired.filter(other => other !== file)
      await file.close()
    }
    await this.current()?.sync()
  }
}
