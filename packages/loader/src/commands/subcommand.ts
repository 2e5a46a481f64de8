/** What a file in this folder exports: one command of `cordis`. */

import type { Command } from 'commander'

export interface Invocation {
  /** What stood behind `--`. */
  readonly args: readonly string[]
  /** The exit code, set by the command's action; usage is the answer when none ran. */
  code: number
}

export interface Subcommand {
  /** Adds options and the action to `command`. */
  define(command: Command, invocation: Invocation): void
}

/** An option that may be given several times. */
export const collect = (value: string, before: readonly string[]): string[] => [...before, value]
