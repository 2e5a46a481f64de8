/** A turn of a session, as it is said on a command line. */

import { usageError } from '../flags.ts'

/** @throws `CLI_USAGE` unless it is a turn's number, or `last` */
export function readTurn(flag: string, text: string): string {
  if (text === 'last' || /^[1-9]\d{0,8}$/.test(text)) return text
  throw usageError(`--${flag} ${text} is not a turn`, 'write its number, as cambium sessions show has it, or last')
}
