/** Follows paths, through links and folders that come and go, and says when something on the way happened. */

import { join } from 'node:path'
import { FolderWatches } from './folders.ts'
import { type Step, stepsOf, telling } from './steps.ts'

export interface Trail {
  /** Absolute. */
  readonly path: string
  /** Kept by `Trails`: the names that it goes through. */
  steps: readonly Step[]
}

export interface TrailEvents<T extends Trail> {
  readonly touched: (trail: T) => void
  /** A folder is there, but cannot be watched. */
  readonly failed: (folder: string, error: NodeJS.ErrnoException) => void
}

/** A path that goes on changing while it is looked at is left to the next look. */
const MAX_ROUNDS = 4
/** Names that such file systems take for the same are the same here. */
const folded = ['win32', 'darwin'].includes(process.platform)
  ? (name: string) => name.normalize('NFC').toLowerCase()
  : (name: string) => name

export class Trails<T extends Trail> {
  /** Who is concerned by a name in a folder. */
  private readonly names = new Map<string, Map<string, Set<T>>>()
  /** Those whose path may lead elsewhere by now. */
  private readonly astray = new Set<T>()
  private readonly folders: FolderWatches
  private readonly events: TrailEvents<T>

  constructor(events: TrailEvents<T>, persistent: boolean) {
    this.events = events
    this.folders = new FolderWatches(
      {
        event: (folder, name, entry) => this.heard(folder, name, entry),
        lost: folder => this.lost(folder),
        failed: (folder, error) => this.events.failed(folder, error),
      },
      persistent,
    )
  }

  /** True when some folder cannot be watched. */
  get polled(): boolean {
    return this.folders.polled.size > 0
  }

  /** Watches the names that the path goes through now. */
  follow(trail: T) {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const former = telling(trail.steps)
      trail.steps = stepsOf(trail.path)
      const steps = telling(trail.steps)
      for (const step of former) this.leave(trail, step)
      for (const step of steps) this.join(trail, step)
      this.closeUnused(former)
      const opened = steps.map(({ folder }) => this.folders.ensure(folder))
      // The path may have changed before the watchers were there.
      if (!opened.includes(true)) return
    }
  }

  remove(trail: T) {
    this.astray.delete(trail)
    const steps = telling(trail.steps)
    for (const step of steps) this.leave(trail, step)
    this.closeUnused(steps)
  }

  /** Finds folders that were replaced without a word. */
  recheck() {
    this.folders.loseReplaced()
  }

  close() {
    this.names.clear()
    this.astray.clear()
    this.folders.close()
  }

  private join(trail: T, { folder, name }: Step) {
    const names = this.names.get(folder) ?? new Map<string, Set<T>>()
    this.names.set(folder, names)
    const key = folded(name)
    names.set(key, (names.get(key) ?? new Set<T>()).add(trail))
  }

  private leave(trail: T, { folder, name }: Step) {
    const names = this.names.get(folder)
    const set = names?.get(folded(name))
    set?.delete(trail)
    if (set && !set.size) names!.delete(folded(name))
  }

  private closeUnused(steps: readonly Step[]) {
    for (const { folder } of steps) {
      if (this.names.get(folder)?.size) continue
      this.names.delete(folder)
      this.folders.drop(folder)
    }
  }

  private heard(folder: string, name: string, entry: boolean) {
    const concerned = this.names.get(folder)?.get(folded(name))
    if (!concerned) return
    for (const trail of concerned) this.touch(trail, entry)
    // Not every system tells a folder's watcher that the folder is gone.
    if (entry) this.folders.loseTree(join(folder, name))
  }

  private lost(folder: string) {
    for (const concerned of this.names.get(folder)?.values() ?? []) {
      for (const trail of concerned) this.touch(trail, true)
    }
  }

  private touch(trail: T, elsewhere: boolean) {
    this.events.touched(trail)
    if (!elsewhere) return
    // Soon, before more is written there; once, however many events there are.
    if (!this.astray.size) setImmediate(() => this.followAstray())
    this.astray.add(trail)
  }

  private followAstray() {
    const trails = [...this.astray]
    this.astray.clear()
    for (const trail of trails) this.follow(trail)
  }
}
