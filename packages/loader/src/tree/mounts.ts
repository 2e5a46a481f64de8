/** The mounted rows of one tree, in the order of the file, and what can be asked about them. */

import { type Context, type Fiber, HarnessError, rowOf } from '@cambium/core'
import type { Row } from '../file/row.ts'
import { listing } from '../listing.ts'
import { createMount, disposeMount, type Mount, type Plan, stateOfMount, waitsOf } from './mount.ts'
import { NOTICE_MS, type PrepareOptions, SETTLE_MS } from './prepare.ts'
import { explainWaiting, type Offers, type Provider } from './services.ts'
import type { TreeLoader } from './tree-loader.ts'

export interface MountsOptions extends PrepareOptions {
  /** How the tree is called in messages. */
  readonly label?: string
  /** See `TreeOptions`. */
  readonly keepFailures?: boolean
}

const START_PATIENCE_MS = 5_000

export class Mounts {
  readonly ctx: Context
  readonly options: MountsOptions
  readonly label: string
  byId = new Map<string, Mount>()
  /** How long a row that is dropped may go on starting. */
  patienceMs = START_PATIENCE_MS
  private readonly loader: TreeLoader
  private readonly realms = new Map<string, symbol>()

  constructor(ctx: Context, loader: TreeLoader, options: MountsOptions) {
    this.ctx = ctx
    this.loader = loader
    this.options = options
    this.label = options.label ?? 'the tree'
  }

  list(): Mount[] {
    return [...this.byId.values()]
  }

  mount(plan: Plan): Mount {
    const mount = createMount(plan, {
      root: this.ctx,
      parent: this.byId.get(plan.row.parent ?? ''),
      loader: this.loader,
      realms: this.realms,
      failedLate: (_mount, error) => this.ctx.logger('loader').error(error.message),
    })
    this.byId.set(plan.row.id, mount)
    return mount
  }

  /** Disposes `mounts`, the last one first. What is still starting gets `patienceMs` to come to an end. */
  async drop(mounts: readonly Mount[], patienceMs = this.patienceMs): Promise<void> {
    for (const mount of [...mounts].reverse()) {
      const { id } = mount.plan.row
      if (this.byId.get(id) === mount) this.byId.delete(id)
      await disposeMount(mount, patienceMs)
    }
  }

  /**
   * Resolves when no plugin is loading or unloading.
   *
   * @throws `TREE_SETTLE_TIMEOUT` when that takes too long, or takes long and `giveWay` aborts, `TREE_DISPOSED` a while after `ending` has aborted
   */
  async settled(ending?: AbortSignal, giveWay?: AbortSignal): Promise<void> {
    const ms = this.options.settleMs ?? SETTLE_MS
    let late: HarnessError | undefined
    let over = () => {}
    const expired = new Promise<void>(resolve => {
      over = resolve
    })
    const expire = (error: () => HarnessError) => {
      late ??= error()
      over()
    }
    const timers = [setTimeout(() => expire(() => this.unsettled(this.busy(), ` within ${ms} ms`)), ms)]
    const onEnd = () => timers.push(setTimeout(() => expire(() => treeDisposed(this.label)), this.patienceMs))
    if (ending?.aborted) onEnd()
    ending?.addEventListener('abort', onEnd)
    const onNewer = () => expire(() => this.unsettled(this.busy(), ', and a newer change waits'))
    const onSlow = () => {
      this.slow(this.rowsOf(this.busy()))
      if (giveWay?.aborted) onNewer()
      giveWay?.addEventListener('abort', onNewer)
    }
    timers.push(setTimeout(onSlow, this.options.noticeMs ?? NOTICE_MS))
    try {
      for (let busy = this.busy(); busy.length; busy = this.busy()) {
        await Promise.race([Promise.allSettled(busy.map(fiber => fiber.inertia)), expired])
        if (late) throw late
      }
    } finally {
      ending?.removeEventListener('abort', onEnd)
      giveWay?.removeEventListener('abort', onNewer)
      for (const timer of timers) clearTimeout(timer)
    }
  }

  /** Says which rows keep all others waiting. */
  slow(rows: readonly Row[]): void {
    if (!rows.length) return
    const names = listing(rows.map(({ id, at }) => `${id} (${at})`))
    this.ctx.logger('loader').warn(`still starting: ${names}`)
  }

  /** The services that are there, by the row that provides them. */
  provided(): Map<string, string[]> {
    const services = new Map<string, string[]>()
    const { store } = this.ctx.reflect
    for (const key of Reflect.ownKeys(store)) {
      const { name, fiber } = store[key as symbol]!
      const id = rowOf(fiber.ctx)?.id
      if (id !== undefined) services.set(id, [...(services.get(id) ?? []), name])
    }
    return services
  }

  /** Why a waiting row waits. */
  waiting(mount: Mount, offers: Offers): HarnessError {
    const others = this.list().filter(other => other !== mount)
    const provided = others.flatMap(other => other.plan.loaded?.provide ?? [])
    const providersOf = (service: string) =>
      others
        .filter(other => other.plan.loaded?.provide.includes(service))
        .map(other => {
          const state = stateOfMount(other)
          const seen: Provider['state'] = state === 'failed' || state === 'active' ? state : 'waiting'
          return { id: other.plan.row.id, state: seen }
        })
    return explainWaiting(mount.plan.row, waitsOf(mount), providersOf, provided, offers)
  }

  private busy(): Fiber[] {
    const busy: Fiber[] = []
    for (const runtime of this.ctx.registry.values()) {
      for (const fiber of runtime.fibers as Iterable<Fiber>) if (fiber.inertia) busy.push(fiber)
    }
    return busy
  }

  private rowsOf(fibers: readonly Fiber[]): Row[] {
    return this.list().flatMap(({ fiber, plan }) => (fiber && fibers.includes(fiber) ? plan.row : []))
  }

  private unsettled(busy: readonly Fiber[], why: string): HarnessError {
    const slow = this.rowsOf(busy)
    const names = listing(slow.length ? slow.map(({ id }) => id) : busy.map(fiber => fiber.name))
    return new HarnessError('TREE_SETTLE_TIMEOUT', `${names} did not finish loading${why}`, {
      where: listing(slow.map(({ id, at }) => `${at} (row ${id})`)) || this.label,
      fix: 'let `apply` return early, and do long work in the background',
    })
  }
}

export function treeDisposed(label: string): HarnessError {
  return new HarnessError('TREE_DISPOSED', 'the tree has been disposed', { where: label })
}
