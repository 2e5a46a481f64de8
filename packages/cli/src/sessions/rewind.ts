/** `cambium sessions rewind`: a copy that ends before a turn, and on demand the files as they were then. */

import { textOf } from '@cambium/llm'
import { rewindPoint } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { usageError } from '../flags.ts'
import { oneLine } from '../printable.ts'
import { rewindSession, turnOf } from './copy.ts'
import { refuseLive, requireCheckpoints, restoreFiles, restoreLines } from './restore.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

export async function run(work: SessionsWork): Promise<number> {
  const { config, ctx, ended: signal } = work
  const { turn: wanted, force, dryRun, json } = config
  if (wanted === undefined) throw usageError('rewind needs --turn', 'write --turn 3, or --turn last')
  const { summary, stored, all } = await work.open()
  for (const notice of stored.notices) work.note(`cambium: ${notice}`)
  const { seq, turn } = rewindPoint(summary.id, stored.events, { turn: turnOf(stored, wanted) })
  const files = config.restoreFiles ? requireCheckpoints(ctx) : undefined
  if (files && !dryRun) refuseLive(summary, force)
  if (dryRun) {
    const report = await files!.restore(stored, seq, { dryRun: true, signal })
    if (json) await work.sayJson({ files: report })
    else await work.write(restoreLines(report, false).map(line => `${line}\n`))
    return report.conflicts.length && !force ? EXIT.failed : EXIT.done
  }
  const report = files && (await restoreFiles(files, stored, seq, { force, signal }))
  const { back, message, earlier, ...copy } = await rewindSession(ctx.sessions, stored, turn)
  const said = message ? textOf(message) : ''
  if (json) {
    await work.sayJson({ ...copy, back, said: message?.content ?? [], earlier, ...(report ? { files: report } : {}) })
    return EXIT.done
  }
  await work.say(copy.id)
  for (const line of report ? restoreLines(report, true) : []) work.note(line)
  const short = shortIds([...all, copy])
  work.note(
    `a copy of ${short(summary.id)} that ends before turn ${back}; go on with: cambium run --resume ${short(copy.id)} "…"`,
  )
  if (said) work.note(`that turn was asked: ${oneLine(said, 600)}`)
  return EXIT.done
}
