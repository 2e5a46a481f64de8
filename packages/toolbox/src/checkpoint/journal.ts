/**
 * What was put back for a session that is not open here, whose log is not ours to write: a file beside its contents.
 * An entry counts as if it stood in the log before event number `at`.
 */

import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { SessionEvent } from '@cambium/session'
import { KEPT, LEFT } from './events.ts'

export type JournalEvent = Pick<SessionEvent<typeof KEPT | typeof LEFT>, 'type' | 'data'> & { readonly at: number }

export const journalOf = ({ folder }: { readonly folder: string }): string => join(folder, 'restored.jsonl')

export function readJournal(path: string): JournalEvent[] {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    // There is none until something was put back.
    return []
  }
  return text.split('\n').flatMap(line => {
    try {
      const entry = JSON.parse(line) as JournalEvent
      return Number.isInteger(entry.at) && (entry.type === KEPT || entry.type === LEFT) ? [entry] : []
    } catch {
      // A line that was cut off in the writing; the empty one at the end.
      return []
    }
  })
}

/** @throws what the file system says: what cannot be told must not be done */
export function addToJournal(path: string, entries: readonly JournalEvent[]): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  // The line break comes first: what a killed writer has left of a line is no part of this one.
  appendFileSync(path, entries.map(entry => `\n${JSON.stringify(entry)}\n`).join(''), { mode: 0o600 })
}
