/** Lists, shows, copies, deletes and moves the sessions of the tree that it stands in: the heart of `cambium sessions`. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/loader'
import type {} from '@cambium/session'
import Schema from 'schemastery'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { VERBS, type Verb } from './sessions/verbs.ts'
import { SessionsWork } from './sessions/work.ts'

export const name = 'cambium-sessions'
export const inject = ['sessions']

export interface Config {
  verb: Verb
  words: string[]
  cwd?: string
  all: boolean
  limit?: number
  json: boolean
  turn?: string
  full: boolean
  raw: boolean
  rebuild: boolean
  restoreFiles: boolean
  dryRun: boolean
  force: boolean
  yes: boolean
  olderThanMs?: number
  keep?: number
  maxTotalBytes?: number
  format: 'markdown' | 'json'
  output?: string
  redact: boolean
  id?: string
  moved: boolean
}

const off = (text: string) => Schema.boolean().default(false).description(text)

export const Config: Schema<Config> = Schema.object({
  verb: Schema.union([...VERBS])
    .default('list')
    .description('What is done'),
  words: Schema.array(Schema.string())
    .default([])
    .description('Ids of sessions or parts of them, words to look for, or the file to import'),
  cwd: Schema.string().description(
    'The folder whose sessions are meant; the one that the command was started in by default',
  ),
  all: off('Sessions of all folders'),
  limit: Schema.natural().min(1).description('How many are listed or found at most'),
  json: off('One JSON object'),
  turn: Schema.string().description('A turn by its number, or `last`'),
  full: off('Nothing is shortened'),
  raw: off('The events as they are stored'),
  rebuild: off('Makes the index anew before it is searched'),
  restoreFiles: off('Puts the files back to what they were before the turn'),
  dryRun: off('Tells what would be done, and does nothing'),
  force: off('Restores also files that others have changed since'),
  yes: off('Does not ask'),
  olderThanMs: Schema.natural().description('Sessions that nobody has written for so long are pruned'),
  keep: Schema.natural().description('So many of the newest are not pruned'),
  maxTotalBytes: Schema.natural().description('The oldest are pruned until the rest takes no more'),
  format: Schema.union(['markdown', 'json'] as const)
    .default('markdown')
    .description('The form of an export'),
  output: Schema.string().description('The file that is exported to, as an absolute path; standard output by default'),
  redact: Schema.boolean().default(true).description('Known keys and tokens are left out of an export'),
  id: Schema.string().description('The id that an imported session gets; its own by default'),
  moved: off('An imported session works in `cwd` from now on'),
})

/** Each is loaded when it is asked for. */
const WORK: Record<Verb, () => Promise<{ run(work: SessionsWork): Promise<number> }>> = {
  list: () => import('./sessions/list.ts'),
  show: () => import('./sessions/show.ts'),
  search: () => import('./sessions/search.ts'),
  fork: () => import('./sessions/fork.ts'),
  rewind: () => import('./sessions/rewind.ts'),
  delete: () => import('./sessions/delete.ts'),
  prune: () => import('./sessions/prune.ts'),
  export: () => import('./sessions/export.ts'),
  import: () => import('./sessions/import.ts'),
}

export function apply(ctx: Context, config: Config) {
  ctx.app.main(async signal => {
    const work = new SessionsWork(ctx, config, signal)
    try {
      return await (await WORK[config.verb]()).run(work)
    } catch (error) {
      const failure = toFailure(error)
      work.note(describeFailure(failure))
      return exitCodeOf(failure)
    } finally {
      work.release()
    }
  })
}
