/** Which files hot reload watches: those of the trees, all modules that were imported, and what cannot be reloaded. */

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Context, sleep } from '@cambium/core'
import { type FileChange, type FileWatch, watchFiles } from '@cambium/store/watch'
import { requiredEdges } from '../modules/require-cache.ts'
import type { ModuleTracking } from '../modules/tracking.ts'
import type { TreeLoader } from '../tree/tree-loader.ts'
import { refusedFiles, rowFile } from './row-file.ts'

export interface HotTree {
  /** Tells one tree from another, however many rows have the plugin. */
  readonly root: Context
  readonly loader: TreeLoader
  readonly log: Context['logger']
  readonly debounceMs: number
}

/** Times of files come from a clock that may be a tick or two behind. */
const TICK_MS = 10
/** What is written on and on is read as it is. */
const REST_MS = 5000

export class HotWatch {
  private readonly trees: ReadonlySet<HotTree>
  private readonly tracking: ModuleTracking
  private readonly changed: (changes: readonly FileChange[]) => void
  private readonly framework: readonly string[]
  private current: { readonly files: FileWatch; readonly settleMs: number } | undefined
  private watched = new Set<string>()
  private due = false
  /** When each file was last told of. */
  private readonly told = new Map<string, number>()
  /** Files that are empty or gone, as far as that has been told. */
  private readonly lacking = new Set<string>()
  /** What was imported before is older. */
  private importsSince: number

  constructor(
    trees: ReadonlySet<HotTree>,
    tracking: ModuleTracking,
    changed: (changes: readonly FileChange[]) => void,
  ) {
    this.trees = trees
    this.tracking = tracking
    this.changed = changes => {
      for (const { path } of changes) {
        this.told.set(path, Date.now())
        this.note(path)
      }
      changed(changes)
    }
    this.importsSince = tracking.installedAt
    this.framework = frameworkFiles(tracking.framework)
  }

  /** From now on files are imported anew. */
  begin(): void {
    this.importsSince = Date.now()
  }

  /** Resolves when no tree's own file has just been written to, or is being written: what is read of them is whole then. */
  async rest(): Promise<void> {
    const end = performance.now() + REST_MS
    while (performance.now() < end && this.isBeingWritten()) await sleep(TICK_MS)
  }

  private isBeingWritten(): boolean {
    const files = [...this.trees].flatMap(({ loader }) => loader.files)
    const restMs = (this.current?.settleMs ?? 0) - TICK_MS
    return files.some(file => {
      const { mtimeMs = 0 } = statSync(file, { throwIfNoEntry: false }) ?? {}
      const ageMs = Date.now() - mtimeMs
      return (ageMs >= 0 && ageMs < restMs) || (isLacking(file) && !this.lacking.has(file))
    })
  }

  /** What is empty or gone, and has not been told as such. */
  missed(): string[] {
    return [...this.watched].filter(file => isLacking(file) && !this.lacking.has(file))
  }

  /** What is missed now, or was `before`, is told when it is there again, also when it is as before. */
  doubt(before: readonly string[]): void {
    this.current?.files.doubt([...before, ...this.missed()])
  }

  private note(file: string): void {
    if (isLacking(file)) this.lacking.add(file)
    else this.lacking.delete(file)
  }

  /** Soon looks what there is to watch now. */
  refresh(): void {
    if (this.due) return
    this.due = true
    setImmediate(() => this.update())
  }

  update(): void {
    this.due = false
    if (this.trees.size) this.watchAll()
    else this.close()
  }

  private watchAll(): void {
    const files = this.files()
    const before = this.watched
    this.watched = new Set(files)
    this.watching().update(files)
    for (const file of files) if (!before.has(file)) this.note(file)
    // What was saved after its import and before it was watched is not what is loaded.
    const late = files.filter(file => !before.has(file) && this.savedSince(file))
    if (late.length) this.changed(late.map(path => ({ path, kind: 'changed' })))
  }

  private close(): void {
    this.current?.files.close()
    this.current = undefined
    this.watched.clear()
  }

  private watching(): FileWatch {
    const settleMs = Math.max(...[...this.trees].map(({ debounceMs }) => debounceMs))
    if (this.current?.settleMs !== settleMs) {
      this.current?.files.close()
      const files = watchFiles(this.changed, { settleMs, warn: error => this.warn(error.message) })
      this.current = { files, settleMs }
    }
    return this.current.files
  }

  private warn(text: string): void {
    const [tree] = this.trees
    tree?.log.warn(text)
  }

  private files(): string[] {
    const { graph } = this.tracking
    const modules = new Set(graph.files())
    for (const edge of requiredEdges(file => this.tracking.tracks(file)))
      for (const file of edge) if (this.tracking.tracks(file)) modules.add(file)
    const paths = new Set(this.framework)
    for (const { loader } of this.trees) {
      for (const file of loader.files) paths.add(file)
      const named = [...loader.rows().flatMap(row => rowFile(row) ?? []), ...refusedFiles(loader)]
      for (const file of named) if (this.tracking.tracks(file)) modules.add(file)
    }
    for (const file of modules) paths.add(fileURLToPath(file))
    return [...paths]
  }

  private savedSince(path: string): boolean {
    // When a file was required nobody knows: perhaps just when imports began.
    const loadedAt = this.tracking.graph.loadedAt(pathToFileURL(path).href) ?? this.importsSince
    const { mtimeMs = 0 } = statSync(path, { throwIfNoEntry: false }) ?? {}
    return mtimeMs + TICK_MS > loadedAt && mtimeMs > (this.told.get(path) ?? 0)
  }
}

/** The sources of what the process runs on: somebody who changes them is told that this is not enough. */
function frameworkFiles(urls: readonly string[]): string[] {
  return urls.flatMap(url => {
    const path = fileURLToPath(url)
    if (!path.endsWith('/')) return path
    const sources = join(path, 'src')
    if (!statSync(sources, { throwIfNoEntry: false })) return []
    return readdirSync(sources, { recursive: true, encoding: 'utf8' })
      .filter(name => /\.[cm]?[jt]s$/.test(name))
      .map(name => join(sources, name))
  })
}

function isLacking(path: string): boolean {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    return !stats || (stats.isFile() && stats.size === 0)
  } catch {
    // Whoever reads it is told.
    return false
  }
}
