/** `cambium sessions delete`: for good. */

import { isHarnessError } from '@cambium/core'
import type { SessionSummary } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { describeFailure, toFailure } from '../failure.ts'
import { escapeControls, plural } from '../printable.ts'
import { fileSize } from './amounts.ts'
import { pickSession } from './find.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

export async function run(work: SessionsWork): Promise<number> {
  const { config, store } = work
  const all = await store.list()
  const short = shortIds(all)
  // All of them are found before the first one goes.
  const chosen = [...new Set(config.words.map(word => pickSession(all, word)))]
  const ids = new Set(chosen.map(({ id }) => id))
  const copies = all.filter(({ id, parent }) => parent && ids.has(parent.id) && !ids.has(id))
  for (const summary of chosen) work.note(line(summary, short))
  if (copies.length) work.note(copiesLine(copies, short))
  if (!(await work.confirmed(`delete ${chosen.length === 1 ? 'it' : `these ${chosen.length}`}?`))) {
    work.note('cambium: nothing was deleted')
    return EXIT.failed
  }
  let failed = 0
  for (const { id } of chosen) {
    try {
      await store.delete(id)
      await work.say(`deleted ${id}`)
    } catch (error) {
      if (!isHarnessError(error)) throw error
      failed++
      work.note(describeFailure(toFailure(error)))
    }
  }
  return failed ? EXIT.failed : EXIT.done
}

const line = ({ id, title, bytes, cwd }: SessionSummary, short: (id: string) => string) =>
  `${short(id)}  ${fileSize(bytes)}  ${escapeControls(title ?? '(nothing said yet)')}${cwd ? `  (${escapeControls(cwd)})` : ''}`

const MAX_NAMED = 5

/** A copy has the whole conversation; only long results that lie in its parent's folder go with that. */
function copiesLine(copies: readonly SessionSummary[], short: (id: string) => string): string {
  const named = copies.slice(0, MAX_NAMED).map(({ id }) => short(id))
  const more = copies.length > MAX_NAMED ? ` and ${copies.length - MAX_NAMED} more` : ''
  const stay = copies.length === 1 ? 'stays' : 'stay'
  return `${plural(copies.length, 'copy').replace('copys', 'copies')} of it ${stay}: ${named.join(', ')}${more}; what they refer to in its files is gone then`
}
