/** What is looked for: the words of a query, which are text and nothing else, and where they are in a message. */

import { HarnessError } from '@cambium/core'
import { beginsPart, classOf, endsPart, fold, isWord, tidy } from './characters.ts'
import { eachWord, termsOf } from './terms.ts'

export interface QueryWord {
  /** Folded. */
  readonly text: string
  /** Quoted: it ends where a word does. */
  readonly exact: boolean
  /** What a text with the word in it has as the beginnings of its terms. */
  readonly terms: readonly string[]
}

export type Span = readonly [from: number, to: number]

const MAX_WORDS = 16
const MAX_CHARS = 1_000

/** @throws `SESSION_QUERY_EMPTY` */
export function parseQuery(query: string): QueryWord[] {
  const words = new Map<string, QueryWord>()
  // A quote without its other half is a character like any other.
  for (const [, quoted, plain] of query.slice(0, MAX_CHARS).matchAll(/"([^"]*)"|(\S+?)(?=\s|"[^"]*"|$)/g)) {
    const text = tidy(quoted ?? plain ?? '')
    const folded = fold(text)
    if (!folded || words.size >= MAX_WORDS) continue
    const terms = new Set<string>()
    // Whole words only, and in small letters: a term of the text may begin before the second part of the query's.
    eachWord(folded, (from, to) => terms.add(termsOf(folded.slice(from, to))[0]!))
    words.set(`${quoted === undefined} ${folded}`, { text: folded, exact: quoted !== undefined, terms: [...terms] })
  }
  if (words.size) return [...words.values()]
  throw new HarnessError('SESSION_QUERY_EMPTY', 'there is nothing to search for', { fix: 'give a word, or several' })
}

/** Far more than a snippet shows. */
const MAX_SPANS = 100

/** Where the words are, in order of place, or undefined when one of them is not there. `folded` is `fold(text)`. */
export function findWords(words: readonly QueryWord[], text: string, folded: string): Span[] | undefined {
  const spans: Span[] = []
  for (const word of words) {
    const before = spans.length
    for (let at = folded.indexOf(word.text); at >= 0; at = folded.indexOf(word.text, at + 1)) {
      if (!isAt(word, text, at)) continue
      spans.push([at, at + word.text.length])
      if (spans.length - before >= MAX_SPANS) break
    }
    if (spans.length === before) return undefined
  }
  return spans.sort((a, b) => a[0] - b[0] || b[1] - a[1])
}

function isAt({ text: word, exact }: QueryWord, text: string, at: number): boolean {
  // What begins or ends with a sign is found in the middle of whatever: `.ts`, `=>`.
  if (isWord(classOf(word, 0)) && !beginsPart(text, at)) return false
  const end = at + word.length
  return !exact || !isWord(classOf(word, word.length - 1)) || endsPart(text, end)
}
