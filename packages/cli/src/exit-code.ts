/** How the command ends, as scripts see it. `cambium run --help` and the README list the same codes. */

import { constants } from 'node:os'

export const EXIT = {
  done: 0,
  /** The model, a server or a tool tree failed, or there was no answer. */
  failed: 1,
  usage: 2,
  /** A limit of the run, or the model's own output limit, ended it. */
  limit: 3,
  /** A policy refused the task. */
  refused: 4,
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** 130 for SIGINT and for any other wish to stop, 143 for SIGTERM, 129 for SIGHUP. */
export function exitCodeOfSignal(signal: unknown): number {
  const number = constants.signals[signal as NodeJS.Signals]
  return number ? 128 + number : EXIT.interrupted
}
