/** Why a session cannot be written by us. */

import { HarnessError } from '@cambium/core'
import { type Holder, isSelf, type Lease } from '@cambium/store'
import type { SessionId } from '../event.ts'

export function busy(id: SessionId, holder: Holder | 'unknown' | undefined, where: string): HarnessError {
  const who =
    !holder || holder === 'unknown'
      ? 'another process'
      : isSelf(holder)
        ? 'this process'
        : `process ${holder.pid} on ${holder.host}, since ${clock(holder.since)}`
  return new HarnessError('SESSION_BUSY', `session ${id} is being written by ${who}`, {
    where,
    fix: 'wait until it has ended, or fork the session; reading it is possible meanwhile',
  })
}

/** `2026-11-30 14:15:03`, as the clock on the wall, whatever the process takes for its language. */
const clock = (time: number): string => new Date(time).toLocaleString('sv-SE')

export function exists(id: SessionId, path: string): HarnessError {
  return new HarnessError('SESSION_EXISTS', `another session ${id} is stored already`, {
    where: path,
    fix: 'resume it, or choose another id',
  })
}

export function leaseLost(id: SessionId, lease: Lease): HarnessError {
  return new HarnessError('SESSION_LEASE_LOST', `another process has taken session ${id} over`, {
    where: lease.path,
    fix: 'fork the session to go on here',
  })
}
