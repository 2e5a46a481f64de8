/** Lists, shows, copies, deletes and moves the sessions of the tree that it stands in: the heart of `cambium sessions`. */

import type { Context } from '@cambium/core'
import type {} from '@cambium/loader'
import type {} from '@cambium/session'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { SessionsConfig } from './sessions/config.ts'
import type { Verb } from './sessions/verbs.ts'
import { SessionsWork } from './sessions/work.ts'

export const name = 'cambium-sessions'
export const inject = ['sessions']

export type Config = SessionsConfig
export const Config = SessionsConfig

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
