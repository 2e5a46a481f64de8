/**
 * The transaction that changes a tree: prepare (resolve, import, validate) → let work of the rows end → drop in reverse →
 * mount in order → commit, or compensate if that failed. What can fail before the first drop touches nothing.
 */

import { deadline, HarnessError, isHarnessError, parallel, renderLog } from '@cambium/core'
import type { Row } from '../file/row.ts'
import { throwMistakes } from '../mistakes.ts'
import { shippedPlugins } from '../modules/installation.ts'
import { dependentsOf } from './dependents.ts'
import { changeOf, keptMounts } from './kept.ts'
import type { KeptState } from './kept-state.ts'
import { type Mount, moveMount, type Plan, stateOfMount } from './mount.ts'
import { type Mounts, treeDisposed } from './mounts.ts'
import { prepareRows, usesOf } from './prepare.ts'
import type { MountState } from './row-state.ts'
import { findCycles } from './services.ts'
import type { TreeChange } from './tree-change.ts'

export interface ChangeRequest {
  /** Ids of rows to mount anew though nothing of them changed. */
  readonly remount: ReadonlySet<string>
  /** The first one: no required row may wait after it. */
  readonly start: boolean
  readonly drainMs: number
  /** The rows that wait for a change, this one or another; grows meanwhile. */
  readonly askers: ReadonlySet<string>
  /** Aborts when the tree is to end. */
  readonly ending: AbortSignal
  /** See `ReloadOptions`. */
  readonly giveWay?: AbortSignal | undefined
  /** Called when the rows run as wanted; what it throws undoes them. */
  readonly commit?: (() => void) | undefined
}

/** How many rows that may fail are warned of by name. */
const WARNINGS = 20

/** Makes the tree what `listed`, the flat list of all its rows, say. @throws HarnessError; the tree then is as before */
export async function changeTree(
  mounts: Mounts,
  state: KeptState,
  listed: readonly Row[],
  request: ChangeRequest,
): Promise<TreeChange> {
  const rows = listed.filter(row => !row.disabled)
  const former = mounts.byId
  const kept = keptMounts(rows, former, request.remount)
  const plans = await prepare(mounts, rows, row => kept.get(row.id)?.plan, request.ending)
  const change = changeOf(rows, former, kept, request.remount)
  const before = mounts.list().map(mount => ({ mount, row: mount.plan.row, state: stateOfMount(mount) }))
  const dropped = before.filter(({ mount, row }) => kept.get(row.id) !== mount)
  const restarting = restartingOf(mounts, before, dropped)
  await drain(mounts, [...dropped, ...restarting], request)

  // Their failures are this transaction's, which tells them.
  for (const { mount } of restarting) mount.starting = true
  await mounts.drop(dropped.map(({ mount }) => mount))
  const forget = state.expect(rows)
  const added: Mount[] = []
  let notices: readonly HarnessError[] = []
  try {
    for (const plan of plans) {
      const mount = kept.get(plan.row.id)
      if (mount) moveMount(mount, plan.row)
      else added.push(mounts.mount(plan))
    }
    if (mounts.options.keepFailures) {
      // What does not come to rest is kept as it is, and gets no more time when it goes.
      await mounts.settled(request.ending).catch(() => {
        mounts.patienceMs = 0
      })
    } else {
      await mounts.settled(request.ending, request.giveWay)
      const outcome = await outcomeOf(mounts, added, { listed, dropped, restarting, start: request.start })
      throwMistakes(outcome.refusals, mounts.label)
      notices = outcome.notices
    }
    request.commit?.()
    tell(mounts, notices)
  } catch (error) {
    // What did not start within the whole bound gets no more time.
    const late = isHarnessError(error) && (error.code === 'TREE_SETTLE_TIMEOUT' || error.code === 'TREE_DISPOSED')
    await mounts.drop(added, late ? 0 : undefined)
    forget()
    // A tree that is to end drops the others next.
    if (!request.ending.aborted) await restore(mounts, before, dropped, restarting)
    throw error
  }
  for (const mount of [...added, ...restarting.map(({ mount }) => mount)]) mount.starting = false
  mounts.byId = new Map(plans.map(({ row }) => [row.id, mounts.byId.get(row.id)!]))
  return change
}

/** A mount as it was when the transaction began. */
interface Former {
  readonly mount: Mount
  readonly row: Row
  readonly state: MountState
}

/** Resolves, imports and validates what is not known yet. @throws HarnessError with every mistake of it */
export async function prepare(
  mounts: Mounts,
  rows: readonly Row[],
  known: (row: Row) => Plan | undefined,
  signal: AbortSignal,
): Promise<Plan[]> {
  const prepared = await prepareRows(
    rows.filter(row => !known(row)),
    { ...mounts.options, signal },
    late => mounts.slow(late),
  )
  const fresh = new Map(prepared.map(one => [one.plan.row.id, one]))
  // A row that runs already is not replaced by one that cannot.
  const fatal = prepared.filter(({ plan: { row } }) => row.required || runs(mounts.byId.get(row.id)))
  const plans = rows.map(row => fresh.get(row.id)?.plan ?? { ...known(row)!, row })
  if (mounts.options.keepFailures) return plans
  const cycles = findCycles(usesOf(plans))
  throwMistakes([...fatal.flatMap(({ mistakes }) => mistakes), ...cycles], mounts.label)
  return plans
}

const runs = (mount: Mount | undefined) => mount !== undefined && stateOfMount(mount) !== 'failed'

function restartingOf(mounts: Mounts, before: readonly Former[], dropped: readonly Former[]): Former[] {
  if (!dropped.length) return []
  const ids = dependentsOf(mounts.ctx, new Set(dropped.map(({ row }) => row.id)))
  return before.filter(one => ids.has(one.row.id) && !dropped.includes(one))
}

/** Waits until nothing of these rows is under way, but not for ever. */
async function drain({ ctx, label }: Mounts, leaving: readonly Former[], request: ChangeRequest): Promise<void> {
  const { drainMs, ending, askers } = request
  const ids = new Set(leaving.map(({ row }) => row.id))
  if (!ids.size) return
  const { signal, clear } = deadline(drainMs, ending)
  const over = new Promise<void>(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
  const drained = parallel(ctx, undefined, 'loader/drain', ids, signal, askers).catch((error: AggregateError) => {
    for (const failure of error.errors ?? [error]) {
      ctx.logger('loader').error(`a listener of loader/drain failed: ${renderLog(failure)}`)
    }
  })
  await Promise.race([drained, over])
  clear()
  if (ending.aborted) throw treeDisposed(label)
}

interface Touched {
  readonly listed: readonly Row[]
  readonly dropped: readonly Former[]
  readonly restarting: readonly Former[]
  readonly start: boolean
}

interface Outcome {
  /** Why the change cannot stand. */
  readonly refusals: HarnessError[]
  /** What only concerns rows that may fail, or that wait after the start. */
  readonly notices: HarnessError[]
}

async function outcomeOf(mounts: Mounts, added: readonly Mount[], touched: Touched): Promise<Outcome> {
  const { dropped, restarting, start } = touched
  const former = new Map([...dropped, ...restarting].map(one => [one.row.id, one]))
  const stopped = restarting.filter(({ state }) => state === 'active').map(({ mount }) => mount)
  const watched = [...added, ...stopped]
  const disabled = touched.listed.filter(row => row.disabled)
  const shipped = watched.some(mount => stateOfMount(mount) === 'waiting') ? await shippedPlugins() : []
  const refusals: HarnessError[] = []
  const notices: HarnessError[] = []
  for (const mount of watched) {
    const { row } = mount.plan
    const state = stateOfMount(mount)
    const failed = state === 'failed' ? mount.failure : undefined
    const error = failed ?? (state === 'waiting' ? mounts.waiting(mount, { disabled, shipped }) : undefined)
    if (!error) continue
    const was = former.get(row.id)
    const fatal = failed ? row.required || (was && was.state !== 'failed') : row.required && start
    if (fatal) refusals.push(error)
    // A row that fails on and on is told once.
    else if (was?.mount.failure?.message !== error.message) notices.push(error)
  }
  return { refusals, notices }
}

function tell({ ctx }: Mounts, notices: readonly HarnessError[]): void {
  const logger = ctx.logger('loader')
  for (const { message } of notices.slice(0, WARNINGS)) logger.warn(message)
  if (notices.length > WARNINGS) logger.warn(`${notices.length - WARNINGS} more rows do not run`)
}

async function restore(
  mounts: Mounts,
  before: readonly Former[],
  dropped: readonly Former[],
  restarting: readonly Former[],
): Promise<void> {
  for (const { mount, row } of before) moveMount(mount, row)
  const again = new Map<Mount, Mount>()
  for (const { mount } of dropped) again.set(mount, mounts.mount(mount.plan))
  mounts.byId = new Map(before.map(({ mount, row }) => [row.id, again.get(mount) ?? mount]))
  const logger = mounts.ctx.logger('loader')
  try {
    await mounts.settled()
  } catch (error) {
    logger.error(renderLog(error))
  }
  for (const { mount: former, state } of [...dropped, ...restarting]) {
    const mount = again.get(former) ?? former
    mount.starting = false
    if (state === 'active' && stateOfMount(mount) === 'failed') logger.error(notRestored(mount).message)
  }
}

function notRestored({ plan: { row }, failure }: Mount): HarnessError {
  return new HarnessError('TREE_RESTORE_FAILED', `${row.id} could not be brought back: ${failure?.problem}`, {
    where: failure?.where ?? `${row.at} (row ${row.id})`,
    fix: failure?.fix,
    cause: failure,
  })
}
