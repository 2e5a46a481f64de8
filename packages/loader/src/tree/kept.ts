/** Which mounted rows a change leaves alone. */

import { isDeepStrictEqual } from 'node:util'
import type { Row } from '../file/row.ts'
import type { Mount } from './mount.ts'
import type { TreeChange } from './tree-change.ts'

/** The mounts that may go on: unchanged, below kept groups, and still in the order they were mounted in. */
export function keptMounts(
  rows: readonly Row[],
  mounts: ReadonlyMap<string, Mount>,
  remount: ReadonlySet<string>,
): Map<string, Mount> {
  const position = new Map([...mounts.keys()].map((id, index) => [id, index]))
  const kept = new Map<string, Mount>()
  let last = -1
  for (const row of rows) {
    const mount = mounts.get(row.id)
    if (!mount || changed(row, mount, kept, remount)) continue
    // Registrations keep the order of rows, so one that moved ahead of others is mounted anew.
    if (position.get(row.id)! < last) continue
    last = position.get(row.id)!
    kept.set(row.id, mount)
  }
  return kept
}

/** What a change does, by what it keeps. */
export function changeOf(
  rows: readonly Row[],
  mounts: ReadonlyMap<string, Mount>,
  kept: ReadonlyMap<string, Mount>,
  remount: ReadonlySet<string> = new Set(),
): TreeChange {
  const added: string[] = []
  const remounted: string[] = []
  const moved: string[] = []
  for (const row of rows) {
    const { id } = row
    const mount = mounts.get(id)
    if (!mount) added.push(id)
    else if (!kept.has(id)) (changed(row, mount, kept, remount) ? remounted : moved).push(id)
  }
  const ids = new Set(rows.map(({ id }) => id))
  return { added, removed: [...mounts.keys()].filter(id => !ids.has(id)), remounted, moved }
}

/** Other than by its place among the rows. */
function changed(row: Row, mount: Mount, kept: ReadonlyMap<string, Mount>, remount: ReadonlySet<string>): boolean {
  if (remount.has(row.id) || !mount.fiber || !sameRow(mount.plan.row, row)) return true
  return mount.parent !== undefined && kept.get(mount.parent.plan.row.id) !== mount.parent
}

function sameRow(a: Row, b: Row): boolean {
  if (a.kind !== b.kind || a.name !== b.name || a.from !== b.from) return false
  // The rows of an include say whether it changed.
  const config = a.kind === 'include' || sameData(a.config, b.config)
  return config && isDeepStrictEqual([a.inject, a.isolate, a.intercept], [b.inject, b.isolate, b.intercept])
}

function sameData(a: unknown, b: unknown): boolean {
  return isDeepStrictEqual(a, b) || isDeepStrictEqual(withTexts(a), withTexts(b))
}

/** An expression that gives a function gives another one each time the file is read: what counts is its text. */
function withTexts(data: unknown): unknown {
  if (typeof data === 'function') return String(data)
  if (Array.isArray(data)) return data.map(withTexts)
  if (typeof data !== 'object' || data === null || Object.getPrototypeOf(data) !== Object.prototype) return data
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, withTexts(value)]))
}
