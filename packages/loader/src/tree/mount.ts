/** One mounted row: the context it runs in, and its fiber. */

import { pathToFileURL } from 'node:url'
import { type Context, copyData, type Fiber, type HarnessError, stateOf, withRow } from '@cambium/core'
import type { Row } from '../file/row.ts'
import type { LoadedPlugin } from '../modules/module.ts'
import { tellsOf } from '../modules/told-errors.ts'
import { guarded } from './guard.ts'
import { ENTRY, RowEntry, tagFiber } from './identity.ts'
import type { MountState } from './row-state.ts'
import type { TreeLoader } from './tree-loader.ts'

/** A row that is ready to be mounted, or the reason why it cannot be. */
export interface Plan {
  readonly row: Row
  readonly url?: string
  readonly loaded?: LoadedPlugin
  /** Validated, as the file says it; the fiber runs it through the schema again. */
  readonly config?: unknown
  /** How long the module took to resolve and to load. */
  readonly importMs?: number
  readonly failure?: HarnessError
}

export interface Mount {
  plan: Plan
  readonly parent: Mount | undefined
  readonly entry: RowEntry
  /** What rows of a group are mounted on. */
  readonly ctx: Context
  /** Absent when the row could not even be imported. */
  readonly fiber: Fiber | undefined
  failure: HarnessError | undefined
  /** How long its last start took. */
  startMs: number | undefined
  /** Ends the wait for a start that does not end. */
  readonly giveUp: () => void
  /** While its transaction runs, which reports failures by itself. */
  starting: boolean
  /** Follows the row to another place in the file. */
  readonly mark: { id: string; at: string; path: number[] }
}

/** Symbols of the realms that rows share by label, one per service. */
export type Realms = Map<string, symbol>

export interface MountRequest {
  readonly root: Context
  readonly parent: Mount | undefined
  readonly loader: TreeLoader
  readonly realms: Realms
  /** Told of a failure after the start: a row that waited and then could not start, say. */
  readonly failedLate: (mount: Mount, error: HarnessError) => void
}

/** Starts the plan's plugin under its parent. Its failure, now or later, is kept in `failure`. */
export function createMount(plan: Plan, request: MountRequest): Mount {
  const { row, loaded } = plan
  const above = request.parent?.ctx ?? request.root
  const entry = new RowEntry(request.loader, above, row)
  const mark = { id: row.id, at: row.at, path: [...row.path] }
  const base = contextOf(row, above, mark, entry, request.realms)
  const given = new AbortController()
  const plugin =
    row.kind === 'plugin'
      ? loaded && guarded(row, loaded, { failed, started, given: given.signal })
      : { name: row.id, apply: () => undefined }
  // Not `base.plugin`: that captures a stack for each of a thousand rows, which says less than the row's place.
  const fiber = plugin && base.registry.plugin(plugin, copyData(plan.config), () => [`    at ${row.at}`]).ctx.fiber
  if (fiber) tagFiber(fiber, entry)
  entry.ctx = base
  entry.fiber = fiber
  const mount: Mount = {
    plan,
    parent: request.parent,
    entry,
    ctx: fiber?.ctx ?? base,
    fiber,
    failure: plan.failure,
    startMs: undefined,
    giveUp: () => given.abort(),
    starting: true,
    mark,
  }
  function failed(error: HarnessError) {
    tellsOf(error.cause)
    mount.failure = error
    if (!mount.starting) request.failedLate(mount, error)
  }
  function started(ms: number) {
    mount.startMs = ms
    mount.failure = undefined
  }
  return mount
}

function contextOf(row: Row, above: Context, mark: Mount['mark'], entry: RowEntry, realms: Realms): Context {
  let ctx = above
  for (const [service, label] of Object.entries(row.isolate)) {
    const key = `${service}@${label}`
    if (label !== true && !realms.has(key)) realms.set(key, Symbol(key))
    ctx = ctx.isolate(service, label === true ? Symbol(`${service}#${row.id}`) : realms.get(key))
  }
  for (const [service, config] of Object.entries(row.intercept)) ctx = ctx.intercept(service, config)
  return withRow(ctx, mark).extend({ [ENTRY]: entry, baseUrl: pathToFileURL(row.from).href })
}

/** Gives a mounted row the place that it has in a later reading of the file. */
export function moveMount(mount: Mount, row: Row): void {
  mount.plan = { ...mount.plan, row }
  mount.entry.row = row
  mount.mark.at = row.at
  mount.mark.path.splice(0, mount.mark.path.length, ...row.path)
}

/** Disposes a mount. One that is still starting is waited for, but not longer than `patienceMs`. */
export async function disposeMount({ fiber, giveUp }: Mount, patienceMs: number): Promise<void> {
  if (!fiber) return
  const disposed = fiber.dispose()
  if (stateOf(fiber) !== 'loading') return disposed
  const timer = setTimeout(giveUp, patienceMs)
  await disposed
  clearTimeout(timer)
}

export function stateOfMount({ fiber }: Mount): MountState {
  if (!fiber) return 'failed'
  const state = stateOf(fiber)
  return state === 'pending' ? 'waiting' : state
}

/** The services that a waiting row is still without. */
export function waitsOf({ fiber }: Mount): string[] {
  if (!fiber || stateOf(fiber) !== 'pending') return []
  const names = Object.keys(fiber.inject)
  const absent = names.filter(name => fiber.ctx.get(name) === undefined)
  // A service may be there and still refuse to be used, by its own check.
  return absent.length ? absent : names
}
