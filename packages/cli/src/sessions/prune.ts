/** `cambium sessions prune`: deletes what is old, or too much. */

import { HarnessError } from '@cambium/core'
import type { PruneOptions, PruneReport } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { escapeControls, plural } from '../printable.ts'
import { fileSize, since } from './amounts.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

const UNLIMITED =
  'cambium: nothing is too old or too much: no limit is set\n  say --older-than, --keep or --max-size, or set jsonl.retention for good'

export async function run(work: SessionsWork): Promise<number> {
  const { config, store, cwd } = work
  if (!store.prune) {
    throw new HarnessError('CLI_NO_PRUNE', 'the store of this tree cannot prune', {
      fix: 'delete single ones: cambium sessions delete <id>',
    })
  }
  const { olderThanMs, keep, maxTotalBytes } = config
  const limits: PruneOptions = {
    ...(olderThanMs === undefined ? {} : { olderThanMs }),
    ...(keep === undefined ? {} : { keep }),
    ...(maxTotalBytes === undefined ? {} : { maxTotalBytes }),
    ...(config.all ? {} : { cwd }),
  }
  const short = shortIds(await store.list())
  const plan = await store.prune({ ...limits, dryRun: true })
  if (config.dryRun) {
    if (config.json) await work.sayJson({ dryRun: true, ...plan })
    else if (plan.unlimited) work.note(UNLIMITED)
    else await work.say([...lines(plan, short)].join('\n'))
    return EXIT.done
  }
  if (plan.removed.length) {
    if (!config.json) for (const line of lines(plan, short)) work.note(line)
    if (!(await work.confirmed(`delete ${plan.removed.length === 1 ? 'it' : `these ${plan.removed.length}`}?`))) {
      work.note('cambium: nothing was deleted')
      return EXIT.failed
    }
  }
  const report = plan.removed.length ? await store.prune(limits) : plan
  if (config.json) await work.sayJson({ dryRun: false, ...report })
  else if (report.unlimited) work.note(UNLIMITED)
  else {
    const { removed, freedBytes, kept } = report
    await work.say(`deleted ${plural(removed.length, 'session')}, ${fileSize(freedBytes)}; ${kept} left`)
    for (const line of skippedLines(report, short)) work.note(line)
  }
  return report.removed.length < plan.removed.length ? EXIT.failed : EXIT.done
}

function* lines(plan: PruneReport, short: (id: string) => string): Generator<string> {
  const now = Date.now()
  for (const { id, updatedAt, bytes, title = '' } of plan.removed) {
    yield `${short(id)}  ${since(updatedAt, now)}  ${fileSize(bytes)}  ${escapeControls(title)}`.trimEnd()
  }
  yield `${plural(plan.removed.length, 'session')} would go, ${fileSize(plan.freedBytes)}; ${plan.kept} would stay`
  yield* skippedLines(plan, short)
}

function* skippedLines({ skipped }: PruneReport, short: (id: string) => string): Generator<string> {
  for (const { id, why } of skipped) yield `stays: ${short(id)} (${escapeControls(why)})`
}
