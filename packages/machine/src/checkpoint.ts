/**
 * Keeps what files were and puts them back: contents by their hash in a folder that the caller names, snapshots of a whole
 * folder before something unknown happens to it. Provides `ctx.snapshots`. Knows paths and contents, and nothing of
 * sessions or tools. A user's repository is only read.
 */

import { realpathSync } from 'node:fs'
import { type Context, Service } from '@cambium/core'
import Schema from 'schemastery'
import { FileHistory, type HistoryHost, type HistoryLimits } from './checkpoint/file-history.ts'

export { FileHistory } from './checkpoint/file-history.ts'
export { type Change, type FileState, sameState } from './checkpoint/file-state.ts'
export type { PathState, PutBackOptions, PutBackReport, PutBackTarget } from './checkpoint/put-back.ts'
export type { Changes, Watching } from './checkpoint/tree-watch.ts'

export const name = 'machine-checkpoint'
export const inject = ['fs', 'process']
export const provide = ['snapshots']

export interface Snapshots {
  /**
   * The history of `root`, its contents in `folder`. Touches neither; nothing is made before there is something to keep.
   * What lies in `leaveOut` is no part of it when the whole of `root` is looked at, and neither is `folder`.
   */
  open(folder: string, root: string, leaveOut?: readonly string[]): FileHistory
}

declare module 'cordis' {
  interface Context {
    /** What files were, kept by content, and the way back to it. */
    snapshots: Snapshots
  }
}

export interface Config {
  maxFileBytes: number
  maxFiles: number
  maxSnapshotBytes: number
  maxMs: number
  copyBytes: number
  maxTotalBytes: number
  skip: string[]
}

export const Config: Schema<Config> = Schema.object({
  maxFileBytes: Schema.natural()
    .default(32 * 2 ** 20)
    .description('Larger files are seen to change, and cannot be put back'),
  maxFiles: Schema.natural()
    .min(1)
    .default(50_000)
    .description('How many files and folders are looked at before a command; what lies deepest is left out first'),
  maxSnapshotBytes: Schema.natural()
    .default(128 * 2 ** 20)
    .description('How much content is copied before a command; files beyond cannot be put back'),
  maxMs: Schema.natural()
    .min(100)
    .default(10_000)
    .description('How long looking at a folder, and copying from it, may take before a command, in milliseconds'),
  copyBytes: Schema.natural()
    .default(8 * 2 ** 20)
    .description('In a work tree of more content than this, files that are clean in git are not copied: git has them'),
  maxTotalBytes: Schema.natural()
    .default(512 * 2 ** 20)
    .description('How much is kept for one session; what the oldest turns had changed goes first'),
  skip: Schema.array(Schema.string())
    .default([
      ...[
        'node_modules',
        'bower_components',
        '.venv',
        'venv',
        '__pycache__',
        '.tox',
        '.cache',
        '.gradle',
        '.terraform',
      ],
      ...['dist', 'build', 'out', 'target', 'coverage', '.next', '.nuxt', '.turbo', '.hg', '.svn'],
    ])
    .description('Folders that are left out where no git repository says what to ignore'),
})

export function apply(ctx: Context, config: Config) {
  new SnapshotService(ctx, config)
}

class SnapshotService extends Service implements Snapshots {
  private readonly host: HistoryHost
  private readonly limits: HistoryLimits

  constructor(ctx: Context, config: Config) {
    super(ctx, 'snapshots')
    this.host = { fs: ctx.fs, process: ctx.process }
    this.limits = config
  }

  open(folder: string, root: string, leaveOut: readonly string[] = []): FileHistory {
    return new FileHistory(folder, realOf(root), this.host, this.limits, [folder, ...leaveOut].map(realOf))
  }
}

function realOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    // A folder that is gone is put back where it was.
    return path
  }
}
