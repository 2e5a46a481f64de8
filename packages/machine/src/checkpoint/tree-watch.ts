/** Knows what a tree was before a command, and says what is different after it. */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { errorMessage, Pace } from '@cambium/core'
import type { ProcessHost } from '../process.ts'
import { cleanFiles } from './clean-files.ts'
import { type Change, type FileState, NONE } from './file-state.ts'
import { blobId, type CachedFile, GitReader, workTreeOf } from './git.ts'
import { keepContents } from './kept-contents.ts'
import { type Facts, inodeOf, linkTarget, look, mebibytes, type Read, sameFacts } from './look.ts'
import { Mirror } from './mirror.ts'
import type { ObjectStore } from './objects.ts'
import { listTree, type TreeLimits, type TreeListing } from './tree.ts'
import { folderChanges, foldersAfter, inTree } from './tree-folders.ts'
import {
  type Entry,
  entryOf,
  loadIndex,
  newIndexId,
  removeIndex,
  saveIndex,
  type TreeIndex,
  wasAbsent,
} from './tree-index.ts'

export interface WatchLimits extends TreeLimits {
  /** Larger files are seen to change, and cannot be put back. */
  readonly maxFileBytes: number
  /** Of all contents that are copied before a command. */
  readonly maxSnapshotBytes: number
  /** A tree of more content than this leaves what is clean in git to git. */
  readonly copyBytes: number
  /** Folders that are left out where no repository says what to ignore. */
  readonly skip: readonly string[]
}

export interface Watching {
  /** Names what was seen, for {@link TreeWatch.recall}. */
  readonly id: string
  readonly files: number
  /** Copied for this snapshot. */
  readonly copiedBytes: number
  /** In words, what was not looked at. */
  readonly notes: readonly string[]
  /** In words, how many of the files cannot be put back, and why. */
  readonly unkept: readonly string[]
}

export interface Changes {
  readonly changes: Change[]
  /** In words, what was not looked at. */
  readonly notes: readonly string[]
}

const SLICE_MS = 12
/** How much of the mirror may be of former versions before it is made anew. */
const STALE_BYTES = 64 << 20

export interface WatchedTree {
  readonly root: string
  /** For what is copied of it. */
  readonly folder: string
  /** Paths in it that are no part of it. */
  readonly leaveOut: ReadonlySet<string>
  readonly objects: ObjectStore
  readonly host: ProcessHost
  readonly limits: WatchLimits
}

export class TreeWatch {
  private readonly tree: WatchedTree
  private readonly indexPath: string
  private readonly mirror: Mirror
  private index: TreeIndex | undefined

  constructor(tree: WatchedTree) {
    this.tree = tree
    this.indexPath = join(tree.folder, 'index')
    this.mirror = new Mirror(join(tree.folder, 'mirror'))
  }

  /** Sees the whole tree, and keeps what it takes to put it back. @throws when `signal` aborts, or when nothing can be kept */
  async begin(signal?: AbortSignal): Promise<Watching> {
    const live = [...(this.index?.files.values() ?? [])].reduce((sum, { place }) => sum + (place?.[1] ?? 0), 0)
    if (!this.index || this.mirror.size > 2 * live + STALE_BYTES) this.close()
    const cold = !this.index
    const startedAt = performance.now()
    const git = workTreeOf(this.tree.root) ? new GitReader(this.tree.host, this.tree.root, signal) : undefined
    const notes: string[] = []
    const failed = (error: unknown) => {
      signal?.throwIfAborted()
      notes.push(`git does not tell about the folder (${errorMessage(error)})`)
      return undefined
    }
    const cached = cold && git ? git.cached().catch(failed) : undefined
    const [listing, known] = await Promise.all([this.list(git, failed, signal), cached])
    const forced = this.addForced(listing, known)
    const clean =
      known && git ? await cleanFiles(listing.files, known, git, this.tree.limits.copyBytes).catch(failed) : undefined
    const files = new Map<string, Entry>()
    const sizeBefore = this.mirror.size
    const pace = new Pace(signal, SLICE_MS)
    for (const [path, facts] of listing.files) {
      await pace.rest()
      const entry = this.seen(path, facts, clean, performance.now() - startedAt, this.mirror.size - sizeBefore)
      files.set(path, forced.has(path) ? { ...entry, forced: true } : entry)
    }
    const copiedBytes = this.mirror.size - sizeBefore
    mkdirSync(this.tree.folder, { recursive: true, mode: 0o700 })
    this.mirror.flush()
    const folders = new Map([...listing.folders].map(([path, { mode }]) => [path, mode]))
    this.index = { id: newIndexId(), files, folders, skipped: listing.skipped }
    await saveIndex(this.indexPath, this.index)
    return {
      id: this.index.id,
      files: files.size,
      copiedBytes,
      notes: [...notes, ...listing.notes],
      unkept: reasons(files),
    }
  }

  /** Goes on from a snapshot of an earlier process. False when it is not the last one, or gone. */
  async recall(id: string): Promise<boolean> {
    if (this.index?.id === id) return true
    const stored = await loadIndex(this.indexPath)
    if (stored?.id !== id) return false
    this.index = stored
    return true
  }

  get id(): string | undefined {
    return this.index?.id
  }

  /**
   * What is different since the last look. States before are kept for the paths that `needs` one. Not to be cancelled:
   * what a cancelled command has done matters as much.
   */
  async changes(needs: (path: string) => boolean): Promise<Changes> {
    const before = this.index
    if (!before) return { changes: [], notes: [] }
    const git = workTreeOf(this.tree.root) ? new GitReader(this.tree.host, this.tree.root) : undefined
    const listing = await this.list(git, () => undefined)
    this.addForced(listing)
    const files = new Map(before.files)
    const found: { path: string; old: Entry | undefined; after: FileState }[] = []
    const pace = new Pace(undefined, SLICE_MS)
    for (const path of new Set([...before.files.keys(), ...listing.files.keys()])) {
      await pace.rest()
      const old = before.files.get(path)
      const facts = listing.files.get(path) ?? inTree(this.tree.root, path)
      if (old && facts && !old.racy && sameFacts(facts, old.facts)) continue
      if (!old && !before.folders.has(path) && !wasAbsent(before, path)) {
        files.set(path, { ...entryOf(facts!, Date.now()), why: 'it was ignored, or not seen, before' })
        continue
      }
      const seenAt = Date.now()
      const read = facts ? look(join(this.tree.root, path), this.tree.limits.maxFileBytes) : { state: NONE }
      const entry = read.facts && entryAfter(read, seenAt)
      if (old && entry && isUnchanged(old, read)) {
        files.set(path, { ...withoutRace(old), facts: entry.facts, ...(entry.racy ? { racy: true } : {}) })
        continue
      }
      if (entry) files.set(path, entry)
      else files.delete(path)
      // A folder in the place of a file is told with the folders, too, which know what it was before.
      found.push({ path, old, after: read.state })
    }
    const needed = found.flatMap(({ path, old }) => (old && needs(path) ? [[path, old] as const] : []))
    // The folder itself may be what the command has removed.
    const reader = () => new GitReader(this.tree.host, workTreeOf(this.tree.root) ?? this.tree.root)
    const olds = await keepContents(needed, { mirror: this.mirror, git: reader }, this.tree.objects)
    const told = found.map(({ path, old, after }): Change => {
      const was = before.folders.get(path)
      const kept = old ? olds.get(path) : was === undefined ? NONE : ({ kind: 'folder', mode: was } as const)
      return { path, ...(kept && needs(path) ? { before: kept } : {}), after }
    })
    const paths = new Set(found.map(({ path }) => path))
    told.push(...folderChanges(before, listing, this.tree.root).filter(({ path }) => !paths.has(path)))
    this.index = { ...before, files, folders: foldersAfter(before, listing, this.tree.root), skipped: listing.skipped }
    return { changes: told, notes: listing.notes }
  }

  /** Forgets the tree and what was copied of it. */
  close(): void {
    this.index = undefined
    removeIndex(this.indexPath)
    this.mirror.remove()
  }

  private async list(
    git: GitReader | undefined,
    failed: (error: unknown) => undefined,
    signal?: AbortSignal,
  ): Promise<TreeListing> {
    const ignored = await git?.ignored().catch(failed)
    const skip = new Set(this.tree.limits.skip)
    const kept = ignored
      ? (path: string) => !ignored.has(path)
      : (_: string, name: string, folder: boolean) => !(folder && skip.has(name))
    const { leaveOut } = this.tree
    const keeps: typeof kept = (path, name, folder) =>
      name !== '.git' && !leaveOut.has(path) && kept(path, name, folder)
    return listTree(this.tree.root, keeps, this.tree.limits, signal)
  }

  /** What is ignored and in the repository's index all the same: told by git once, by our own index from then on. */
  private addForced(listing: TreeListing, known?: ReadonlyMap<string, CachedFile>): Set<string> {
    const paths = known
      ? [...known.keys()].filter(path => !listing.files.has(path))
      : [...(this.index?.files ?? [])].flatMap(([path, entry]) => (entry.forced ? [path] : []))
    const added = new Set<string>()
    for (const path of paths) {
      const facts = listing.files.size < this.tree.limits.maxFiles ? inTree(this.tree.root, path) : undefined
      if (facts?.kind !== 'file') continue
      listing.files.set(path, facts)
      added.add(path)
    }
    return added
  }

  private seen(path: string, facts: Facts, clean: Map<string, string> | undefined, ms: number, copied: number): Entry {
    const old = this.index?.files.get(path)
    if (old && !old.racy && sameFacts(old.facts, facts) && (old.place || old.blob || old.target !== undefined))
      return old
    const seenAt = Date.now()
    const entry = entryOf(facts, seenAt)
    const full = join(this.tree.root, path)
    try {
      if (facts.kind === 'link') return { ...entry, target: linkTarget(full) }
    } catch {
      return { ...entry, why: 'it was gone before it could be read' }
    }
    const { maxFileBytes, maxSnapshotBytes, maxMs } = this.tree.limits
    const blob = clean?.get(path)
    if (blob) return { ...entry, blob }
    if (facts.size > maxFileBytes) return { ...entry, why: `larger than ${mebibytes(maxFileBytes)}` }
    if (copied + facts.size > maxSnapshotBytes)
      return { ...entry, why: `beyond the first ${mebibytes(maxSnapshotBytes)}` }
    if (ms > maxMs) return { ...entry, why: `not read within ${maxMs} ms` }
    const { state, bytes, facts: found } = look(full, maxFileBytes)
    if (state.kind !== 'file' || !bytes || !found) {
      return { ...entry, why: state.kind === 'unknown' ? state.why : 'it was gone before it could be read' }
    }
    // The same content as before, of which only the facts are new.
    const place = old?.place && old.hash === state.hash ? old.place : this.mirror.append(bytes)
    return { ...entryOf(found, seenAt), hash: state.hash, place }
  }
}

function entryAfter({ state, facts }: Read, seenAt: number): Entry | undefined {
  if (!facts || state.kind === 'none' || state.kind === 'folder') return undefined
  const entry = entryOf(facts, seenAt)
  if (state.kind === 'link') return { ...entry, target: state.target }
  return state.kind === 'file' ? { ...entry, hash: state.hash } : { ...entry, why: state.why }
}

function withoutRace({ racy: _, ...entry }: Entry): Entry {
  return entry
}

/** Only the facts are other ones. A file that has got another name is told all the same: it may change under that. */
function isUnchanged(old: Entry, { state, bytes }: Read): boolean {
  if (state.kind === 'link') return old.target === state.target
  if (state.kind !== 'file' || old.facts.mode !== state.mode || old.facts.size !== state.size) return false
  if (state.inode !== undefined && state.inode !== inodeOf(old.facts).inode) return false
  if (old.hash) return old.hash === state.hash
  return !!old.blob && !!bytes && blobId(bytes, old.blob.length) === old.blob
}

function reasons(files: ReadonlyMap<string, Entry>): string[] {
  const counts = new Map<string, number>()
  for (const { why } of files.values()) if (why) counts.set(why, (counts.get(why) ?? 0) + 1)
  return [...counts].map(([why, count]) => `${count} ${count === 1 ? 'file' : 'files'} cannot be put back: ${why}`)
}
