/** Takes a recorded session through the loop once more and says where it goes another way: the heart of `cambium replay`. */

import type {} from '@cambium/agent'
import { type Context, workingFolder } from '@cambium/core'
import type {} from '@cambium/loader'
import type { StoredSession } from '@cambium/session'
import Schema from 'schemastery'
import { EXIT, exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { jsonText } from './printable.ts'
import { renderReport } from './replay/render.ts'
import { Replayer } from './replay/replayer.ts'
import { findSession, requireStore } from './sessions/find.ts'
import { lookAt, processSurface } from './surface.ts'

export const name = 'cambium-replay'
export const inject = ['agents', 'sessions', 'llm', 'tools']

export interface Config {
  session: string
  cwd?: string
  turn?: number
  runTools: boolean
  headers: boolean
  json: boolean
}
export const Config: Schema<Config> = Schema.object({
  session: Schema.string().default('').description('Its id, or a part of it; empty for the last of the folder'),
  cwd: Schema.string().description('The folder whose last session is meant, as an absolute path'),
  turn: Schema.natural().min(1).description('Only this turn; what was said before it is taken over'),
  runTools: Schema.boolean()
    .default(false)
    .description('Tools that change nothing run, and their results are compared'),
  headers: Schema.boolean().default(true).description('System prompt, tools and model are compared'),
  json: Schema.boolean().default(false).description('One JSON object instead of lines'),
})

/** Between the tree that has the session and the one that replays it, whose store is another one. */
export interface ReplaySource {
  stored?: StoredSession
}

declare module 'cordis' {
  interface Context {
    /** What is to be replayed; absent where no command of ours mounted the tree. */
    replaySource: ReplaySource
  }
}

export function apply(ctx: Context, config: Config) {
  const surface = ctx.get('surface') ?? processSurface()
  const source = ctx.get('replaySource') ?? {}

  const read = async () => {
    const store = requireStore(ctx.get('sessionPersistence'))
    const { id } = await findSession(store, config.session, config.cwd ?? workingFolder())
    source.stored = await store.read(id)
    for (const notice of source.stored.notices) surface.notes.print(`warning: ${notice}`)
    return EXIT.done
  }

  const replay = async (stored: StoredSession, signal: AbortSignal) => {
    const { turn, runTools, headers, json } = config
    const progress = (text: string) => surface.notes.set(text)
    const report = await new Replayer(ctx, stored, { turn, runTools, headers, signal, progress }).run()
    surface.notes.set('')
    const color = lookAt(surface.stdout, process.env).color
    surface.stdout.write(json ? jsonText(report, 2) : renderReport(report, color))
    if (signal.aborted) return exitCodeOfSignal(signal.reason)
    return report.same ? EXIT.done : EXIT.failed
  }

  ctx.app.main(async signal => {
    try {
      return source.stored ? await replay(source.stored, signal) : await read()
    } catch (error) {
      const failure = toFailure(error)
      surface.notes.set('')
      surface.notes.print(describeFailure(failure))
      return exitCodeOf(failure)
    }
  })
}
