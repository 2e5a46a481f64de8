/** `cordis start`: several trees in one process, from their files to the exit code. */

import { errorMessage, isHarnessError } from '@cambium/core'
import { type BootOptions, type LoadedTree, loadTree } from './boot.ts'
import { claim } from './claim.ts'
import { strayLayers } from './file/layers.ts'
import type { TreeSource } from './file/load.ts'
import { mistakesOf } from './mistakes.ts'
import { isTold } from './modules/told-errors.ts'

export interface StartOptions extends BootOptions {
  /** Bound of an orderly end, in milliseconds; after it the process ends as it is. */
  shutdownMs?: number
}

const SHUTDOWN_MS = 10_000
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

/**
 * Starts a tree per source, in order, and resolves with the exit code when all have ended. Every mistake is written to
 * standard error. Nothing is mounted before all trees have been checked; when one cannot start, those before it are
 * disposed again.
 */
export async function startTrees(sources: readonly TreeSource[], options: StartOptions = {}): Promise<number> {
  const say = (text: string) => {
    if (options.level !== 'silent') process.stderr.write(`${text}\n`)
  }
  const complain = (error: unknown) => {
    const text = isHarnessError(error) || !(error instanceof Error) ? errorMessage(error) : error.stack
    process.stderr.write(`cordis: ${text}\n`)
  }
  const trees: LoadedTree[] = []
  let stopping: Promise<void> | undefined
  const stop = (reason: string) => {
    stopping ??= within(disposeAll(trees, reason), options.shutdownMs ?? SHUTDOWN_MS, complain)
    return stopping
  }
  const ends = listenForEnd(stop, complain)
  try {
    if (!(await load(sources, options, trees, complain))) {
      await stop('failed')
      return ends.code() ?? 1
    }
    for (const tree of trees) {
      if (stopping) break
      await tree.mount()
      if (stopping) break
      say(`cordis: ${tree.source.label} is up${summary(tree)}`)
    }
    for (const tree of trees) tree.begin()
    const codes = await Promise.race([Promise.all(trees.map(tree => tree.ended)), ends.forced])
    await stopping
    return typeof codes === 'number' ? codes : (ends.code() ?? Math.max(0, ...codes))
  } catch (error) {
    if (ends.code() === undefined) complain(error)
    await stop('failed')
    return ends.code() ?? 1
  } finally {
    ends.undo()
  }
}

/** Loads all trees and says everything that is wrong with any of them. */
async function load(
  sources: readonly TreeSource[],
  options: BootOptions,
  trees: LoadedTree[],
  complain: (error: unknown) => void,
): Promise<boolean> {
  let sound = true
  const refuse = (error: unknown) => {
    sound = false
    complain(error)
  }
  for (const source of sources) {
    try {
      trees.push(loadTree(source, { ...options, unmatched: sources.length > 1 ? 'report' : 'refuse' }))
    } catch (error) {
      if (!mistakesOf(error).length) throw error
      refuse(error)
    }
  }
  if (sound) for (const mistake of strayLayers(trees.map(({ source }) => source))) refuse(mistake)
  // A single tree is checked by its start.
  if (!sound || trees.length > 1) for (const tree of trees) await tree.check().catch(refuse)
  return sound
}

async function disposeAll(trees: readonly LoadedTree[], reason: string): Promise<void> {
  for (const tree of [...trees].reverse()) await tree.dispose(reason)
}

function summary({ tree }: LoadedTree): string {
  const counts = new Map<string, number>()
  for (const { row, state } of tree.rows()) {
    if (row.kind === 'plugin' && state !== 'disabled') counts.set(state, (counts.get(state) ?? 0) + 1)
  }
  const rows = [...counts].map(([state, count]) => `${count} ${state}`).join(', ')
  return rows ? ` (${rows})` : ' (no rows)'
}

/**
 * The first signal ends the trees in order, a second one the process at once. What a plugin leaves unhandled ends the
 * trees in order too, with code 1. While it listens, the process stays up without further work.
 */
function listenForEnd(stop: (reason: string) => Promise<void>, complain: (error: unknown) => void) {
  const release = claim('signals', { tree: 'cordis start', name: 'the cordis command', at: undefined })
  const alive = setInterval(() => {}, 2 ** 30)
  let code: number | undefined
  let force: (code: number) => void
  const forced = new Promise<number>(resolve => {
    force = resolve
  })
  const begin = (wanted: number, reason: string) => {
    code = wanted
    void stop(reason).then(() => force(wanted))
  }
  const onSignal = (signal: keyof typeof SIGNALS) => {
    if (code !== undefined) process.exit(SIGNALS[signal])
    begin(SIGNALS[signal], signal)
  }
  const onUncaught = (error: unknown) => {
    complain(error)
    if (code === undefined) begin(1, 'failed')
  }
  const onUnhandled = async (error: unknown) => {
    if (!(await isTold(error))) onUncaught(error)
  }
  for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal)
  process.on('unhandledRejection', onUnhandled)
  process.on('uncaughtException', onUncaught)
  return {
    code: () => code,
    forced,
    undo() {
      clearInterval(alive)
      release()
      for (const signal of Object.keys(SIGNALS)) process.off(signal, onSignal)
      process.off('unhandledRejection', onUnhandled)
      process.off('uncaughtException', onUncaught)
    },
  }
}

async function within(work: Promise<void>, ms: number, complain: (error: unknown) => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<void>(resolve => {
    timer = setTimeout(() => {
      complain(`the trees did not end within ${ms} ms and were left as they are`)
      resolve()
    }, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
