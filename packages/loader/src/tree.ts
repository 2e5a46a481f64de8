/**
 * The mounted rows of one tree, and the transaction that changes them: prepare (resolve, import, validate) → drop in
 * reverse → mount in order → compensate if that failed. Changes are serialised; what can fail before the first drop
 * touches nothing.
 */

import { type Context, errorMessage, type Fiber, HarnessError, isHarnessError, notify, rowOf } from '@cambium/core'
import { changeOf, keptMounts } from './kept.ts'
import { KeptState } from './kept-state.ts'
import { throwMistakes } from './mistakes.ts'
import {
  createMount,
  disposeMount,
  type Mount,
  type MountState,
  moveMount,
  type Plan,
  stateOfMount,
  waitsOf,
} from './mount.ts'
import { type PrepareOptions, prepareRows, SETTLE_MS, usesOf } from './prepare.ts'
import type { TreeReading } from './reading.ts'
import type { Row } from './row.ts'
import { explainWaiting, findCycles, type Provider } from './services.ts'
import { type ChangeCause, type TreeChange, TreeLoader } from './tree-loader.ts'

export interface TreeOptions extends PrepareOptions {
  /** How the tree is called in messages. */
  label?: string
  /** Where its rows come from, so that they can be read again. */
  reading?: TreeReading
}

export interface ApplyOptions {
  /** Ids of rows to mount anew though nothing of them changed in the file. */
  readonly remount?: ReadonlySet<string>
}

export interface RowState {
  readonly row: Row
  readonly state: MountState | 'disabled'
  /** Services that a waiting row is still without. */
  readonly waits: readonly string[]
  readonly error: HarnessError | undefined
  /** The URL that the plugin was imported from. */
  readonly url: string | undefined
  /** Services that the plugin says it provides (`export const provide`). */
  readonly declares: readonly string[]
  /** Services that it and its inner plugins do provide now. */
  readonly provides: readonly string[]
  readonly fiber: Fiber | undefined
  /** How long its module took to be found and loaded, and its last start, in milliseconds. */
  readonly importMs: number | undefined
  readonly startMs: number | undefined
}

/** A tree on `ctx`, still empty. One context carries one tree: it provides `ctx.loader`. */
export function createTree(ctx: Context, options: TreeOptions = {}): Tree {
  return new Tree(ctx, options)
}

const START_PATIENCE_MS = 5_000

export class Tree {
  readonly ctx: Context
  private readonly options: TreeOptions
  private readonly loader: TreeLoader
  private readonly realms = new Map<string, symbol>()
  private readonly state = new KeptState()
  private listed: readonly Row[] = []
  /** In the order of the file. */
  private mounts = new Map<string, Mount>()
  private queue: Promise<unknown> = Promise.resolve()
  private started = false
  /** How long a row that is dropped may go on starting. */
  private patienceMs = START_PATIENCE_MS
  private ended = false
  private readonly ending = new AbortController()

  constructor(ctx: Context, options: TreeOptions) {
    this.ctx = ctx
    this.options = options
    this.loader = new TreeLoader(ctx, {
      entries: () => [...this.mounts.values()].map(mount => mount.entry),
      rows: () => this.rows(),
      files: () => options.reading?.files ?? [],
      reload: wanted => this.reload(wanted),
      create: () => Promise.reject(notYet('create')),
      update: () => Promise.reject(notYet('update')),
      remove: () => Promise.reject(notYet('remove')),
      keep: (row, key, create) => this.state.keep(row, key, create),
    })
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
  reload(options: ApplyOptions = {}): Promise<TreeChange> {
    const { reading } = this.options
    return this.transact('reload', async () => {
      const file = reading?.read()
      const change = await this.change(file ? flatten(file.rows) : this.listed, options)
      if (file) reading?.accept(file)
      return change
    })
  }

  /** Resolves, imports and validates `rows` without mounting any. @throws HarnessError with every mistake found. */
  check(rows: readonly Row[]): Promise<void> {
    return this.enqueue(async () => void (await this.prepare(flatten(rows).filter(enabled), () => undefined)))
  }

  /** Every row that was last applied, disabled ones too, in the order of the file. */
  rows(): RowState[] {
    const provided = this.provided()
    return this.listed.map(row => {
      const mount = this.mounts.get(row.id)
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
  async settled(): Promise<void> {
    const ms = this.options.settleMs ?? SETTLE_MS
    let timer: ReturnType<typeof setTimeout> | undefined
    let late = false
    const expired = new Promise<void>(resolve => {
      timer = setTimeout(() => {
        late = true
        resolve()
      }, ms)
    })
    try {
      for (let busy = this.busy(); busy.length; busy = this.busy()) {
        await Promise.race([Promise.allSettled(busy.map(fiber => fiber.inertia)), expired])
        if (late) throw this.unsettled(this.busy(), ms)
      }
    } finally {
      clearTimeout(timer)
    }
  }

  /** Drops every row, the last one first. The tree cannot be used after it. Idempotent. */
  dispose(): Promise<void> {
    this.ending.abort()
    return this.enqueue(async () => {
      this.ended = true
      for (const mount of [...this.mounts.values()].reverse()) await this.drop(mount)
      this.listed = []
    })
  }

  /** The services that are there, by the row that provides them. */
  private provided(): Map<string, string[]> {
    const services = new Map<string, string[]>()
    const { store } = this.ctx.reflect
    for (const key of Reflect.ownKeys(store)) {
      const { name, fiber } = store[key as symbol]!
      const id = rowOf(fiber.ctx)?.id
      if (id !== undefined) services.set(id, [...(services.get(id) ?? []), name])
    }
    return services
  }

  private enqueue<T>(work: () => Promise<T>): Promise<T> {
    const result = this.queue.then(work)
    this.queue = result.catch(() => {})
    return result
  }

  private transact(cause: ChangeCause, work: () => Promise<TreeChange>): Promise<TreeChange> {
    return this.enqueue(async () => {
      try {
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

  private busy(): Fiber[] {
    const busy: Fiber[] = []
    for (const runtime of this.ctx.registry.values()) {
      for (const fiber of runtime.fibers as Iterable<Fiber>) if (fiber.inertia) busy.push(fiber)
    }
    return busy
  }

  private unsettled(busy: readonly Fiber[], ms: number): HarnessError {
    const slow = [...this.mounts.values()].filter(mount => mount.fiber && busy.includes(mount.fiber))
    const names = slow.length
      ? slow.map(({ plan }) => plan.row.id).join(', ')
      : busy.map(fiber => fiber.name).join(', ')
    return new HarnessError('TREE_SETTLE_TIMEOUT', `${names} did not finish loading within ${ms} ms`, {
      where: slow.map(({ plan }) => `${plan.row.at} (row ${plan.row.id})`).join(', ') || this.label,
      fix: 'let `apply` return early, and do long work in the background',
    })
  }

  private get label(): string {
    return this.options.label ?? 'the tree'
  }

  private async change(rows: readonly Row[], options: ApplyOptions): Promise<TreeChange> {
    if (this.ended) throw new HarnessError('TREE_DISPOSED', 'the tree has been disposed', { where: this.label })
    const active = rows.filter(enabled)
    const kept = keptMounts(active, this.mounts, options.remount ?? new Set())
    const plans = await this.prepare(active, row => kept.get(row.id)?.plan)

    const difference = changeOf(active, this.mounts, kept, options.remount)
    const before = [...this.mounts.values()]
    const formerRows = before.map(({ plan }) => plan.row)
    const dropped = before.filter(mount => kept.get(mount.plan.row.id) !== mount)
    for (const mount of [...dropped].reverse()) await this.drop(mount)
    const forget = this.state.expect(active)
    const added: Mount[] = []
    try {
      for (const plan of plans) {
        const mount = kept.get(plan.row.id)
        if (mount) moveMount(mount, plan.row)
        else added.push(this.mount(plan))
      }
      await this.settled()
      throwMistakes(this.refusals(added, dropped), this.label)
    } catch (error) {
      // What did not start within the whole bound gets no more time.
      if (isHarnessError(error) && error.code === 'TREE_SETTLE_TIMEOUT') this.patienceMs = 0
      for (const mount of added.reverse()) await this.drop(mount)
      this.patienceMs = START_PATIENCE_MS
      forget()
      before.forEach((mount, index) => {
        moveMount(mount, formerRows[index]!)
      })
      await this.restore(before, dropped)
      throw error
    }
    for (const mount of added) mount.starting = false
    this.mounts = new Map(plans.map(({ row }) => [row.id, this.mounts.get(row.id)!]))
    this.listed = rows
    this.started = true
    return difference
  }

  private async prepare(rows: readonly Row[], known: (row: Row) => Plan | undefined): Promise<Plan[]> {
    const prepared = await prepareRows(
      rows.filter(row => !known(row)),
      { ...this.options, signal: this.ending.signal },
    )
    const fresh = new Map(prepared.map(one => [one.plan.row.id, one]))
    // A row that runs already is not replaced by one that cannot.
    const fatal = prepared.filter(({ plan: { row } }) => row.required || this.mounts.has(row.id))
    const plans = rows.map(row => fresh.get(row.id)?.plan ?? { ...known(row)!, row })
    const cycles = findCycles(usesOf(plans))
    throwMistakes([...fatal.flatMap(({ mistakes }) => mistakes), ...cycles], this.label)
    return plans
  }

  private mount(plan: Plan): Mount {
    const parent = this.mounts.get(plan.row.parent ?? '')
    const mount = createMount(plan, {
      root: this.ctx,
      parent,
      loader: this.loader,
      realms: this.realms,
      failedLate: (_mount, error) => this.ctx.logger('loader').error(error.message),
    })
    this.mounts.set(plan.row.id, mount)
    return mount
  }

  private async drop(mount: Mount): Promise<void> {
    const { id } = mount.plan.row
    if (this.mounts.get(id) === mount) this.mounts.delete(id)
    await disposeMount(mount, this.patienceMs)
  }

  /** Why the change cannot stand. What only concerns rows that may fail is logged. */
  private refusals(added: readonly Mount[], dropped: readonly Mount[]): HarnessError[] {
    const former = new Set(dropped.map(({ plan }) => plan.row.id))
    return added.flatMap(mount => {
      const { row } = mount.plan
      const state = stateOfMount(mount)
      const fatal = row.required || (state === 'failed' && former.has(row.id))
      const error = state === 'failed' ? mount.failure : state === 'waiting' ? this.waiting(mount) : undefined
      if (!error) return []
      if (fatal && (state === 'failed' || !this.started)) return error
      this.ctx.logger('loader').warn(error.message)
      return []
    })
  }

  private waiting(mount: Mount): HarnessError {
    const others = [...this.mounts.values()].filter(other => other !== mount)
    const provided = others.flatMap(other => other.plan.loaded?.provide ?? [])
    const providersOf = (service: string) =>
      others
        .filter(other => other.plan.loaded?.provide.includes(service))
        .map(other => {
          const state = stateOfMount(other)
          const seen: Provider['state'] = state === 'failed' || state === 'active' ? state : 'waiting'
          return { id: other.plan.row.id, state: seen }
        })
    return explainWaiting(mount.plan.row, waitsOf(mount), providersOf, provided)
  }

  private async restore(before: readonly Mount[], dropped: readonly Mount[]): Promise<void> {
    const again = new Map<Mount, Mount>()
    for (const mount of dropped) again.set(mount, this.mount(mount.plan))
    const order = before.map(mount => again.get(mount) ?? mount)
    this.mounts = new Map(order.map(mount => [mount.plan.row.id, mount]))
    await this.settled()
    for (const mount of again.values()) {
      mount.starting = false
      if (stateOfMount(mount) === 'failed' && mount.failure) this.ctx.logger('loader').error(mount.failure.message)
    }
  }
}

const notYet = (what: string) => new HarnessError('LOADER_CHANGE', `${what} is being built`)

const enabled = (row: Row) => !row.disabled

function flatten(rows: readonly Row[]): Row[] {
  return rows.flatMap(row => [row, ...flatten(row.children)])
}
