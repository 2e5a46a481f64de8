/** A failure as a person at a terminal reads it, and as a program finds it in the JSON output. */

import { errorMessage, isHarnessError, redact } from '@cambium/core'
import { EXIT, type ExitCode } from './exit-code.ts'

export interface Failure {
  readonly code: string
  /** One sentence. */
  readonly message: string
  readonly where?: string
  /** What to do about it. */
  readonly fix?: string
}

export function toFailure(error: unknown): Failure {
  if (isHarnessError(error)) {
    const { code, problem, where, fix } = error
    return {
      code,
      message: redact(problem),
      ...(where ? { where: redact(where) } : {}),
      ...(fix ? { fix: redact(fix) } : {}),
    }
  }
  const [first = ''] = redact(errorMessage(error)).split('\n')
  return { code: 'UNKNOWN', message: first || 'an error without a message' }
}

/** What happened and where, and what to do on a line of its own. */
export function describeFailure({ message, where, fix }: Omit<Failure, 'code'>): string {
  const line = where ? `${message.replace(/\.$/, '')} (${where})` : message
  return `cambium: ${line}${fix ? `\n  ${fix}` : ''}`
}

/** Mistakes that another command line would mend. */
const USAGE_CODES = new Set([
  'CLI_USAGE',
  'CLI_NO_BUDGET',
  'CLI_NO_CHECKPOINTS',
  'CLI_NO_PROJECT',
  'CLI_NO_FOLDER',
  'CLI_NO_SESSION',
  'LLM_UNKNOWN_ROUTE',
  'NO_WORKING_FOLDER',
  'SESSION_NOT_FOUND',
  'SESSION_TURN_UNKNOWN',
  // Of --patch, --set and the layers: nothing else of a run has targets, or names a file that may be missing.
  'TREE_FILE_UNREADABLE',
  'TREE_PATCH_INVALID',
  'TREE_TARGET_UNKNOWN',
])

export function exitCodeOf({ code, where }: Failure): ExitCode {
  return USAGE_CODES.has(code) || where?.startsWith('--set ') ? EXIT.usage : EXIT.failed
}
