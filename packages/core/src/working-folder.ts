/** The folder that a command was started in. */

import { HarnessError } from './error.ts'

/** @throws `NO_WORKING_FOLDER` when it was removed meanwhile, which Node says with a stack and the name of a system call */
export function workingFolder(): string {
  try {
    return process.cwd()
  } catch (error) {
    throw new HarnessError('NO_WORKING_FOLDER', 'the folder that the command was started in is gone', {
      fix: 'change to another one and start it there',
      cause: error,
    })
  }
}
