/** Where log records go: standard error, one line a record, so that standard output stays the program's own. */

import { type Context, type Exporter, Logger, type Message } from 'cordis'
import { errorMessage, isHarnessError } from './error.ts'
import { redact } from './secrets.ts'

export type LogLevel = 'silent' | 'error' | 'warn' | 'info' | 'debug'

export interface LogRecord {
  readonly time: number
  readonly level: 'error' | 'warn' | 'info' | 'debug'
  /** The logger's name: a plugin's, as a rule. */
  readonly name: string
  readonly text: string
}

const NUMBERS: Record<LogLevel, number> = { silent: -1, error: 0, warn: 1, info: 2, debug: 3 }

/** Cordis counts information below warnings, so its own threshold lets both through. */
const THRESHOLDS: Record<LogLevel, number> = { silent: -1, error: 0, warn: 2, info: 2, debug: 3 }

/**
 * Sends every record of at most `level` to `write`, until the returned undo is called. Mounted before anything else,
 * since cordis itself is silent.
 */
export function mountLogger(ctx: Context, level: LogLevel, write: (record: LogRecord) => void): () => void {
  return ctx.logger.exporter({
    levels: { default: THRESHOLDS[level] },
    export(message) {
      if (NUMBERS[message.type] > NUMBERS[level]) return
      write({
        time: message.ts,
        level: message.type,
        name: message.name,
        text: redact(textOf(message, level === 'debug')),
      })
    },
  }) as () => void
}

/** Plugins written for cordis may log as with `printf`: `logger.info('listening on %C', url)`. */
function textOf(message: Message, withStack: boolean): string {
  const [first, ...rest] = message.args as unknown[]
  if (typeof first === 'string' && rest.length && /%[a-zA-Z]/.test(first)) return Logger.format(PLAIN, message)
  return message.args.map(value => renderLog(value, withStack)).join(' ')
}

const PLAIN: Exporter = { colors: false, formatters: { o: value => renderLog(value) }, export() {} }

/** One logged value as text. An error shows its message; its stack only for debugging, unless it is a plain bug. */
export function renderLog(value: unknown, withStack = false): string {
  if (typeof value === 'string') return value
  if (value instanceof Error) {
    if (withStack && value.stack) return value.stack
    return isHarnessError(value) ? value.message : `${value.name}: ${errorMessage(value)}`
  }
  return errorMessage(value)
}
