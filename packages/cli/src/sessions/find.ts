/** Which stored session somebody means, by its id, a part of it, or by saying nothing. */

import { HarnessError } from '@cambium/core'
import type { SessionPersistence, SessionSummary } from '@cambium/session'
import { usageError } from '../flags.ts'
import { oneLine } from '../printable.ts'
import { shortIds } from './short-id.ts'

/** @throws `CLI_NO_SESSION` */
export function requireStore(store: SessionPersistence | undefined): SessionPersistence {
  if (store) return store
  throw new HarnessError('CLI_NO_SESSION', 'no session is kept: the tree mounts no store of sessions', {
    fix: 'add a row such as @cambium/session/jsonl',
  })
}

/**
 * By an id, the beginning or the end of one that no other has, or, where `wanted` is empty, the last of the folder.
 * @throws `CLI_NO_SESSION`, `CLI_USAGE` when it fits several
 */
export async function findSession(store: SessionPersistence, wanted: string, cwd: string): Promise<SessionSummary> {
  if (wanted) return pickSession(await store.list(), wanted)
  const [latest] = await store.list({ cwd, limit: 1 })
  if (latest) return latest
  throw new HarnessError('CLI_NO_SESSION', `there is no session of ${cwd} yet`, {
    fix: 'start one with cambium run "task", or name a folder with --cwd',
  })
}

/** As {@link findSession}, of those that were listed. */
export function pickSession(all: readonly SessionSummary[], wanted: string): SessionSummary {
  const exact = all.find(({ id }) => id === wanted)
  if (exact) return exact
  const found = all.filter(({ id }) => id.startsWith(wanted) || id.endsWith(wanted))
  const [only] = found
  if (only && found.length === 1) return only
  if (!only) {
    throw new HarnessError('CLI_NO_SESSION', `there is no session ${oneLine(wanted, 120)}`, {
      fix: 'cambium sessions list --all shows them, and cambium run --continue takes up the last one of this folder',
    })
  }
  const short = shortIds(all)
  throw usageError(
    `${oneLine(wanted, 120)} fits ${found.length} sessions`,
    `one of: ${found
      .slice(0, 5)
      .map(({ id }) => short(id))
      .join(', ')}`,
  )
}
