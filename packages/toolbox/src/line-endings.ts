/** Matching without regard to line endings, and writing with regard to them. */

export type LineEnding = '\n' | '\r\n'

/** A text with `\n` for every line end, and the way back to where each of its characters stands in the original. */
export interface Unified {
  readonly text: string
  /** The original's offset of `offset` in `text`; of a line end it is that of its first character. */
  toOriginal(offset: number): number
}

export function unify(original: string): Unified {
  if (!original.includes('\r\n')) return { text: original, toOriginal: offset => offset }
  /** Offsets, in the unified text, of the line ends that lost a `\r`. */
  const shortened: number[] = []
  let text = ''
  let from = 0
  for (let at = original.indexOf('\r\n'); at >= 0; at = original.indexOf('\r\n', from)) {
    text += original.slice(from, at)
    shortened.push(text.length)
    from = at + 1
  }
  text += original.slice(from)
  return { text, toOriginal: offset => offset + countBelow(shortened, offset) }
}

/** How many of the ascending `values` are below `limit`. */
function countBelow(values: readonly number[], limit: number): number {
  let low = 0
  let high = values.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (values[middle]! < limit) low = middle + 1
    else high = middle
  }
  return low
}

/** The ending of each line end in the text, in order. */
export function endingsOf(text: string): LineEnding[] {
  const endings: LineEnding[] = []
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) {
    endings.push(text[at - 1] === '\r' ? '\r\n' : '\n')
  }
  return endings
}

/** The ending that most lines have; undefined for a text of one line. */
export function dominantEnding(text: string): LineEnding | undefined {
  const endings = endingsOf(text)
  if (!endings.length) return undefined
  const crlf = endings.filter(ending => ending === '\r\n').length
  return crlf * 2 > endings.length ? '\r\n' : '\n'
}

export function withEnding(text: string, ending: LineEnding): string {
  const plain = text.replaceAll('\r\n', '\n')
  return ending === '\n' ? plain : plain.replaceAll('\n', '\r\n')
}

/**
 * `replacement` with the line endings of what it replaces: lines that both have in common at the beginning and at the
 * end keep their own, as do lines in between when there are as many as before; others get the one most lines of `span`
 * have, or `around` when it has none. `span` is the original's text.
 */
export function adoptEndings(span: string, replacement: string, around: LineEnding): string {
  const before = span.replaceAll('\r\n', '\n').split('\n')
  const after = replacement.replaceAll('\r\n', '\n').split('\n')
  const endings = endingsOf(span)
  const usual = dominantEnding(span) ?? around
  let head = 0
  while (head < before.length && head < after.length && before[head] === after[head]) head++
  let tail = 0
  const most = Math.min(before.length, after.length) - head
  while (tail < most && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  const shift = before.length - after.length
  const ending = (line: number): LineEnding => {
    if (line < head || !shift) return endings[line] ?? usual
    if (line >= after.length - tail) return endings[line + shift] ?? usual
    return usual
  }
  return after.map((line, i) => (i < after.length - 1 ? line + ending(i) : line)).join('')
}
