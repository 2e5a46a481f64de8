/** `cambium run`: one task, from the command line to its exit code. */

import { HarnessError, isHarnessError } from '@cambium/core'
import { type LoadedTree, placeOf } from '@cambium/loader'
import { exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import { usageError } from './flags.ts'
import type { Host } from './host.ts'
import { findLayers, type Layers, withWayOut } from './layers/layers.ts'
import { failureReport } from './output.ts'
import { type RunOptions, readOptions } from './run-options.ts'
import { StatusLine } from './status-line.ts'
import { lookAt } from './surface.ts'
import { readTask } from './task.ts'
import { Interrupted, listenForEnd, loadWith, runTree } from './tree-run.ts'

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
    if (!task && (options.resume === undefined || options.images.length)) {
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

/** The installation's tree with the run as its last row. */
function load(options: RunOptions, layers: Layers, task: string, host: Host, notes: StatusLine): LoadedTree {
  const { cwd, model, resume, fork, rewind, restoreFiles, force, images, output, quiet } = options
  const config = { task, cwd, model, resume, fork, rewind, restoreFiles, force, images, output, quiet }
  const tree = loadWith({ id: 'headless', name: '@cambium/cli/headless', config }, layers, host, notes, quiet)
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
