/** Several accounts of one model as one. */

import type { ModelInfo } from '../stream.ts'

/** Of each fact the first account that has it; undefined where there is no account at all. */
export function mergedInfo(id: string, ...accounts: readonly (ModelInfo | undefined)[]): ModelInfo | undefined {
  const told = accounts.filter(account => account !== undefined)
  return told.length ? Object.assign({}, ...told.reverse(), { id }) : undefined
}
