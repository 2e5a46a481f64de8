/** Exact replacement of a text in a file: where it matches, why it does not, and what comes out. */

import { adoptEndings, dominantEnding, type LineEnding, unify } from './line-endings.ts'

export interface Replacement {
  readonly kind: 'replaced'
  readonly text: string
  /** Line of each replaced place in the original, from 1. */
  readonly lines: readonly number[]
}

export type ReplaceOutcome =
  | Replacement
  | { readonly kind: 'missing' }
  /** Lines of every match, overlapping ones too. */
  | { readonly kind: 'ambiguous'; readonly lines: readonly number[] }
  | { readonly kind: 'unchanged' }

/**
 * Replaces `wanted` by `replacement`, both taken literally. Line endings do not matter for the match, and every byte
 * outside the matched places stays as it is. Without `all` the match must be the only one.
 */
export function replaceText(original: string, wanted: string, replacement: string, all: boolean): ReplaceOutcome {
  if (wanted === replacement) return { kind: 'unchanged' }
  const plainWanted = wanted.replaceAll('\r\n', '\n')
  // Texts that differ in their line endings alone ask for those to be changed: then they are taken to the letter.
  const literal = plainWanted === replacement.replaceAll('\r\n', '\n')
  const unified = literal ? { text: original, toOriginal: (offset: number) => offset } : unify(original)
  const needle = literal ? wanted : plainWanted
  const places = findAll(unified.text, needle, all ? needle.length : 1)
  if (!places.length) return { kind: 'missing' }
  const lines = linesOf(unified.text, places)
  if (!all && places.length > 1) return { kind: 'ambiguous', lines }
  let text = ''
  let from = 0
  for (const place of places) {
    const start = unified.toOriginal(place)
    const end = unified.toOriginal(place + needle.length)
    const span = original.slice(start, end)
    text += original.slice(from, start)
    text += literal ? replacement : adoptEndings(span, replacement, endingNear(original, start))
    from = end
  }
  text += original.slice(from)
  return text === original ? { kind: 'unchanged' } : { kind: 'replaced', text, lines }
}

function findAll(text: string, needle: string, step: number): number[] {
  const found: number[] = []
  for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + step)) found.push(at)
  return found
}

/** Line numbers of ascending offsets, from 1. */
export function linesOf(text: string, offsets: readonly number[]): number[] {
  let line = 1
  let at = 0
  return offsets.map(offset => {
    for (let next = text.indexOf('\n', at); next >= 0 && next < offset; next = text.indexOf('\n', at)) {
      line++
      at = next + 1
    }
    return line
  })
}

/** The ending of the line that `offset` is on; on an unended last line, the one that most lines have. */
function endingNear(text: string, offset: number): LineEnding {
  const next = text.indexOf('\n', offset)
  if (next > 0) return text[next - 1] === '\r' ? '\r\n' : '\n'
  return dominantEnding(text) ?? '\n'
}
