/** What one folder's files were: states that were kept, and the way back to them. */

import { existsSync, rmdirSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { errorMessage } from '@cambium/core'
import type { FileSystem } from '../fs.ts'
import type { ProcessHost } from '../process.ts'
import { type FileState, NONE } from './file-state.ts'
import { isReached, look, lookUp } from './look.ts'
import { ObjectStore } from './objects.ts'
import { type PutBackOptions, type PutBackReport, type PutBackTarget, putBack } from './put-back.ts'
import { type Changes, TreeWatch, type Watching, type WatchLimits } from './tree-watch.ts'

export interface HistoryLimits extends WatchLimits {
  readonly maxTotalBytes: number
}

export interface HistoryHost {
  readonly fs: Pick<FileSystem, 'lock'>
  readonly process: ProcessHost
}

export class FileHistory {
  /** Where contents are kept. */
  readonly folder: string
  /** The real path of the folder that paths are relative to. */
  readonly root: string
  private readonly objects: ObjectStore
  private readonly watch: TreeWatch
  private readonly host: HistoryHost
  private readonly limits: HistoryLimits

  /** Touches no disk. */
  constructor(folder: string, root: string, host: HistoryHost, limits: HistoryLimits, leaveOut: readonly string[]) {
    this.folder = folder
    this.root = root
    this.host = host
    this.limits = limits
    this.objects = new ObjectStore(join(folder, 'objects'))
    const outside = new Set(leaveOut.map(path => this.name(path)))
    this.watch = new TreeWatch({ root, folder, leaveOut: outside, objects: this.objects, host: host.process, limits })
  }

  /** How a real path is named here: relative where it lies in the folder. */
  name(path: string): string {
    const inside = relative(this.root, path)
    return inside && inside !== '..' && !inside.startsWith(`..${sep}`) ? inside : path
  }

  /** What a path is now, behind a link nothing; its content is not kept. */
  state(path: string): FileState {
    const base = this.base(path)
    const full = join(base, path)
    return isReached(base, full) ? look(full, this.limits.maxFileBytes).state : NONE
  }

  /** The same, and its content is kept. Never throws: what could not be kept is `unknown`, with the reason. */
  async keep(path: string): Promise<FileState> {
    const { state, bytes } = look(join(this.base(path), path), this.limits.maxFileBytes)
    if (state.kind !== 'file' || !bytes) return state
    try {
      await this.objects.put(bytes, state.hash)
      return state
    } catch (error) {
      return { kind: 'unknown', why: `its content could not be kept: ${errorMessage(error)}` }
    }
  }

  /** The path, and before it the folders above it, as far as they are not there. */
  missing(path: string): string[] {
    const base = this.base(path)
    const found: string[] = []
    for (let at = path; at && at !== '.' && at !== sep && !lookUp(join(base, at)); at = join(at, '..'))
      found.unshift(at)
    return found
  }

  /** Sees the whole folder before something unknown happens to it. @throws when `signal` aborts, or when nothing can be kept */
  begin(signal?: AbortSignal): Promise<Watching> {
    return this.watch.begin(signal)
  }

  /** The snapshot that {@link changes} compares with. */
  get snapshot(): string | undefined {
    return this.watch.id
  }

  /** Takes up a snapshot that an earlier process had made. False when it is gone. */
  recall(id: string): Promise<boolean> {
    return this.watch.recall(id)
  }

  /** What is different since the last look; states before are kept for paths that `needs` one. */
  changes(needs: (path: string) => boolean): Promise<Changes> {
    return this.watch.changes(needs)
  }

  /** Puts paths back to what they were. Never throws once it has begun: the report tells what was not done. */
  restore(targets: readonly PutBackTarget[], options: PutBackOptions = {}): Promise<PutBackReport> {
    const { root, objects, host, limits } = this
    const lock = <T>(path: string, work: () => Promise<T>) => host.fs.lock(path, work)
    return putBack({ root, objects, maxFileBytes: limits.maxFileBytes, lock }, targets, options)
  }

  /** Whether anything was ever kept. */
  exists(): boolean {
    return existsSync(this.folder)
  }

  has(hash: string): boolean {
    return this.objects.has(hash)
  }

  /** Takes contents over from another history; from then on that one may go. */
  adopt(from: FileHistory, hashes: Iterable<string>): void {
    this.objects.adopt(from.objects, hashes)
  }

  /** Lets contents go, the first of `oldest` first, until all together are within the bound. Returns how many went. */
  trim(oldest: () => Iterable<string>): number {
    const { maxTotalBytes } = this.limits
    if (this.objects.bytes() <= maxTotalBytes) return 0
    let dropped = 0
    for (const hash of oldest()) {
      // Some room is made at once, so that not every turn has to look.
      if (this.objects.bytes() <= maxTotalBytes * ROOM) break
      this.objects.drop(hash)
      dropped++
    }
    return dropped
  }

  /** Gives up what only lives as long as its session is open: the copy of the tree. What was kept stays. */
  close(): void {
    try {
      this.watch.close()
      rmdirSync(this.folder)
    } catch {
      // It holds contents, was never made, or cannot be reached: it goes with its session.
    }
  }

  private base(path: string): string {
    return path.startsWith(sep) ? sep : this.root
  }
}

const ROOM = 0.8
