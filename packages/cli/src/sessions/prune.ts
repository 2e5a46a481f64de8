/** `cambium sessions prune`: deletes what is old, or too much. */

import { HarnessError } from '@cambium/core'
import type { PruneOptions, PruneReport } from '@cambium/session'
import { EXIT } from '../exit-code.ts'
import { escapeControls, plural } from '../printable.ts'
import { fileSize, since } from './amounts.ts'
import { shortIds } from './short-id.ts'
import type { SessionsWork } from './work.ts'

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
    else await work.write(lines(plan, short))
    return EXIT.done
  }
  if (plan.removed.length) {
    if (!config.json) for (const line of lines(plan, short)) work.note(line.trimEnd())
    if (!(await work.confirmed(`delete ${plan.removed.length === 1 ? 'it' : `these ${plan.removed.length}`}?`))) {
      work.note('cambium: nothing was deleted')
      return EXIT.failed
    }
  }
  const report = plan.removed.length ? await store.prune(limits) : plan
  if (config.json) await work.sayJson({ dryRun: false, ...report })
  else {
    const { removed, freedBytes, kept } = report
    await work.say(`deleted ${plural(removed.length, 'session')}, ${fileSize(freedBytes)}; ${kept} left`)
    for (const line of skippedLines(report, short)) work.note(line.trimEnd())
  }
  return EXIT.done
}

function* lines(plan: PruneReport, short: (id: string) => string): Generator<string> {
  const now = Date.now()
  for (const { id, updatedAt, bytes, title = '' } of plan.removed) {
    yield `${short(id)}  ${since(updatedAt, now)}  ${fileSize(bytes)}  ${escapeControls(title)}`.trimEnd()
    yield '\n'
  }
  yield `${plural(plan.removed.length, 'session')} would go, ${fileSize(plan.freedBytes)}; ${plan.kept} would stay\n`
  yield* skippedLines(plan, short)
}

function* skippedLines({ skipped }: PruneReport, short: (id: string) => string): Generator<string> {
  for (const { id, why } of skipped) yield `stays: ${short(id)} (${escapeControls(why)})\n`
}
