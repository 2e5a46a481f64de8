/** The root context of one tree, with the decided behaviours and a logger in place before any plugin. */

import { Context } from 'cordis'
import './behaviour.ts'
import { type LogLevel, type LogRecord, mountLogger } from './logger.ts'

export interface RootOptions {
  level?: LogLevel
  /** Takes each log record; standard error by default. Must not throw. */
  write?: (record: LogRecord) => void
}

/** A fresh root. Whoever creates it ends it with `root.fiber.dispose()`. */
export function createRoot(options: RootOptions = {}): Context {
  const ctx = new Context()
  mountLogger(ctx, options.level ?? 'warn', options.write ?? toStderr)
  return ctx
}

function toStderr(record: LogRecord) {
  process.stderr.write(`${record.level === 'info' ? '' : `${record.level}: `}${record.name}: ${record.text}\n`)
}
