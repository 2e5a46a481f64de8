/** Which sessions go when there are too many, too old or too large ones. */

import type { SessionSummary } from '../service.ts'

export interface Limits {
  readonly olderThanMs?: number | undefined
  readonly maxTotalBytes?: number | undefined
  readonly keep?: number | undefined
  /** No more than so many; `keep` does the same alone, and beside other limits protects. */
  readonly maxSessions?: number | undefined
}

/** `list` is newest first. Damaged ones are neither counted nor chosen: what they hold is unknown. */
export function beyond(list: readonly SessionSummary[], limits: Limits, now: number): SessionSummary[] {
  const { olderThanMs, maxTotalBytes, maxSessions, keep } = limits
  const others = [olderThanMs, maxTotalBytes, maxSessions].some(limit => limit !== undefined)
  if (!others && keep === undefined) return []
  let bytes = 0
  return list
    .filter(({ damaged }) => damaged === undefined)
    .filter((summary, index) => {
      bytes += summary.bytes
      if (index < (keep ?? 0)) return false
      if (!others) return true
      return (
        (olderThanMs !== undefined && summary.updatedAt < now - olderThanMs) ||
        (maxSessions !== undefined && index >= maxSessions) ||
        (maxTotalBytes !== undefined && bytes > maxTotalBytes)
      )
    })
}
