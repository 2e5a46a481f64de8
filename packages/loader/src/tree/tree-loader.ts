/**
 * `ctx.loader`: the rows of the tree, and their change while it runs. Every tree has it, so it needs no `inject`.
 *
 * Its events are declared below, each with its mode.
 */

import { type Context, type Fiber, HarnessError, type HarnessError as Refusal, rowOf, Service } from '@cambium/core'
import type { Row } from '../file/row.ts'
import type { RowEntry } from './identity.ts'
import type { RowState } from './row-state.ts'
import type { ChangeCause, ChangeOptions, CreateOptions, ReloadOptions, RowInput, TreeChange } from './tree-change.ts'

declare module 'cordis' {
  interface Context {
    loader: TreeLoader
  }
  interface Events {
    /** notify: a transaction is done, the start included. Its lists are empty when the files say the same as before. */
    'loader/changed'(change: TreeChange): void
    /** notify: a change was refused, and the tree is as before. `loader.files` may still have others than before. */
    'loader/refused'(error: Refusal, cause: ChangeCause): void
    /**
     * parallel, awaited for a bounded time: these rows are about to be dropped, or will restart because they inject what
     * those provide. Whoever has work of theirs under way resolves when it has ended; `signal` aborts when nobody waits
     * any longer. `askers` are the rows that have asked for a change by now: what they have under way may be waiting for it.
     */
    'loader/drain'(rows: ReadonlySet<string>, signal: AbortSignal, askers: ReadonlySet<string>): void | Promise<void>
  }
}

/** What `ctx.loader` asks of its tree. */
export interface LoaderHost {
  entries(): Iterable<RowEntry>
  rows(): RowState[]
  files(): readonly string[]
  refused(): readonly Row[]
  reload(caller: Context, options: ReloadOptions): Promise<TreeChange>
  create(caller: Context, row: RowInput, options: CreateOptions): Promise<TreeChange>
  update(caller: Context, id: string, changes: Partial<RowInput>, options: ChangeOptions): Promise<TreeChange>
  remove(caller: Context, id: string, options: ChangeOptions): Promise<TreeChange>
  idle(): Promise<void>
  keep<T>(row: string, key: string, create: () => T): T
}

export class TreeLoader extends Service {
  private readonly host: LoaderHost

  constructor(ctx: Context, host: LoaderHost) {
    super(ctx, 'loader')
    this.host = host
  }

  /** Every row of the tree, disabled ones too, in the order of the file. */
  rows(): RowState[] {
    return this.host.rows()
  }

  /** Absolute paths of all files that the tree was read from, or that its last reading looked for. */
  get files(): readonly string[] {
    return this.host.files()
  }

  /** The rows of the last reload if it was refused: what their plugins' mistakes keep the tree from being. */
  get refused(): readonly Row[] {
    return this.host.refused()
  }

  /**
   * Reads the files again and makes the tree what they say, in one transaction; rows that did not change keep running.
   * Changes wait for each other.
   *
   * @throws HarnessError with every mistake; the tree then is as before.
   */
  reload(options: ReloadOptions = {}): Promise<TreeChange> {
    return this.host.reload(this.ctx, options)
  }

  /** Adds a row, in one transaction. @throws as {@link reload} */
  create(row: RowInput, options: CreateOptions = {}): Promise<TreeChange> {
    return this.host.create(this.ctx, row, options)
  }

  /**
   * Changes a row, in one transaction. `config` is merged deeply: a key that is `undefined` goes, `{ $replace: … }` and
   * lists replace whole. @throws as {@link reload}
   */
  update(id: string, changes: Partial<RowInput>, options: ChangeOptions = {}): Promise<TreeChange> {
    return this.host.update(this.ctx, id, changes, options)
  }

  /** Takes a row out, a group with all that is in it. @throws as {@link reload} */
  remove(id: string, options: ChangeOptions = {}): Promise<TreeChange> {
    return this.host.remove(this.ctx, id, options)
  }

  /** Resolves when the changes that were asked for until now, the start included, have been made or refused. */
  idle(): Promise<void> {
    return this.host.idle()
  }

  /**
   * State that is handed over between the runs of the calling row: what an earlier run made under `key`, else what
   * `create` makes now. It lasts through reloads, changes of the config and restarts for want of a service, until the
   * row is removed, disabled or gets another plugin. Keep data in it, not resources: those end with the run.
   *
   * @throws `LOADER_KEEP` for code that belongs to no row
   */
  keep<T>(key: string, create: () => T): T {
    const row = rowOf(this.ctx)
    if (row) return this.host.keep(row.id, key, create)
    throw new HarnessError('LOADER_KEEP', `only a row can keep "${key}": the caller belongs to none`, {
      where: this.ctx.fiber.name,
      fix: 'call ctx.loader.keep() with the context that `apply` got',
    })
  }

  /** As with the public loader: the rows that are mounted. */
  *entries(): Generator<RowEntry, void, void> {
    yield* this.host.entries()
  }

  resolve(id: string): RowEntry {
    for (const entry of this.host.entries()) if (entry.id === id) return entry
    throw new Error(`cannot resolve entry ${id}`)
  }

  /** The id of the row that `fiber`, by default the caller's, belongs to. */
  locate(fiber: Fiber = this.ctx.fiber): string | undefined {
    for (let at = fiber; ; at = at.parent.fiber) {
      if (at.entry) return at.entry.id
      if (at === at.parent.fiber) return undefined
    }
  }

  getTasks(): Promise<void>[] {
    return [...this.host.entries()].flatMap(({ fiber }) => fiber?.inertia ?? [])
  }

  async await(): Promise<void> {
    for (let tasks = this.getTasks(); tasks.length; tasks = this.getTasks()) await Promise.allSettled(tasks)
  }
}
