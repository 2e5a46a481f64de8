/** `cambium run`: one task, from the command line to its exit code. */

import { HarnessError, isHarnessError, type LogRecord, sleep } from '@cambium/core'
import { claim, ignoreTsconfig, type LoadedTree, loadTree, placeOf } from '@cambium/loader'
import { EXIT, exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { usageError } from './flags.ts'
import type { Host } from './host.ts'
import { findLayers, type Layers, withWayOut } from './layers/layers.ts'
import { failureReport } from './output.ts'
import { type RunOptions, readOptions } from './run-options.ts'
import { StatusLine } from './status-line.ts'
import { lookAt } from './surface.ts'
import { readTask } from './task.ts'

export { help } from './run-options.ts'

/** Resolves with the exit code. @throws `CLI_USAGE` */
export async function run(argv: readonly string[], host: Host): Promise<number> {
  const startedAt = performance.now()
  const options = readOptions(argv, host.cwd, host.env)
  const { terminal, redraws, color } = lookAt(host.stderr, host.env)
  const notes = new StatusLine(host.stderr, redraws)
  const ends = listenForEnd(host, terminal ? notes : undefined)
  // Standard output is the answer's alone; a plugin that logs to the console must not spoil it.
  const letOthersWrite = host.keepStdout()
  let layers: Layers | undefined
  try {
    const warn = (text: string) => {
      if (!options.quiet) notes.print(`cambium: ${text}`)
    }
    const task = await Promise.race([readTask(options.words, host.stdin, warn), ends.stopped])
    if (task === undefined) throw new Interrupted()
    if (!task && options.resume === undefined) {
      throw usageError('there is no task', 'write it as an argument, or pipe it in')
    }
    layers = await findLayers(options.layers)
    if (layers.notice) warn(layers.notice)
    if (layers.failure) throw layers.failure
    const tree = load(options, layers, task, host, notes)
    tree.ctx.provide('surface', { stdout: host.stdout, notes, terminal, color })
    return await runTree(tree, ends, notes)
  } catch (error) {
    if (isHarnessError(error) && error.code === 'CLI_USAGE') throw error
    const { aborted, reason } = ends.signal
    // What is given up when a signal comes fails in many ways.
    const failure = aborted
      ? { code: 'ABORTED', message: `interrupted: ${reason}` }
      : toFailure(layers ? withWayOut(error, layers) : error)
    const exitCode = aborted ? exitCodeOfSignal(reason) : exitCodeOf(failure)
    const stopReason = aborted ? 'interrupted' : 'failed'
    const durationMs = Math.round(performance.now() - startedAt)
    const facts = { cwd: options.cwd, durationMs, stopReason } as const
    host.stdout.write(failureReport(options.output, failure, exitCode, facts))
    notes.print(describeFailure(failure))
    return exitCode
  } finally {
    letOthersWrite()
    ends.undo()
  }
}

/** A signal came before the work had begun. */
class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** The installation's tree with the run as its last row. */
function load(options: RunOptions, layers: Layers, task: string, host: Host, notes: StatusLine): LoadedTree {
  const { cwd, model, resume, output, quiet } = options
  const config = { task, cwd, model, resume, output, quiet }
  const row = { id: 'headless', name: '@cambium/cli/headless', config }
  // The folder to work in may be somebody else's.
  ignoreTsconfig()
  const tree = loadTree(layers.tree, {
    env: host.env,
    patches: [...layers.patches, { file: layers.tree.file, data: [{ insert: [row] }] }],
    set: layers.set,
    ...(layers.writeTo === undefined ? {} : { writeTo: layers.writeTo }),
    level: quiet ? 'error' : 'warn',
    write: record => notes.print(logLine(record)),
  })
  for (const flag of options.limits) refuseIdleLimit(flag, tree)
  return tree
}

/** A limit that nobody keeps is worse than none. */
function refuseIdleLimit(flag: string, { source }: LoadedTree): void {
  const budget = source.rows.find(({ id }) => id === 'budget')
  if (!budget?.disabled) return
  throw new HarnessError('CLI_NO_BUDGET', `--${flag} would limit nothing: the row budget is disabled`, {
    where: placeOf(budget.written.entries.get('disabled')?.spot ?? budget.written.spot),
    fix: `enable it, or leave out --${flag}`,
  })
}

/** How long an end that was asked for may take, whatever a plugin does. */
const END_MS = 10_000

async function runTree(tree: LoadedTree, { signal, crashed }: Ends, notes: StatusLine): Promise<number> {
  let ending: Promise<void> | undefined
  const end = (reason?: string) => {
    ending ??= within(tree.dispose(reason), END_MS)
    return ending
  }
  let stop = () => {}
  const stopped = new Promise<undefined>(resolve => {
    stop = () => void end(String(signal.reason)).then(() => resolve(undefined))
  })
  signal.addEventListener('abort', stop)
  const failed = crashed.then(error => ({ error }))
  try {
    const stuck = await Promise.race([tree.mount(), failed, stopped])
    if (signal.aborted) throw new Interrupted()
    if (stuck) throw stuck.error
    tree.begin()
    const done = await Promise.race([tree.ended, failed, stopped])
    // Work that did not come to rest in time has no code of its own.
    if (done === undefined || (done === EXIT.failed && signal.aborted)) return exitCodeOfSignal(signal.reason)
    if (typeof done === 'number') return done
    // Standard output is the row's by now: it reports what it has when the tree is disposed.
    const failure = toFailure(done.error)
    notes.print(describeFailure(failure))
    await end(failure.message)
    return EXIT.failed
  } finally {
    signal.removeEventListener('abort', stop)
    await end()
  }
}

async function within(work: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController()
  await Promise.race([work, sleep(ms, over.signal)])
  over.abort()
}

function logLine({ level, text }: LogRecord): string {
  return level === 'warn' ? `warning: ${text}` : level === 'error' ? `error: ${text}` : text
}

interface Ends {
  /** Aborts when a person or the system asks for an end; the reason is the signal's name. */
  readonly signal: AbortSignal
  readonly stopped: Promise<undefined>
  /** Resolves with an error that nobody caught. */
  readonly crashed: Promise<unknown>
  undo(): void
}

/** The first signal asks for an orderly end, a second one ends the process at once. */
function listenForEnd(host: Host, notes: StatusLine | undefined): Ends {
  const stop = new AbortController()
  const release = host.owned
    ? claim('signals', { tree: 'the command line', name: 'cambium', at: undefined })
    : undefined
  let crash: (error: unknown) => void
  const crashed = new Promise<unknown>(resolve => {
    crash = resolve
  })
  const stopped = new Promise<undefined>(resolve => {
    stop.signal.addEventListener('abort', () => resolve(undefined))
  })
  const ignoreSignals = host.onSignal(signal => {
    if (stop.signal.aborted) return host.abort(exitCodeOfSignal(signal))
    notes?.print('stopping; once more to end at once')
    stop.abort(signal)
  })
  const ignoreCrashes = host.onCrash(error => crash(error))
  return {
    signal: stop.signal,
    stopped,
    crashed,
    undo() {
      ignoreSignals()
      ignoreCrashes()
      release?.()
    },
  }
}
