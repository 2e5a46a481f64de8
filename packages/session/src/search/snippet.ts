/** The part of a message that shows why it was found. */

import { fold } from './characters.ts'
import { findWords, type QueryWord, type Span } from './query.ts'

const MAX_CHARS = 160
/** What precedes the first match. */
const LEAD_CHARS = 40
/** Of the matches in one message. */
const MAX_LOOKED = 200

/** `text` is one line, and the words are in it at `spans`. */
export function snippetOf(
  text: string,
  spans: readonly Span[],
  words: readonly QueryWord[],
): { snippet: string; matches: Span[] } {
  const first = bestStart(text, spans)
  const from = text.length <= MAX_CHARS ? 0 : wordStart(text, Math.max(0, first - LEAD_CHARS), first)
  const to = wordEnd(text, from + MAX_CHARS)
  const lead = from ? '…' : ''
  const snippet = `${lead}${text.slice(from, to).trimEnd()}${to < text.length ? '…' : ''}`
  const shown = words.flatMap(word => findWords([word], snippet, fold(snippet)) ?? [])
  return { snippet, matches: joined(shown) }
}

/** Where most of the words are seen at once. */
function bestStart(text: string, spans: readonly Span[]): number {
  const looked = spans.slice(0, MAX_LOOKED)
  const words = looked.map(([from, to]) => fold(text.slice(from, to)))
  let best = looked[0]?.[0] ?? 0
  let most = 0
  for (const [index, [start]] of looked.entries()) {
    const seen = new Set<string>()
    for (let at = index; at < looked.length && looked[at]![1] <= start + MAX_CHARS - LEAD_CHARS; at++) {
      seen.add(words[at]!)
    }
    if (seen.size > most) {
      most = seen.size
      best = start
    }
  }
  return best
}

/** Not in the middle of a word, nor of a character, where one begins near. */
function wordStart(text: string, at: number, latest: number): number {
  if (!at) return 0
  const blank = text.indexOf(' ', at - 1)
  if (blank >= 0 && blank < latest) return blank + 1
  return isLowSurrogate(text, at) ? at + 1 : at
}

function wordEnd(text: string, at: number): number {
  if (at >= text.length) return text.length
  const blank = text.lastIndexOf(' ', at)
  if (blank > at - LEAD_CHARS) return blank
  return isLowSurrogate(text, at) ? at - 1 : at
}

const isLowSurrogate = (text: string, at: number) => /[\udc00-\udfff]/.test(text[at] ?? '')

function joined(spans: Span[]): Span[] {
  const result: [number, number][] = []
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1)
    if (last && from <= last[1]) last[1] = Math.max(last[1], to)
    else result.push([from, to])
  }
  return result
}
