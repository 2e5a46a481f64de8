/** A command whose work is a row: the tree is mounted with it as the last one, and taken down when it is done. */

import { type Context, isHarnessError } from '@cambium/core'
import { exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, exitCodeOf, toFailure } from './failure.ts'
import type { Host } from './host.ts'
import type { LayerOptions } from './layers/layer.ts'
import { findLayers, type Layers, withWayOut } from './layers/layers.ts'
import { StatusLine } from './status-line.ts'
import { lookAt } from './surface.ts'
import { listenForEnd, loadWith, runTree, type WorkRow } from './tree-run.ts'

/** `prepare` gives the tree what the row needs and no config can hold. Resolves with the exit code. @throws `CLI_USAGE` */
export async function runRow(
  row: WorkRow,
  options: LayerOptions,
  host: Host,
  prepare?: (ctx: Context) => void,
): Promise<number> {
  const { terminal, redraws, color } = lookAt(host.stderr, host.env)
  const notes = new StatusLine(host.stderr, redraws)
  const ends = listenForEnd(host, terminal ? notes : undefined)
  const letOthersWrite = host.keepStdout()
  let layers: Layers | undefined
  try {
    layers = await findLayers(options)
    if (layers.notice) notes.print(`cambium: ${layers.notice}`)
    if (layers.failure) throw layers.failure
    const tree = loadWith(row, layers, host, notes, false)
    const input = {
      get keyboard() {
        return host.keyboard
      },
      get stdin() {
        return host.stdin
      },
    }
    tree.ctx.provide('surface', { stdout: host.stdout, notes, terminal, color, input })
    prepare?.(tree.ctx)
    return await runTree(tree, ends, notes)
  } catch (error) {
    if (isHarnessError(error) && error.code === 'CLI_USAGE') throw error
    if (ends.signal.aborted) return exitCodeOfSignal(ends.signal.reason)
    const failure = toFailure(layers ? withWayOut(error, layers) : error)
    notes.print(describeFailure(failure))
    return exitCodeOf(failure)
  } finally {
    letOthersWrite()
    ends.undo()
  }
}
