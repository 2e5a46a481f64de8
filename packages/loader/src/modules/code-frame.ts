/** The lines around a place in a file, with a caret under it. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { type HarnessError, workingFolder } from '@cambium/core'

const AROUND = 1
const MAX_CHARS = 120

/** Three lines of `file:line:column`; undefined when there is no such place. Without a column only the line is marked. */
export function codeFrame(place: string): string | undefined {
  const [, file, line, column] = /^(.+?):(\d+)(?::(\d+))?$/.exec(place) ?? []
  const lines = file && linesOf(resolve(workingFolder(), file))
  const at = Number(line)
  if (!lines || at < 1 || at > lines.length) return undefined
  const first = Math.max(1, at - AROUND)
  const last = Math.min(lines.length, at + AROUND)
  const width = String(last).length
  const frame: string[] = []
  for (let number = first; number <= last; number++) {
    const text = lines[number - 1]!.slice(0, MAX_CHARS)
    frame.push(`${number === at ? '>' : ' '} ${String(number).padStart(width)} | ${text}`.trimEnd())
    if (number !== at || !column || Number(column) > text.length + 1) continue
    // Tabs stay, so that the caret stands where the character does.
    const indent = text.slice(0, Number(column) - 1).replace(/[^\t]/g, ' ')
    frame.push(`  ${' '.repeat(width)} | ${indent}^`)
  }
  return frame.join('\n')
}

/** The innermost place that a mistake names: in a plugin's own code, or else in the tree's file. */
export function innermostPlace({ where = '' }: HarnessError): string | undefined {
  const parts = where.split(/, |\): /).map(part => part.replace(/ \(row .*$/, ''))
  return parts.findLast(part => /:\d+(:\d+)?$/.test(part))
}

function linesOf(file: string): string[] | undefined {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/)
  } catch {
    // Gone meanwhile, or no file at all.
    return undefined
  }
}
