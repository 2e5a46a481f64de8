/** Why a text that should be replaced was not found, in words that help the next attempt. */

import { linesOf } from './replace.ts'

/** Beyond these, looking for something similar would cost more than it helps. */
const MAX_LINES = 50_000
const MAX_WANTED_LINES = 400
const SHOWN_CHARS = 300
/** What a line of the `read` tool starts with. */
const NUMBER_PREFIX = /^ *\d+→/

/** One or more sentences about the nearest thing in `text`; both with `\n` as line end. */
export function explainMismatch(text: string, wanted: string): string {
  const lines = text.split('\n')
  const wantedLines = wanted.split('\n')
  const numbered = withoutNumbers(wantedLines)
  if (numbered) {
    const at = text.indexOf(numbered)
    const where = at < 0 ? '' : `; without them it matches at line ${linesOf(text, [at])[0]}`
    return `It has the line numbers of the read tool in it${where}. Leave out everything up to and including the arrow (→).`
  }
  if (lines.length > MAX_LINES || wantedLines.length > MAX_WANTED_LINES) return ''
  for (const [fold, difference] of FOLDS) {
    const line = findFolded(lines, wantedLines, fold)
    if (line === undefined) continue
    const found = lines.slice(line - 1, line - 1 + wantedLines.length)
    return `The text at line ${line} differs from it ${difference}. The file has:\n${quote(found.join('\n'))}`
  }
  const near = nearestLine(lines, wantedLines)
  if (near === undefined) return 'Nothing in the file is similar to it.'
  return `The nearest line is ${near + 1}:\n${quote(lines[near]!)}`
}

function withoutNumbers(lines: readonly string[]): string | undefined {
  const filled = lines.filter(line => line.trim() !== '')
  if (!filled.length || !filled.every(line => NUMBER_PREFIX.test(line))) return undefined
  return lines.map(line => line.replace(NUMBER_PREFIX, '')).join('\n')
}

const unquote = (line: string) =>
  line
    .normalize('NFKC')
    .replace(/[\u2018\u2019\u201a\u201b\u2032]/g, "'")
    .replace(/[\u201c\u201d\u201e\u201f\u2033]/g, '"')
    .replace(/[\u2010-\u2015\u2212]/g, '-')
const FOLDS: ReadonlyArray<readonly [fold: (line: string) => string, difference: string]> = [
  [line => line.trimEnd(), 'in blanks at the end of lines only'],
  [line => line.replace(/\s+/g, ' ').trim(), 'in blanks, tabs or indentation only'],
  [line => unquote(line).replace(/\s+/g, ' ').trim(), 'in quotation marks, dashes or other look-alike characters only'],
]

/** The first line, from 1, at which all folded lines of `wanted` stand; its first and last may be parts of lines. */
function findFolded(
  lines: readonly string[],
  wanted: readonly string[],
  fold: (line: string) => string,
): number | undefined {
  const needle = wanted.map(fold)
  if (!needle.join('')) return undefined
  const folded = lines.map(fold)
  const last = needle.length - 1
  const matches = (at: number) =>
    last === 0
      ? folded[at]!.includes(needle[0]!)
      : folded[at]!.endsWith(needle[0]!) &&
        folded[at + last]!.startsWith(needle[last]!) &&
        needle.every((line, i) => i === 0 || i === last || line === folded[at + i])
  for (let at = 0; at + last < folded.length; at++) if (matches(at)) return at + 1
  return undefined
}

/** The index of the line most like the longest wanted one, if half of their letter pairs are the same. */
function nearestLine(lines: readonly string[], wanted: readonly string[]): number | undefined {
  const target = wanted.map(line => line.trim()).reduce((a, b) => (b.length > a.length ? b : a), '')
  const pairs = new Set<number>()
  eachPair(target, pair => pairs.add(pair))
  if (!pairs.size) return undefined
  let best: number | undefined
  let most = 0.5
  for (const [at, line] of lines.entries()) {
    let shared = 0
    const count = eachPair(line.trim(), pair => {
      if (pairs.has(pair)) shared++
    })
    const likeness = shared / Math.max(pairs.size, count)
    if (likeness > most) {
      most = likeness
      best = at
    }
  }
  return best
}

/** Visits the neighbouring characters of the beginning of a line; returns how many there are. */
function eachPair(line: string, visit: (pair: number) => void): number {
  const end = Math.min(line.length, SHOWN_CHARS) - 1
  for (let at = 0; at < end; at++) visit(line.charCodeAt(at) * 0x10000 + line.charCodeAt(at + 1))
  return Math.max(0, end)
}

function quote(text: string): string {
  return text.length > SHOWN_CHARS * 4 ? `${text.slice(0, SHOWN_CHARS * 4)}…` : text
}
