/** A tool call and how it ended, in a few words for a person. */

import type { JsonValue } from '@cambium/core'
import { oneLine } from './printable.ts'

/**
 * What a call is about, without its tool's name: as its tool presents it, or the first text among the arguments. `present`
 * may have nothing to say, and may throw.
 */
export function callText(
  name: string,
  json: string,
  present: (args: JsonValue) => string | undefined,
  max: number,
): string {
  const args = parse(json)
  let text: string | undefined
  try {
    text = args === undefined ? undefined : present(args)
  } catch {
    // Presenters are plugins' code and may stumble over arguments that no schema has passed yet.
  }
  // Some presenters begin with the tool's name, which stands in front already.
  if (text?.startsWith(`${name} `)) text = text.slice(name.length + 1)
  return oneLine(text ?? briefly(args) ?? json, max)
}

function parse(json: string): JsonValue | undefined {
  try {
    return JSON.parse(json || '{}') as JsonValue
  } catch {
    return undefined
  }
}

/** The first text among the arguments: a path, a command or a pattern, as a rule. */
function briefly(args: JsonValue | undefined): string | undefined {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return undefined
  const values = Object.values(args)
  const text = values.find(value => typeof value === 'string')
  return typeof text === 'string' ? text : values.length ? JSON.stringify(args) : ''
}

/** A program that ended badly has been run in good order, and is no failed call; a person wants to see it all the same. */
export function exitOf(meta: JsonValue | undefined): string {
  const { exitCode, signal, timedOut } = (meta ?? {}) as { exitCode?: unknown; signal?: unknown; timedOut?: unknown }
  if (timedOut === true) return 'timed out'
  if (typeof signal === 'string') return `ended by ${signal}`
  return typeof exitCode === 'number' && exitCode !== 0 ? `exit code ${exitCode}` : ''
}
