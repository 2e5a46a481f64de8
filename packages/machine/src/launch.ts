/** Starts a child in a session of its own, and says plainly why when that fails. */

import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { errorMessage, HarnessError } from '@cambium/core'

/** @throws `PROCESS_TOO_LONG`, `PROCESS_CWD_MISSING` and the other start errors, as far as the system tells them at once */
export function launch(
  argv: readonly [string, ...string[]],
  cwd: string,
  env: Record<string, string>,
  stdio: StdioOptions,
): ChildProcess {
  const [program, ...args] = argv
  try {
    // `detached` is setsid(): no controlling terminal to read a password from, and a group that can be ended whole.
    return spawn(program, args, { cwd, env, stdio, detached: true, windowsHide: true })
  } catch (error) {
    throw startError(error, program, cwd)
  }
}

/** Waits for the failure of a child that has no pid. */
export async function startFailure(child: ChildProcess, program: string, cwd: string): Promise<HarnessError> {
  const [error] = (await once(child, 'error')) as [unknown]
  return startError(error, program, cwd)
}

/** ENOENT is all the system says of a missing program and of a missing folder alike. */
function startError(error: unknown, program: string, cwd: string): HarnessError {
  const code = (error as NodeJS.ErrnoException).code
  const folder = folderState(cwd)
  if (folder) {
    return new HarnessError('PROCESS_CWD_MISSING', `working directory ${cwd} ${folder}`, {
      fix: `create it again (mkdir -p), or run from another directory`,
      cause: error,
    })
  }
  if (code === 'ENOENT') {
    return new HarnessError('PROCESS_NOT_FOUND', `program ${program} was not found`, {
      fix: 'install it, or check PATH',
      cause: error,
    })
  }
  if (code === 'ERR_INVALID_ARG_VALUE') {
    return new HarnessError(
      'PROCESS_START_FAILED',
      'the command holds a NUL character, which no program can be given',
      {
        fix: 'write it as \\0 where the program understands that',
        cause: error,
      },
    )
  }
  if (code === 'E2BIG') {
    return new HarnessError('PROCESS_TOO_LONG', 'the command is longer than the system takes', {
      fix: 'write it to a file first and run that file',
      cause: error,
    })
  }
  return new HarnessError('PROCESS_START_FAILED', `${program} could not be started: ${errorMessage(error)}`, {
    where: cwd,
    cause: error,
  })
}

function folderState(cwd: string): string | undefined {
  try {
    return statSync(cwd).isDirectory() ? undefined : 'is missing: there is a file in its place'
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    return code === 'EACCES' ? 'cannot be entered: permission denied' : 'is missing'
  }
}
