/** Reloads, in all trees of the process, the rows above files that changed. */

import { basename } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Context, errorMessage, HarnessError } from '@cambium/core'
import type { FileChange } from '@cambium/store/watch'
import { mistakesOf } from '../mistakes.ts'
import { trackModules } from '../modules/module.ts'
import { forgetRequired, requiredEdges, requiredModules } from '../modules/require-cache.ts'
import type { ModuleTracking } from '../modules/tracking.ts'
import { dependentsOf } from '../tree/dependents.ts'
import type { TreeChange } from '../tree/tree-change.ts'
import { type HotTree, HotWatch } from './hot-watch.ts'
import { mendedLine, refusedText, reloadedLine, restartLine } from './reload-report.ts'
import { forgetLinks, refusedFiles, rowFile } from './row-file.ts'

let shared: Promise<HotReload> | undefined

/** Modules are the process's, so their reload is as well: trees that share a file share its new version. */
export function hotReload(from: string): Promise<HotReload> {
  shared ??= trackModules(from).then(tracking => new HotReload(tracking))
  return shared
}

interface Target {
  readonly tree: HotTree
  readonly remount: ReadonlySet<string>
}

interface Outcome extends Target {
  readonly change?: TreeChange
  readonly mistakes?: readonly HarnessError[]
}

export class HotReload {
  private readonly trees = new Set<HotTree>()
  private readonly tracking: ModuleTracking
  private readonly watch: HotWatch
  private waiting: FileChange[] = []
  private running = false
  /** What the reload under way imports anew, and what tells it that a newer change waits. */
  private current: { readonly above: ReadonlySet<string>; readonly newer: AbortController } | undefined
  /** Changed modules that are not what runs, since their reload was refused, and which of them were to blame: none is a tree. */
  private readonly refused = new Map<string, ReadonlySet<string>>()
  /** Trees of which the last word was that their own files are not what runs. */
  private readonly wrong = new WeakSet<Context>()

  constructor(tracking: ModuleTracking) {
    this.tracking = tracking
    this.watch = new HotWatch(this.trees, tracking, changes => void this.changed(changes))
    tracking.listeners.add(() => this.look())
  }

  /** Watches for a tree; the undo ends it. */
  join(tree: HotTree): () => void {
    this.trees.add(tree)
    this.watch.update()
    return () => {
      this.trees.delete(tree)
      this.look()
    }
  }

  /** There may be other files to watch than before. */
  look(): void {
    if (this.trees.size) this.watch.refresh()
    else this.watch.update()
  }

  private distinct(): HotTree[] {
    return [...new Map([...this.trees].map(tree => [tree.root, tree])).values()]
  }

  private async changed(changes: readonly FileChange[]): Promise<void> {
    this.waiting.push(...changes)
    if (this.running) return this.giveWayTo(changes)
    this.running = true
    try {
      while (this.waiting.length) await this.reload(this.waiting.splice(0))
    } catch (error) {
      for (const { log } of this.trees) log.error(errorMessage(error))
    } finally {
      this.running = false
    }
  }

  /** A reload whose rows do not come to an end of their start is given up for what mends it. */
  private giveWayTo(changes: readonly FileChange[]): void {
    const { above, newer } = this.current ?? {}
    const concerned = changes.some(({ path }) => {
      const files = this.above([pathToFileURL(path).href])
      return [...files].some(file => above?.has(file)) || [...this.trees].some(tree => reads(tree, path))
    })
    if (concerned) newer?.abort()
  }

  private async reload(changes: readonly FileChange[]): Promise<void> {
    const since = performance.now()
    forgetLinks()
    // What is on its way was imported before, and is a row that can be reloaded only then.
    await Promise.all(this.distinct().map(({ loader }) => loader.idle()))
    await this.watch.rest()
    await this.tracking.flush()
    const paths = [...new Set(changes.map(({ path }) => path))]
    const files = paths.map(path => pathToFileURL(path).href).filter(file => this.canReload(file))
    const ownFiles = (tree: HotTree) => paths.filter(path => reads(tree, path))
    const edited = this.distinct().filter(tree => ownFiles(tree).length)
    const trees = new Set([...edited, ...this.refusing(this.above(files))])
    const tell = (outcomes: readonly Outcome[]) => {
      for (const { tree, change, mistakes } of outcomes) {
        const own = ownFiles(tree)
        const reason = paths.filter(path => own.includes(path) || files.includes(pathToFileURL(path).href))
        // A tree that ends meanwhile has nothing to say.
        if (mistakes?.some(({ code }) => code === 'TREE_DISPOSED')) continue
        if (mistakes) {
          tree.log.error(refusedText(reason, mistakes))
          if (own.length) this.wrong.add(tree.root)
          continue
        }
        const line = change && reloadedLine(reason, change, performance.now() - since)
        const mended = this.wrong.delete(tree.root) && own.length > 0
        if (line) tree.log.info(line)
        else if (mended) tree.log.info(mendedLine(own))
      }
    }
    const batch = this.batch(files)
    // Another config, or another row, may be what refused modules were waiting for. If not, the rest does not wait for them.
    const more = edited.length ? this.batch([...files, ...this.refused.keys()]) : batch
    const another = more.size > batch.size
    const missed = this.watch.missed()
    let outcomes = await this.attempt(more, trees, tried => {
      if (!another || !tried.some(refused)) tell(tried)
    })
    if (another && outcomes.some(refused)) outcomes = await this.attempt(batch, trees, tell)
    if (outcomes.some(outcome => refused(outcome) || failedRows(outcome.tree).size)) this.watch.doubt(missed)
    this.watch.update()
    this.waiting.push(...this.freed())
  }

  /** Modules that were refused for what no row has any longer. */
  private freed(): FileChange[] {
    return [...this.refused].flatMap(([file, guilty]) => {
      if (!guilty.size || guilty.has(file) || this.targets(this.above(guilty)).length) return []
      return { path: fileURLToPath(file), kind: 'changed' }
    })
  }

  /** Whether the file is a module whose change can be had; when only a restart brings it, that is said. */
  private canReload(file: string): boolean {
    if (this.tracking.framework.some(start => file.startsWith(start)))
      return this.restart(file, 'the process runs on it')
    const above = this.above([file])
    const [kept] = requiredModules(above)
    if (kept)
      return this.restart(file, `Node has one version only of what is required as an ES module, ${basename(kept)}`)
    if (above.size > 1 || this.tracking.graph.has(file)) return true
    return this.targets(above).length > 0 || this.refusing(above).length > 0
  }

  private restart(file: string, why: string): false {
    for (const { log } of this.trees) {
      log.warn(restartLine(fileURLToPath(file), why))
      break
    }
    return false
  }

  private above(files: Iterable<string>): Set<string> {
    return this.tracking.graph.above(
      files,
      requiredEdges(file => this.tracking.tracks(file)),
    )
  }

  /** The files, and those refused before that have to do with them: others may stay broken. */
  private batch(files: readonly string[]): Set<string> {
    const batch = new Set(files)
    for (let size = -1; size !== batch.size; ) {
      size = batch.size
      const above = this.above(batch)
      for (const [file, guilty] of this.refused) {
        const related = [...guilty].some(one => batch.has(one)) || [...this.above([file])].some(one => above.has(one))
        if (related) batch.add(file)
      }
    }
    return batch
  }

  /** Rows above the files, by tree. */
  private targets(above: ReadonlySet<string>): Target[] {
    return this.distinct().flatMap(tree => {
      const rows = tree.loader.rows().filter(row => above.has(rowFile(row) ?? ''))
      return rows.length ? { tree, remount: new Set(rows.map(({ row }) => row.id)) } : []
    })
  }

  /** Trees that would have other rows above the files than they have. */
  private refusing(above: ReadonlySet<string>): HotTree[] {
    return this.distinct().filter(({ loader }) => refusedFiles(loader).some(file => above.has(file)))
  }

  /** Reloads what stands above the files, and `trees` from their own files. */
  private async attempt(
    batch: ReadonlySet<string>,
    trees: ReadonlySet<HotTree>,
    tell: (outcomes: readonly Outcome[]) => void,
  ): Promise<readonly Outcome[]> {
    const above = this.above(batch)
    const targets = this.targets(above)
    const others = [...trees].filter(tree => !targets.some(target => target.tree === tree))
    this.watch.begin()
    const restore = forgetRequired(above)
    await this.tracking.begin(above)
    const newer = new AbortController()
    this.current = { above, newer }
    const reload = async (target: Target): Promise<Outcome> => {
      try {
        const change = await target.tree.loader.reload({ remount: target.remount, giveWay: newer.signal })
        return { ...target, change: withoutFailed(target.tree, change) }
      } catch (error) {
        return { ...target, mistakes: mistakesFrom(error) }
      }
    }
    const outcomes = await Promise.all([...targets, ...others.map(tree => ({ tree, remount: NOTHING }))].map(reload))
    this.current = undefined
    tell(outcomes)
    await this.settle(batch, outcomes.slice(0, targets.length), restore)
    return outcomes
  }

  /** The new versions are what runs if one tree took them; what another one refused is tried again with it. */
  private async settle(batch: ReadonlySet<string>, outcomes: readonly Outcome[], restore: () => void): Promise<void> {
    const refusals = outcomes.filter(refused)
    const taken = !refusals.length || refusals.length < outcomes.length
    if (!taken) restore()
    await this.tracking.end(taken ? 'commit' : 'discard')
    for (const file of batch) this.refused.delete(file)
    if (!refusals.length) return
    const guilty = new Set([...batch].filter(file => this.isToBlame(file, refusals)))
    // One that is mended does not wait for the others.
    for (const file of batch) this.refused.set(file, guilty.has(file) ? new Set([file]) : guilty)
  }

  /** Whether the mistakes are those of rows above the file, or of rows that restart with them. */
  private isToBlame(file: string, refusals: readonly Outcome[]): boolean {
    return this.targets(this.above([file])).some(({ tree, remount }) => {
      const { mistakes = [] } = refusals.find(refusal => refusal.tree === tree) ?? {}
      const blamed = mistakes.flatMap(({ where = '' }) => [...where.matchAll(/\(row ([^)]*)\)/g)].map(([, id]) => id!))
      if (!blamed.length) return false
      const restarting = dependentsOf(tree.root, remount)
      return blamed.some(id => remount.has(id) || restarting.has(id))
    })
  }
}

const refused = ({ mistakes }: Outcome): boolean => mistakes !== undefined

const reads = ({ loader }: HotTree, path: string) => loader.files.includes(path)

const NOTHING: ReadonlySet<string> = new Set()

/** A row that could not be started before is tried each time. */
function withoutFailed(tree: HotTree, change: TreeChange): TreeChange {
  const failed = failedRows(tree)
  return { ...change, remounted: change.remounted.filter(id => !failed.has(id)) }
}

function failedRows({ loader }: HotTree): Set<string> {
  return new Set(loader.rows().flatMap(({ row, state }) => (state === 'failed' ? row.id : [])))
}

function mistakesFrom(error: unknown): readonly HarnessError[] {
  const mistakes = mistakesOf(error)
  return mistakes.length ? mistakes : [new HarnessError('TREE_FAILED', errorMessage(error), { cause: error })]
}
