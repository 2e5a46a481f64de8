/** A booted tree as data: its rows, how each does, and who gives what to whom. */

import { type Context, type Fiber, type HarnessError, isHarnessError, pending, rowOf } from '@cambium/core'
import { shippedPlugins } from '../modules/installation.ts'
import type { RowState } from '../tree/row-state.ts'
import { explainWaiting, type Offers, type Provider } from '../tree/services.ts'
import type { Tree } from '../tree/tree.ts'

export interface GraphedTree {
  /** The tree, as the user named it. */
  readonly file: string
  /** `up` when a start would have succeeded; `unread` has no rows. */
  readonly state: 'up' | 'failed' | 'unread'
  /** How long the rows took to load and to start. */
  readonly ms: number
  readonly rows: readonly GraphRow[]
  /** Of the files, which then are not booted. */
  readonly mistakes: readonly Finding[]
}

export interface GraphRow {
  readonly id: string
  /** The specifier as written, or `group` or `include`. */
  readonly name: string
  readonly kind: 'plugin' | 'group' | 'include'
  readonly label: string | null
  /** The id of the group or include that it lies in. */
  readonly parent: string | null
  /** Where it stands: `cordis.yml:12:3`. */
  readonly source: string
  readonly state: RowState['state']
  readonly required: boolean
  /** Services that it is still without. */
  readonly waits: readonly string[]
  /** Services that a part of it is without, an inner plugin or a nested `ctx.inject()`, while the rest runs. */
  readonly partWaits: readonly string[]
  /** Services that it asks for, with the row that each comes from: null when nobody provides it, or every tree has it. */
  readonly injects: readonly { readonly service: string; readonly from: string | null }[]
  /** Services that it provides now. */
  readonly provides: readonly string[]
  /** Services that its plugin says it provides. */
  readonly declares: readonly string[]
  /** What it holds, and would undo when it goes. */
  readonly effects: readonly { readonly label: string; readonly count: number }[]
  readonly importMs: number | null
  readonly startMs: number | null
  /** Why it failed or waits. */
  readonly problem: Finding | null
}

/** A mistake as data. */
export interface Finding {
  readonly code: string
  readonly problem: string
  readonly where: string | null
  readonly fix: string | null
}

export function findingOf(error: unknown): Finding {
  if (!isHarnessError(error)) return { code: 'TREE_FAILED', problem: String(error), where: null, fix: null }
  const { code, problem, where = null, fix = null } = error
  return { code, problem, where, fix }
}

/** Every row of the tree as it is now, in the order of the file. */
export async function graphOf(ctx: Context, tree: Tree): Promise<GraphRow[]> {
  const rows = tree.rows()
  const effects = effectsByRow(ctx)
  const parts = pending(ctx)
  const disabled = rows.flatMap(({ row, state }) => (state === 'disabled' ? row : []))
  const offers: Offers = { disabled, shipped: await shippedPlugins() }
  return rows.map(state => {
    const { row, waits, fiber } = state
    return {
      id: row.id,
      name: row.name,
      kind: row.kind,
      label: row.label ?? null,
      parent: row.parent ?? null,
      source: row.at,
      state: state.state,
      required: row.required,
      waits,
      partWaits: parts.flatMap(part =>
        part.fiber !== fiber && rowOf(part.fiber.ctx)?.id === row.id ? part.waits : [],
      ),
      injects: fiber ? Object.keys(fiber.inject).map(service => ({ service, from: giver(fiber, service) })) : [],
      provides: state.provides,
      declares: state.declares,
      effects: row.kind === 'plugin' ? counted(effects.get(row.id) ?? []) : [],
      importMs: rounded(state.importMs),
      startMs: rounded(state.startMs),
      problem: problemOf(state, rows, offers),
    }
  })
}

/** What the plugins of a row hold, inner plugins included. */
function effectsByRow(ctx: Context): Map<string, string[]> {
  const effects = new Map<string, string[]>()
  for (const runtime of ctx.registry.values()) {
    for (const fiber of runtime.fibers as Iterable<Fiber>) {
      const id = rowOf(fiber.ctx)?.id
      if (id === undefined) continue
      effects.set(id, [...(effects.get(id) ?? []), ...fiber.getEffects().map(({ label }) => label)])
    }
  }
  return effects
}

function counted(labels: readonly string[]): { label: string; count: number }[] {
  const counts = new Map<string, number>()
  for (const label of labels) counts.set(label, (counts.get(label) ?? 0) + 1)
  return [...counts].map(([label, count]) => ({ label, count }))
}

/** The row that a running plugin has the service from. */
function giver(fiber: Fiber, service: string): string | null {
  const provider = fiber.store?.[service]?.fiber
  return (provider && rowOf(provider.ctx)?.id) ?? null
}

const rounded = (ms: number | undefined) => (ms === undefined ? null : Math.round(ms * 10) / 10)

function problemOf({ row, state, waits, error }: RowState, rows: readonly RowState[], offers: Offers): Finding | null {
  if (error) return findingOf(error)
  if (state === 'loading') {
    return { code: 'TREE_SETTLE_TIMEOUT', problem: 'it is still starting', where: row.at, fix: null }
  }
  return state === 'waiting' ? findingOf(whyWaiting(row, waits, rows, offers)) : null
}

function whyWaiting(
  row: RowState['row'],
  waits: readonly string[],
  rows: readonly RowState[],
  offers: Offers,
): HarnessError {
  const others = rows.filter(other => other.row !== row)
  const providersOf = (service: string): Provider[] =>
    others
      .filter(({ declares }) => declares.includes(service))
      .map(({ row: { id }, state }) => ({ id, state: state === 'failed' || state === 'active' ? state : 'waiting' }))
  return explainWaiting(
    row,
    waits,
    providersOf,
    others.flatMap(({ declares }) => declares),
    offers,
  )
}
