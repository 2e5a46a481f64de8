/** Where a value was written: every mistake points at a file, a line and a column. */

import { relative } from 'node:path'
import { LineCounter } from 'yaml'

/** A text that rows are read from. */
export interface Source {
  /** Absolute path; what the text names relatively is relative to it. */
  readonly file: string
  /** How the file is called in messages. */
  readonly label: string
  readonly lines: LineCounter
}

export interface Spot {
  readonly source: Source
  readonly offset: number
}

export function createSource(file: string, label = labelOf(file)): Source {
  return { file, label, lines: new LineCounter() }
}

/** A command-line option as a source: it has a name, but no lines. */
export function optionSource(option: string, cwd: string): Source {
  return { file: `${cwd}/`, label: option, lines: new LineCounter() }
}

/** `cordis.yml:12:3`, or the option's own text. */
export function placeOf({ source, offset }: Spot): string {
  if (!source.lines.lineStarts.length) return source.label
  const { line, col } = source.lines.linePos(offset)
  return `${source.label}:${line}:${col}`
}

/** A path as short as the reader knows it: relative to the working directory when it lies below. */
export function labelOf(file: string): string {
  const short = relative(process.cwd(), file)
  return short && !short.startsWith('..') ? short : file
}
