/** What is known of a row of a tree. */

import type { Fiber, HarnessError } from '@cambium/core'
import type { Row } from '../file/row.ts'

export type MountState = 'active' | 'waiting' | 'loading' | 'failed' | 'unloading' | 'disposed'

export interface RowState {
  readonly row: Row
  readonly state: MountState | 'disabled'
  /** Services that a waiting row is still without. */
  readonly waits: readonly string[]
  readonly error: HarnessError | undefined
  /** The URL that the plugin was imported from. */
  readonly url: string | undefined
  /** Services that the plugin says it provides (`export const provide`). */
  readonly declares: readonly string[]
  /** Services that it and its inner plugins do provide now. */
  readonly provides: readonly string[]
  readonly fiber: Fiber | undefined
  /** How long its module took to be found and loaded, and its last start, in milliseconds. */
  readonly importMs: number | undefined
  readonly startMs: number | undefined
}
