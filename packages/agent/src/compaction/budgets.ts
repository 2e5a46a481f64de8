/** How the room of a request is shared out between what a compaction leaves. */

import type { Room } from './room.ts'
import type { Settings } from './settings.ts'

/** All in tokens. Together they leave a part of the room free, so that the next step does not need the next compaction. */
export interface Budgets {
  /** For the last steps as they are. */
  readonly retain: number
  /** For what the person said, and for the last of it alone. */
  readonly pinned: number
  readonly last: number
  readonly summary: number
  /** For what plugins add to a checkpoint. */
  readonly carry: number
}

/** `goal`: what the next request may have; `base`: what of it is no message. */
export function budgetsFor(settings: Settings, room: Room | undefined, goal: number, base: number): Budgets {
  const space = Math.max(0, goal - base)
  const window = room?.window ?? Number.POSITIVE_INFINITY
  return {
    retain: Math.min(settings.retain * window, space / 3),
    pinned: Math.min(settings.pinned * window, settings.pinnedTokens, space / 4),
    last: space / 3,
    summary: Math.floor(Math.min(settings.summaryTokens, space / 6)),
    carry: space / 12,
  }
}
