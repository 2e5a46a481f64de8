/** Which mounted rows a change leaves alone. */

import { isDeepStrictEqual } from 'node:util'
import type { Mount } from './mount.ts'
import type { Row } from './row.ts'

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
    if (!mount || remount.has(row.id) || !mount.fiber || !sameRow(mount.plan.row, row)) continue
    if (mount.parent && kept.get(mount.parent.plan.row.id) !== mount.parent) continue
    // Registrations keep the order of rows, so one that moved ahead of others is mounted anew.
    if (position.get(row.id)! < last) continue
    last = position.get(row.id)!
    kept.set(row.id, mount)
  }
  return kept
}

function sameRow(a: Row, b: Row): boolean {
  if (a.kind !== b.kind || a.name !== b.name || a.from !== b.from) return false
  // The rows of an include say whether it changed.
  const config = a.kind === 'include' || isDeepStrictEqual(a.config, b.config)
  return config && isDeepStrictEqual([a.inject, a.isolate, a.intercept], [b.inject, b.isolate, b.intercept])
}
