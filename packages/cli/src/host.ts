/** The process around a command: its streams, its folder, its signals. Tests bring their own. */

import { fstatSync } from 'node:fs'
import { Readable } from 'node:stream'
import { workingFolder } from '@cambium/core'
import type { Output } from './status-line.ts'
import type { Input } from './task.ts'

export interface Host {
  readonly stdin: Input
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absolute. @throws `NO_WORKING_FOLDER` */
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

/** What a terminal brings, since it is not read. */
const NO_INPUT: Input = Object.assign(Readable.from([]), { isTTY: true })

/** A terminal or /dev/null: opening it, as Node does at the first look at `process.stdin`, costs a tenth of a start. */
function isDevice(descriptor: number): boolean {
  try {
    return fstatSync(descriptor).isCharacterDevice()
  } catch {
    // Closed, or unknown to this system: Node's own stream tells.
    return false
  }
}

export const processHost: Host = {
  get stdin() {
    return isDevice(0) ? NO_INPUT : process.stdin
  },
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  get cwd() {
    return workingFolder()
  },
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
