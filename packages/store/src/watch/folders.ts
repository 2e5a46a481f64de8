/** Open watchers, one per folder, whoever asks for it. */

import { type FSWatcher, statSync, watch } from 'node:fs'
import { basename, sep } from 'node:path'

export interface FolderEvents {
  /** `entry` tells that a name came, went or now stands for another file. */
  readonly event: (folder: string, name: string, entry: boolean) => void
  /** Anything may have happened in there, or it is not there any more; its watcher is gone. */
  readonly lost: (folder: string) => void
  /** The folder is there, but cannot be watched. */
  readonly failed: (folder: string, error: NodeJS.ErrnoException) => void
}

interface Open {
  readonly watcher: FSWatcher
  readonly identity: string
}

export class FolderWatches {
  /** Folders that only a look now and then tells about. */
  readonly polled = new Set<string>()
  private readonly open = new Map<string, Open>()
  private readonly events: FolderEvents
  private readonly persistent: boolean

  constructor(events: FolderEvents, persistent: boolean) {
    this.events = events
    this.persistent = persistent
  }

  /** True when a watcher was opened, so that what happened before is not known. */
  ensure(folder: string): boolean {
    if (this.open.has(folder)) return false
    // Its identity first: a folder that is replaced in between is then found to be another one.
    const identity = identityOf(folder)
    if (identity === undefined) return false
    try {
      const watcher = watch(folder, { persistent: this.persistent })
      watcher.on('change', (type, name) => this.heard(folder, type, name?.toString()))
      watcher.on('error', error => this.failed(folder, error as NodeJS.ErrnoException))
      this.open.set(folder, { watcher, identity })
      this.polled.delete(folder)
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ENOENT' && code !== 'ENOTDIR') this.refused(folder, error as NodeJS.ErrnoException)
      return false
    }
  }

  drop(folder: string) {
    const watcher = this.open.get(folder)?.watcher
    // Forgotten first: closing may answer.
    this.open.delete(folder)
    watcher?.close()
    this.polled.delete(folder)
  }

  /** Loses a folder and those below it: whatever has that name now, they are not what is watched. */
  loseTree(folder: string) {
    for (const path of [...this.open.keys()]) if (path === folder || path.startsWith(folder + sep)) this.lose(path)
  }

  /** Loses those that stand for another folder by now. */
  loseReplaced() {
    for (const folder of [...this.open.keys()]) if (this.replaced(folder)) this.lose(folder)
  }

  close() {
    for (const folder of [...this.open.keys()]) this.drop(folder)
    this.polled.clear()
  }

  private heard(folder: string, type: string, name: string | undefined) {
    const entry = type === 'rename'
    // A folder's own end is told under its own name, which one of its files may have too.
    if (entry && name === basename(folder) && this.replaced(folder)) this.loseTree(folder)
    else if (name === undefined) this.events.lost(folder)
    else this.events.event(folder, name, entry)
  }

  private failed(folder: string, error: NodeJS.ErrnoException) {
    if (!this.replaced(folder)) this.refused(folder, error)
    this.lose(folder)
  }

  private replaced(folder: string): boolean {
    return identityOf(folder) !== this.open.get(folder)?.identity
  }

  private lose(folder: string) {
    this.drop(folder)
    this.events.lost(folder)
  }

  private refused(folder: string, error: NodeJS.ErrnoException) {
    if (this.polled.has(folder)) return
    this.polled.add(folder)
    this.events.failed(folder, error)
  }
}

/** Numbers of files are used again, so its birth is part of what a folder is. */
function identityOf(folder: string): string | undefined {
  try {
    const stats = statSync(folder, { bigint: true })
    return stats.isDirectory() ? [stats.dev, stats.ino, stats.birthtimeNs].join(':') : undefined
  } catch {
    return undefined
  }
}
