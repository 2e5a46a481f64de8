/** Where a value was written: every mistake points at a file, a line and a column. */

import { relative } from 'node:path'
import { workingFolder } from '@cambium/core'

/** A text that rows are read from. */
export interface Source {
  /** Absolute path; what the text names relatively is relative to it. */
  readonly file: string
  /** How the file is called in messages. */
  readonly label: string
  /** Whose text it is: the name that `TreeSource.layer` gave it, handed on to the files that it includes. */
  readonly layer?: string | undefined
  /** Absent for what was not written in lines: an option, or a program's data. */
  text?: string
  /** Where each line of the text begins. */
  starts?: readonly number[]
}

export interface Spot {
  readonly source: Source
  readonly offset: number
}

export function createSource(file: string, layer?: string): Source {
  return { file, label: labelOf(file), layer }
}

/** A command-line option as a source: it has a name, but no lines. */
export function optionSource(option: string, cwd: string): Source {
  return { file: `${cwd}/`, label: option, layer: 'option' }
}

/** `cordis.yml:12:3`, or the option's own text. */
export function placeOf({ source, offset }: Spot): string {
  if (source.text === undefined) return source.label
  source.starts ??= [0, ...[...source.text.matchAll(/\n/g)].map(({ index }) => index + 1)]
  const line = lineAt(source.starts, offset)
  return `${source.label}:${line + 1}:${offset - source.starts[line]! + 1}`
}

/** The last line that begins at or before `offset`. */
function lineAt(starts: readonly number[], offset: number): number {
  let low = 0
  for (let high = starts.length - 1; low < high; ) {
    const middle = (low + high + 1) >> 1
    if (starts[middle]! <= offset) low = middle
    else high = middle - 1
  }
  return low
}

/** A path as short as the reader knows it: relative to the working directory when it lies below. */
export function labelOf(file: string): string {
  const short = relative(workingFolder(), file)
  return short && !short.startsWith('..') ? short : file
}
