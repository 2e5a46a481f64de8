/** The process around a command: its streams, its folder, its signals. Tests bring their own. */

import type { Output } from './status-line.ts'
import type { Input } from './task.ts'

export interface Host {
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absolute. */
  readonly cwd: string
  /** Tells of signals that ask for an end, instead of ending the process, until the returned undo is called. */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void
  /** Tells of errors that nobody caught, instead of ending the process with a stack, until the undo is called. */
  onCrash(listener: (error: unknown) => void): () => void
  /** It is the process itself: what a process has once is its own. */
  readonly owned: boolean
  /** Ends the process now. */
  abort(exitCode: number): void
}

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

const CRASHES = ['uncaughtException', 'unhandledRejection']

export const processHost: Host = {
  // Node opens standard input at the first look at it.
  get stdin() {
    return process.stdin
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  cwd: process.cwd(),
  onSignal(listener) {
    for (const signal of SIGNALS) process.on(signal, listener)
    return () => {
      for (const signal of SIGNALS) process.off(signal, listener)
    }
  },
  onCrash(listener) {
    for (const name of CRASHES) process.on(name, listener)
    return () => {
      for (const name of CRASHES) process.off(name, listener)
    }
  },
  owned: true,
  abort: code => process.exit(code),
}
