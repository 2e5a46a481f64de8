/** The process around a command: its streams, its folder, its signals. Tests bring their own. */

import { fstatSync, writeSync } from 'node:fs'
import { Readable } from 'node:stream'
import { HarnessError, workingFolder } from '@cambium/core'
import { EXIT } from './exit-code.ts'
import type { Output } from './status-line.ts'
import type { Input } from './task.ts'

export interface Host {
  readonly stdin: Input
  /** Where a person can answer a question; absent when there is none. */
  readonly keyboard?: Readable | undefined
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  /** Absolute. @throws `NO_WORKING_FOLDER` */
  readonly cwd: string
  /** Tells of signals that ask for an end, instead of ending the process, until the returned undo is called. */
  onSignal(listener: (signal: NodeJS.Signals) => void): () => void
  /**
   * Tells of errors that nobody caught, instead of ending the process with a stack, until the undo is called; also when
   * nothing is left that could go on, which would end the process as if all were done.
   */
  onCrash(listener: (error: unknown) => void): () => void
  /** Until the undo is called, an exit with code 0 that somebody else asks for becomes a failure and says so. */
  guardExit(): () => void
  /** Until the undo is called, what others write to standard output goes to standard error. */
  keepStdout(): () => void
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

const stalled = () =>
  new HarnessError('CLI_STALLED', 'the work is not done, and nothing is left that it could wait for', {
    fix: 'look for a plugin, a tool or a listener that waits for something that never comes',
  })

const write = process.stdout.write.bind(process.stdout)

export const processHost: Host = {
  get stdin() {
    return isDevice(0) ? NO_INPUT : process.stdin
  },
  get keyboard() {
    return isDevice(0) && process.stdin.isTTY && process.stderr.isTTY ? process.stdin : undefined
  },
  stdout: {
    isTTY: process.stdout.isTTY,
    get columns() {
      return process.stdout.columns
    },
    write,
    on: process.stdout.on.bind(process.stdout),
    off: process.stdout.off.bind(process.stdout),
    once: process.stdout.once.bind(process.stdout),
  },
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
    const drained = () => listener(stalled())
    process.on('beforeExit', drained)
    for (const name of CRASHES) process.on(name, listener)
    return () => {
      process.off('beforeExit', drained)
      for (const name of CRASHES) process.off(name, listener)
    }
  },
  guardExit() {
    const exiting = (code: number) => {
      if (code) return
      process.exitCode = EXIT.failed
      try {
        writeSync(2, 'cambium: the process was ended before the work was done\n')
      } catch {
        // Standard error is gone; the exit code says it.
      }
    }
    process.on('exit', exiting)
    return () => void process.off('exit', exiting)
  },
  keepStdout() {
    process.stdout.write = process.stderr.write.bind(process.stderr)
    return () => {
      process.stdout.write = write
    }
  },
  owned: true,
  abort: code => process.exit(code),
}
