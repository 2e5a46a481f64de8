/** A tree with the work of one command as its last row: how it is mounted, watched and ended. */

import { type LogRecord, sleep } from '@cambium/core'
import { claim, ignoreTsconfig, type LoadedTree, loadTree } from '@cambium/loader'
import { EXIT, exitCodeOfSignal } from './exit-code.ts'
import { describeFailure, toFailure } from './failure.ts'
import type { Host } from './host.ts'
import type { Layers } from './layers/layers.ts'
import type { StatusLine } from './status-line.ts'

/** The row that does a command's work: a plugin that registers it by `ctx.app.main`. */
export interface WorkRow {
  readonly id: string
  /** As a row names a module. */
  readonly name: string
  readonly config: object
}

/** A signal came before the work had begun. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** The installation's tree under its layers, with `row` behind all others. `quiet` leaves errors of what is logged. */
export function loadWith(row: WorkRow, layers: Layers, host: Host, notes: StatusLine, quiet: boolean): LoadedTree {
  // The folder to work in may be somebody else's.
  ignoreTsconfig()
  return loadTree(layers.tree, {
    env: host.env,
    patches: [...layers.patches, { file: layers.tree.file, data: [{ insert: [row] }] }],
    set: layers.set,
    ...(layers.writeTo === undefined ? {} : { writeTo: layers.writeTo }),
    level: quiet ? 'error' : 'warn',
    write: record => notes.print(logLine(record)),
  })
}

/** How long an end that was asked for may take, whatever a plugin does. */
const END_MS = 10_000

/** Mounts the tree, waits until its work is done and takes it down. Resolves with the exit code. @throws {@link Interrupted} */
export async function runTree(tree: LoadedTree, { signal, crashed }: Ends, notes: StatusLine): Promise<number> {
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

export interface Ends {
  /** Aborts when a person or the system asks for an end; the reason is the signal's name. */
  readonly signal: AbortSignal
  readonly stopped: Promise<undefined>
  /** Resolves with an error that nobody caught. */
  readonly crashed: Promise<unknown>
  undo(): void
}

/** The first signal asks for an orderly end, a second one ends the process at once. */
export function listenForEnd(host: Host, notes: StatusLine | undefined): Ends {
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
