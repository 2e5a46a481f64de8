/** What `cambium run` can be told. */

import { resolve } from 'node:path'
import {
  describeFlags,
  type FlagTable,
  readChoice,
  readCount,
  readDuration,
  readFlags,
  readWord,
  usageError,
} from './flags.ts'
import type { LayerOptions } from './layers/layer.ts'
import { LAYER_FLAGS, layerOptions } from './layers/layer-options.ts'
import { OUTPUT_FORMS, type OutputForm } from './output.ts'
import { looksLikeId } from './sessions/short-id.ts'
import { readTurn } from './sessions/turn.ts'

const MODES = ['full'] as const

const FLAGS: FlagTable = {
  model: {
    value: '<model>',
    short: 'm',
    help: 'provider/model, a provider, or auto: the first one that has a key (default)',
  },
  effort: { value: '<effort>', help: "how hard it thinks, such as low or high; the model's own measure by default" },
  image: {
    value: '<file>',
    many: true,
    help: 'a picture that belongs to the task (PNG, JPEG, GIF, WebP); may be repeated',
  },
  cwd: { value: '<folder>', short: 'C', help: 'the folder to work in; this one by default' },
  output: {
    value: '<form>',
    short: 'o',
    help: 'text: only the answer (default)\njson: one object with answer, usage, cost, session, stop reason\njsonl: the session events as they happen, then the same object',
  },
  resume: {
    value: '<id>',
    optional: namesSession,
    short: 'r',
    help: 'take up a session: its id, its beginning or end, or the last of this folder;\nwithout a task it goes on with what was interrupted',
  },
  continue: { short: 'c', help: 'take up the last session of this folder' },
  fork: { help: 'with one of these two: go on in a copy of it' },
  rewind: {
    value: '<turn>',
    help: 'with one of these two: the task takes the place of that turn, in a copy\nthat ends before it; its number, as cambium sessions show has it, or last',
  },
  'restore-files': { help: 'with --rewind: put the files back to what they were then' },
  force: { help: 'with --restore-files: also over files that others have changed' },
  'max-steps': { value: '<n>', help: 'requests to the model before it has to sum up' },
  timeout: { value: '<time>', help: 'how long it may take: seconds, or 90s, 5m, 1h' },
  mode: { value: '<mode>', help: 'full: every tool runs without asking (default, and the only one yet)' },
  ...LAYER_FLAGS,
  quiet: { short: 'q', help: 'nothing on standard error but failures' },
  help: { short: 'h', help: 'this text' },
}

/** A word that is no part of an id begins the task, unless a task in quotes stands behind it: what it names has to be there. */
function namesSession(word: string, others: readonly string[]): boolean {
  return looksLikeId(word) || (/^[\w.-]+$/.test(word) && others.length === 1 && /\s/.test(others[0]!))
}

/** What `cambium run --help` prints. */
export function help(): string {
  return `usage: cambium run [flags] "task"
       git diff | cambium run "review this"
       cambium run --image shot.png "what is wrong here?"
       cambium run --resume 3f9ac1d2 --rewind 4 "what I should have said"

Gives an agent a task and prints its answer on standard output. What is piped in is given to the
model behind the task, or is the task. Progress goes to standard error, on a terminal only.

${describeFlags(FLAGS)}

exit codes:
  0    done
  1    failed: the model or a server failed, or there was no answer
  2    the command line, or something that it names, is wrong
  3    stopped by a limit: --max-steps, --timeout, a budget, or the model's output limit
  4    refused by policy
  130  interrupted (143 by SIGTERM, 129 by a closed terminal); the session can be taken up again

environment: OPENAI_API_KEY, OPENAI_BASE_URL, and the same for ANTHROPIC, DEEPSEEK and others;
             CAMBIUM_HOME is where sessions and cordis.patch.yml are kept (~/.cambium)
`
}

export interface RunOptions {
  /** The task's words on the command line. */
  readonly words: readonly string[]
  readonly output: OutputForm
  readonly quiet: boolean
  readonly cwd: string
  readonly model: string | undefined
  readonly resume: string | undefined
  readonly fork: boolean
  /** A turn's number, or `last`. */
  readonly rewind: string | undefined
  readonly restoreFiles: boolean
  readonly force: boolean
  /** Absolute. */
  readonly images: readonly string[]
  /** With the values that other flags stand for. */
  readonly layers: LayerOptions
  /** Flags that ask the budget for a limit. */
  readonly limits: readonly string[]
}

/** @throws `CLI_USAGE` */
export function readOptions(argv: readonly string[], folder: string, env: LayerOptions['env']): RunOptions {
  const line = readFlags(argv, FLAGS)
  const one = (name: string) => line.flags.get(name)?.[0]
  const model = one('model')
  const effort = one('effort')
  const steps = one('max-steps')
  const timeout = one('timeout')
  if (line.flags.has('continue') && line.flags.has('resume'))
    throw usageError('--continue and --resume exclude each other')
  const resumes = line.flags.has('continue') || line.flags.has('resume')
  for (const flag of ['fork', 'rewind']) {
    if (line.flags.has(flag) && !resumes) throw usageError(`--${flag} goes with --resume or --continue`)
  }
  if (line.flags.has('fork') && line.flags.has('rewind')) {
    throw usageError('--fork and --rewind exclude each other', '--rewind goes on in a copy anyway')
  }
  if (line.flags.has('restore-files') && !line.flags.has('rewind')) {
    throw usageError('--restore-files goes with --rewind')
  }
  if (line.flags.has('force') && !line.flags.has('restore-files')) throw usageError('--force goes with --restore-files')
  const rewind = one('rewind')
  readChoice('mode', one('mode') ?? 'full', MODES)
  const cwd = resolve(folder, one('cwd') ?? '.')
  const layers = layerOptions(line, env, folder, cwd)
  return {
    words: line.words,
    output: readChoice('output', one('output') ?? 'text', OUTPUT_FORMS),
    quiet: line.flags.has('quiet'),
    cwd,
    model,
    resume: line.flags.has('continue') ? '' : one('resume'),
    fork: line.flags.has('fork'),
    rewind: rewind === undefined ? undefined : readTurn('rewind', rewind),
    restoreFiles: line.flags.has('restore-files'),
    force: line.flags.has('force'),
    images: (line.flags.get('image') ?? []).map(file => resolve(folder, file)),
    layers: {
      ...layers,
      set: [
        ...(effort === undefined ? [] : [`loop.effort="${readWord('effort', effort)}"`]),
        ...(steps === undefined ? [] : [`budget.turn.maxSteps=${readCount('max-steps', steps)}`]),
        ...(timeout === undefined ? [] : [`budget.turn.maxWallMs=${readDuration('timeout', timeout)}`]),
        ...layers.set,
      ],
    },
    limits: ['max-steps', 'timeout'].filter(name => line.flags.has(name)),
  }
}
