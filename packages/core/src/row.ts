/** Which row of which tree a context belongs to: the source of listener order and of places in messages. */

import type { Context } from 'cordis'

const kRow = Symbol.for('cambium.row')

export interface RowMark {
  /** The row's id, unique in its tree, prefixed by its groups' ids: `tools:bash`. */
  readonly id: string
  /** Where the row stands: `cordis.yml:12:3`. */
  readonly at: string
  /** Position in the tree, outermost first; decides the order of listeners and registrations. */
  readonly path: readonly number[]
}

/** A child context marked as belonging to `row`; plugins mounted on it and their contexts inherit the mark. */
export function withRow(ctx: Context, row: RowMark): Context {
  return ctx.extend({ [kRow]: row })
}

/** The row that `ctx` belongs to, or undefined for code that no tree mounted. */
export function rowOf(ctx: Context): RowMark | undefined {
  return (ctx as unknown as Record<symbol, RowMark | undefined>)[kRow]
}

/** Orders two contexts' rows as their files list them; what no tree mounted comes last. Equal rows give 0. */
export function compareRows(a: Context, b: Context): number {
  const left = rowOf(a)?.path
  const right = rowOf(b)?.path
  if (left === right) return 0
  if (!left) return 1
  if (!right) return -1
  for (let i = 0; i < left.length && i < right.length; i++) {
    if (left[i] !== right[i]) return left[i]! - right[i]!
  }
  return left.length - right.length
}
