/** Whether the arguments of a call, as text, are whole. */

import { isRecord } from '../web/value.ts'

export function isObject(text: string): boolean {
  try {
    return isRecord(JSON.parse(text))
  } catch {
    return false
  }
}

/** Blank arguments are complete: they mean none. */
export const isComplete = (text: string): boolean => !text.trim() || isObject(text)
