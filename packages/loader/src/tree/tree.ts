/** The tree: its rows, and the queue of transactions that change them. */

import {
  type Context,
  deadline,
  errorMessage,
  HarnessError,
  isHarnessError,
  notify,
  rowOf,
  stateOf,
} from '@cambium/core'
import type { Request } from '../edit/alter.ts'
import type { Row } from '../file/row.ts'
import { type ChangeRequest, changeTree, prepare } from './change.ts'
import { KeptState } from './kept-state.ts'
import { type Mount, stateOfMount, waitsOf } from './mount.ts'
import { Mounts, treeDisposed } from './mounts.ts'
import type { PrepareOptions } from './prepare.ts'
import type { TreeReading } from './reading.ts'
import type { RowState } from './row-state.ts'
import type { ChangeCause, ReloadOptions, TreeChange } from './tree-change.ts'
import { TreeLoader } from './tree-loader.ts'

export interface TreeOptions extends PrepareOptions {
  /** How the tree is called in messages. */
  label?: string
  /** Where its rows come from, so that they can be read again. */
  reading?: TreeReading
  /** How long rows that are to be dropped may go on with work of theirs, a running tool call, say; in milliseconds. */
  drainMs?: number
  /**
   * Keeps rows that fail, wait, or do not finish starting within the bound, and refuses nothing on their account: for
   * a program that shows how a tree does.
   */
  keepFailures?: boolean
}

export type ApplyOptions = Pick<ReloadOptions, 'remount'>

/** A tree on `ctx`, still empty. One context carries one tree: it provides `ctx.loader`. */
export function createTree(ctx: Context, options: TreeOptions = {}): Tree {
  return new Tree(ctx, options)
}

interface NextReload {
  readonly remount: Set<string>
  readonly done: Promise<TreeChange>
}

/** The rows that wait for a change of the tree. */
class Askers {
  readonly rows = new Set<string>()
  private readonly counts = new Map<string, number>()

  add(row: string, work: Promise<unknown>): void {
    this.count(row, 1)
    const done = () => this.count(row, -1)
    work.then(done, done)
  }

  private count(row: string, by: number): void {
    const count = (this.counts.get(row) ?? 0) + by
    this.counts.set(row, count)
    if (count) this.rows.add(row)
    else this.rows.delete(row)
  }
}

const DRAIN_MS = 30_000
/** How long a plugin may wait in its start for a change that has to wait for that start. */
const ASK_MS = 5_000

export class Tree {
  readonly ctx: Context
  private readonly options: TreeOptions
  private readonly mounts: Mounts
  private readonly state = new KeptState()
  private readonly askers = new Askers()
  private listed: readonly Row[] = []
  private refused: readonly Row[] = []
  private queue: Promise<unknown> = Promise.resolve()
  private nextReload: NextReload | undefined
  private started = false
  private ended = false
  private readonly ending = new AbortController()

  constructor(ctx: Context, options: TreeOptions) {
    this.ctx = ctx
    this.options = options
    const loader = new TreeLoader(ctx, {
      entries: () => this.mounts.list().map(mount => mount.entry),
      rows: () => this.rows(),
      files: () => options.reading?.files ?? [],
      refused: () => this.refused,
      idle: async () => void (await this.queue),
      reload: (caller, wanted) => this.ask(caller, () => this.reload(wanted)),
      create: (caller, row, given) => this.alter(caller, { what: 'create', row, options: given }),
      update: (caller, id, changes, given) => this.alter(caller, { what: 'update', id, changes, options: given }),
      remove: (caller, id, given) => this.alter(caller, { what: 'remove', id, options: given }),
      keep: (row, key, create) => this.state.keep(row, key, create),
    })
    this.mounts = new Mounts(ctx, loader, options)
  }

  /**
   * Makes the tree what `rows` say; rows that did not change keep running. The first call is the start: after it no
   * required row may fail or wait. Later, waiting is a state like any other.
   *
   * @throws HarnessError when a mistake was found, or a plugin failed; the tree then is what it was before.
   */
  apply(rows: readonly Row[], options: ApplyOptions = {}): Promise<TreeChange> {
    return this.transact('apply', () => this.change(flatten(rows), options))
  }

  /** Reads the tree's files again and applies what they say. @throws as {@link apply}, and for mistakes in the files */
  reload({ remount = new Set(), giveWay }: ReloadOptions = {}): Promise<TreeChange> {
    // One that has not begun yet reads what is there then: it serves whoever asks until then.
    if (this.nextReload) {
      for (const id of remount) this.nextReload.remount.add(id)
      return this.nextReload.done
    }
    const wanted = { remount: new Set(remount), giveWay }
    const done = this.transact('reload', async () => {
      this.nextReload = undefined
      const { reading } = this.options
      const file = reading?.read()
      const rows = file ? flatten(file.rows) : this.listed
      // Until all of it has gone well.
      this.refused = rows
      const change = await this.change(rows, wanted)
      this.refused = []
      if (file) reading?.accept(file)
      return change
    })
    this.nextReload = { ...wanted, done }
    return done
  }

  /** Resolves, imports and validates `rows` without mounting any. @throws HarnessError with every mistake found. */
  check(rows: readonly Row[]): Promise<void> {
    const { mounts, ending } = this
    const active = flatten(rows).filter(enabled)
    return this.enqueue(async () => void (await prepare(mounts, active, () => undefined, ending.signal)))
  }

  /** Every row that was last applied, disabled ones too, in the order of the file. */
  rows(): RowState[] {
    const provided = this.mounts.provided()
    return this.listed.map(row => {
      const mount = this.mounts.byId.get(row.id)
      const state = mount ? stateOfMount(mount) : 'disabled'
      return {
        row,
        state,
        waits: mount ? waitsOf(mount) : [],
        error: state === 'failed' ? mount?.failure : undefined,
        url: mount?.plan.url,
        declares: mount?.plan.loaded?.provide ?? [],
        provides: provided.get(row.id) ?? [],
        fiber: mount?.fiber,
        importMs: mount?.plan.importMs,
        startMs: mount?.startMs,
      }
    })
  }

  /** Resolves when no plugin is loading or unloading. @throws `TREE_SETTLE_TIMEOUT` when that takes too long. */
  settled(): Promise<void> {
    return this.mounts.settled()
  }

  /** Drops every row, the last one first. The tree cannot be used after it. Idempotent. */
  dispose(): Promise<void> {
    this.ending.abort()
    return this.enqueue(async () => {
      this.ended = true
      await this.mounts.drop(this.mounts.list())
      this.listed = []
    })
  }

  private alter(caller: Context, request: Request): Promise<TreeChange> {
    return this.ask(caller, asker =>
      this.transact(request.what, async () => {
        const { reading } = this.options
        if (!reading) {
          throw new HarnessError('LOADER_CHANGE', 'the rows of this tree were not read: they are changed by `apply`', {
            where: this.mounts.label,
            fix: 'mount the tree with bootTree() or loadTree()',
          })
        }
        // Loaded with the first such change: most trees never see one.
        const { alter } = await import('../edit/alter.ts')
        return alter(reading, request, asker, (rows, commit) => this.change(flatten(rows), { commit }))
      }),
    )
  }

  /** A plugin that waits in its start for what has to wait for that start is told so. */
  private async ask<T>(caller: Context, request: (asker: string | undefined) => Promise<T>): Promise<T> {
    const id = rowOf(caller)?.id
    const mount = this.mounts.byId.get(id ?? '')
    const work = request(id)
    if (id !== undefined) this.askers.add(id, work)
    // Also a plugin inside of the row's.
    if (!mount?.starting || stateOf(caller.fiber) !== 'loading') return work
    const { signal, clear } = deadline(ASK_MS)
    const late = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(waitsForItself(mount)), { once: true })
    })
    try {
      return await Promise.race([work, late])
    } finally {
      clear()
    }
  }

  private async change(rows: readonly Row[], wanted: Partial<ChangeRequest>): Promise<TreeChange> {
    if (this.ended) throw treeDisposed(this.mounts.label)
    const change = await changeTree(this.mounts, this.state, rows, {
      remount: new Set(),
      askers: this.askers.rows,
      ...wanted,
      start: !this.started,
      drainMs: this.options.drainMs ?? DRAIN_MS,
      ending: this.ending.signal,
    })
    this.listed = rows
    this.started = true
    return change
  }

  private transact(cause: ChangeCause, work: () => Promise<TreeChange>): Promise<TreeChange> {
    return this.enqueue(async () => {
      try {
        if (!this.started && cause !== 'apply') throw notStarted(this.mounts.label)
        const change = await work()
        notify(this.ctx, undefined, 'loader/changed', change)
        return change
      } catch (error) {
        const refusal = isHarnessError(error)
          ? error
          : new HarnessError('TREE_FAILED', errorMessage(error), { cause: error })
        if (this.started && !this.ended) notify(this.ctx, undefined, 'loader/refused', refusal, cause)
        throw refusal
      }
    })
  }

  private enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.queue.then(work)
    this.queue = result.catch(() => {})
    return result
  }
}

function notStarted(label: string): HarnessError {
  return new HarnessError('TREE_NOT_STARTED', 'the tree does not stand, so there is nothing to change', {
    where: label,
    fix: 'mount it first; where its start failed, correct that and start it again',
  })
}

function waitsForItself({ plan: { row } }: Mount): HarnessError {
  return new HarnessError(
    'TREE_BUSY',
    `${row.id} waits in its start for a change of the tree, which waits for that start`,
    {
      where: `${row.at} (row ${row.id})`,
      fix: 'do not await ctx.loader in `apply`: the change is made once the row has started',
    },
  )
}

const enabled = (row: Row) => !row.disabled

function flatten(rows: readonly Row[]): Row[] {
  return rows.flatMap(row => [row, ...flatten(row.children)])
}
