/** The terms of a text: what the index knows of it. A term leads to candidates; the text itself decides. */

import { beginsPart, characterClasses, DENSE, fold } from './characters.ts'

/** Longer ones are cut. Up to here a slice is a copy in V8, and does not hold the text that it comes from. */
const MAX_TERM = 12
/** Of a longer run of letters and digits, which is hardly a word, only what begins up to here is known. */
const MAX_WORD = 64

/** A word's place in the text, and two hashes of it: together they tell words apart. */
export type TellWord = (from: number, to: number, hash: number, second: number) => void

/** Tells each run of letters and digits, and each character of a dense script with its neighbour. */
export function eachWord(text: string, tell: TellWord): void {
  const classes = characterClasses()
  // A name of another module is looked up at each use where sources run as they are.
  const dense = DENSE
  const { length } = text
  for (let at = 0; at < length; ) {
    let code = text.charCodeAt(at)
    let kind = classes[code]!
    if (kind === dense) {
      const next = afterCharacter(text, at)
      const pair = next < length && classes[text.charCodeAt(next)] === dense
      const end = pair ? afterCharacter(text, next) : next
      tell(at, end, Math.imul(text.codePointAt(at)!, 0x01000193), end > next ? text.codePointAt(next)! : 0)
      at = next
    } else if (kind) {
      const from = at
      let hash = 0
      let second = 17
      do {
        hash = Math.imul(hash ^ code, 0x01000193)
        second = (Math.imul(second, 31) + code) | 0
        code = ++at < length ? text.charCodeAt(at) : 0
        kind = classes[code]!
      } while (kind && kind !== dense)
      tell(from, Math.min(at, from + MAX_WORD), hash, second)
    } else at++
  }
}

/**
 * Of a word what follows the beginning of each of its parts, so that whatever a query may begin with is the beginning of
 * a term. Of characters of a dense script the characters.
 */
export function termsOf(word: string): string[] {
  const folded = fold(word)
  if (characterClasses()[word.charCodeAt(0)] === DENSE) return [folded]
  const terms = new Set<string>()
  for (let at = 0; at < word.length; at++) {
    if (!at || beginsPart(word, at)) terms.add(folded.slice(at, at + MAX_TERM))
  }
  return [...terms]
}

const afterCharacter = (text: string, at: number) => at + (text.codePointAt(at)! > 0xffff ? 2 : 1)
