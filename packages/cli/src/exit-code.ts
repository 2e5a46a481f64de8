/** How the command ends, as scripts see it. `cambium run --help` and the README list the same codes. */

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
