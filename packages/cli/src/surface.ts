/** Where a run shows itself: standard output and standard error. */

import type {} from '@cambium/core'
import type { Host } from './host.ts'
import { type Output, StatusLine } from './status-line.ts'

export interface Surface {
  readonly stdout: Output
  /** Everything that goes to standard error. */
  readonly notes: StatusLine
  /** Standard error is a terminal: progress is shown. */
  readonly terminal: boolean
  readonly color: boolean
  /** Where a person can be asked, and what is piped in; for commands that take either. */
  readonly input?: Pick<Host, 'keyboard' | 'stdin'>
}

/** Whether a stream is a terminal, one that redraws, and one that shows colours. */
export function lookAt(stream: Output, env: Readonly<Record<string, string | undefined>>) {
  const terminal = stream.isTTY === true
  const redraws = terminal && env.TERM !== 'dumb'
  return { terminal, redraws, color: redraws && !env.NO_COLOR }
}

declare module 'cordis' {
  interface Context {
    /** Where the command that mounted the tree writes; absent when something else mounted it. */
    surface: Surface
  }
}

/** The process's own, for a tree that no command of ours mounted. */
export function processSurface(): Surface {
  const { terminal, redraws, color } = lookAt(process.stderr, process.env)
  const notes = new StatusLine(process.stderr, redraws)
  return { stdout: process.stdout, notes, terminal, color }
}
