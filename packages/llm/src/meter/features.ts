/**
 * What can be seen of a text's tokens without a vocabulary: how many pieces of each kind it has. A vocabulary then is one
 * number a feature, what a piece of that kind costs in it.
 *
 * Byte-pair vocabularies cut a text into words, numbers, punctuation and white space first, and then each piece into as
 * many tokens as it needs. Short Latin words are one token nearly everywhere; what differs is the price of long words, of
 * digits, of capitals, and of every other script.
 */
export const FEATURES = [
  /** Pieces of ASCII letters: words, and the parts of camelCase. */
  'words',
  /** Their letters beyond the fifth, and beyond the tenth once more. */
  'longLetters',
  'longerLetters',
  /** Capitals behind a capital. */
  'capitals',
  'digits',
  /** Groups of up to three digits. */
  'numbers',
  'spacedNumbers',
  /** Words and numbers beyond the sixth without anything between them: hashes and base64. */
  'noise',
  /** One mark of punctuation right before a letter, which often belongs to the word's token. */
  'joinedMarks',
  /** Other runs of punctuation, what goes on in them, and what only repeats. */
  'marks',
  'moreMarks',
  'repeatedMarks',
  /** Runs of line breaks, runs of two blanks and more, and how long those are. */
  'breaks',
  'gaps',
  'gapChars',
  'controls',
  /** Letters, and where it helps words, of other scripts. */
  'latin',
  'latinMarks',
  'cyrillicWords',
  'cyrillic',
  'alphabets',
  'arabicWords',
  'arabic',
  'indic',
  'southeast',
  'hangulWords',
  'hangul',
  'kana',
  'han',
  'wideMarks',
  'symbols',
  'emoji',
] as const

export type Feature = (typeof FEATURES)[number]

/** Counts in the order of {@link FEATURES}. */
export type Features = Float64Array

const OTHER = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
const BLANK = 4
const BREAK = 5
const MARK = 6
const CYRILLIC = 7
const ARABIC = 8
const HANGUL = 9

const ASCII = Uint8Array.from({ length: 128 }, (_, code) => {
  if (code >= 97 && code <= 122) return LOWER
  if (code >= 65 && code <= 90) return UPPER
  if (code >= 48 && code <= 57) return DIGIT
  if (code === 32 || code === 9) return BLANK
  if (code === 10 || code === 13) return BREAK
  return code > 32 && code < 127 ? MARK : OTHER
})

const isLower = (code: number) => (code - 97) >>> 0 < 26

/** Counts a text's features, in one pass and without allocating for its parts. */
export function featuresOf(text: string): Features {
  let words = 0
  let longLetters = 0
  let longerLetters = 0
  let capitals = 0
  let digits = 0
  let numbers = 0
  let spacedNumbers = 0
  let noise = 0
  let joinedMarks = 0
  let marks = 0
  let moreMarks = 0
  let repeatedMarks = 0
  let breaks = 0
  let gaps = 0
  let gapChars = 0
  let controls = 0
  let latin = 0
  let latinMarks = 0
  let cyrillicWords = 0
  let cyrillic = 0
  let alphabets = 0
  let arabicWords = 0
  let arabic = 0
  let indic = 0
  let southeast = 0
  let hangulWords = 0
  let hangul = 0
  let kana = 0
  let han = 0
  let wideMarks = 0
  let symbols = 0
  let emoji = 0

  let before = OTHER
  /** Length of the run that `before` belongs to. */
  let run = 0
  let last = 0
  /** Words and numbers before this one that nothing separates from it. */
  let glued = 0
  /** Letters of the word that were counted before. */
  let counted = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code < 128) {
      const kind = ASCII[code]!
      switch (kind) {
        case LOWER:
          counted = run
          if (before === LOWER || before === UPPER) run++
          else {
            counted = 0
            if (before === DIGIT || before === LOWER) noise += ++glued > 6 ? 1 : 0
            else {
              glued = 0
              if (before === MARK && run === 1) {
                marks--
                joinedMarks++
              }
            }
            words++
            run = 1
          }
          // The rest of the word at once: most of most texts is this loop.
          while (at + 1 < text.length && isLower(text.charCodeAt(at + 1))) {
            at++
            run++
          }
          if (run > 5) {
            longLetters += run - Math.max(5, counted)
            if (run > 10) longerLetters += run - Math.max(10, counted)
          }
          break
        case UPPER:
          if (before === UPPER) {
            capitals++
            run++
          } else {
            if (before === DIGIT || before === LOWER) noise += ++glued > 6 ? 1 : 0
            else {
              glued = 0
              if (before === MARK && run === 1) {
                marks--
                joinedMarks++
              }
            }
            words++
            run = 1
          }
          break
        case DIGIT:
          digits++
          if (before === DIGIT) run++
          else {
            if (before === LOWER || before === UPPER) noise += ++glued > 6 ? 1 : 0
            else {
              glued = 0
              if (before === BLANK && run === 1) spacedNumbers++
            }
            run = 1
          }
          if (run % 3 === 1) numbers++
          break
        case BLANK:
          if (before === BLANK) {
            if (++run === 2) gaps++
            gapChars++
          } else run = 1
          break
        case BREAK:
          if (before !== BREAK) breaks++
          break
        case MARK:
          if (before !== MARK) {
            marks++
            run = 1
          } else {
            run++
            if (code === last) repeatedMarks++
            else moreMarks++
          }
          break
        default:
          controls++
      }
      before = kind
    } else if (code < 0x250) {
      if (code < 0xc0) {
        latinMarks++
        before = OTHER
      } else {
        // Inside a word: what follows goes on with it.
        latin++
        if (before !== LOWER && before !== UPPER) words++
        before = LOWER
      }
    } else if (code >= 0x4e00 && code < 0xa000) {
      han++
      before = OTHER
    } else if (code >= 0xac00 && code < 0xd7b0) {
      hangul++
      if (before !== HANGUL) hangulWords++
      before = HANGUL
    } else if (code >= 0x400 && code < 0x530) {
      cyrillic++
      if (before !== CYRILLIC) cyrillicWords++
      before = CYRILLIC
    } else if (code >= 0x3040 && code < 0x3100) {
      kana++
      before = OTHER
    } else if ((code >= 0x600 && code < 0x700) || (code >= 0xfb50 && code < 0xfe00)) {
      arabic++
      if (before !== ARABIC) arabicWords++
      before = ARABIC
    } else {
      if (code < 0x900) alphabets++
      else if (code < 0xe00) indic++
      else if (code < 0x1100 || (code >= 0x1780 && code < 0x1800)) southeast++
      else if (code < 0x1e00) alphabets++
      else if (code < 0x2000) latin++
      else if (code < 0x2e80) symbols++
      else if (code < 0x3040 || (code >= 0xff00 && code < 0xfff0)) wideMarks++
      else if (code < 0x4e00) han++
      // The second half of a pair is counted with the first.
      else if (code >= 0xd800 && code < 0xdc00) emoji++
      else if (code < 0xdc00 || code >= 0xe000) symbols++
      before = OTHER
    }
    last = code
  }
  return Float64Array.of(
    words,
    longLetters,
    longerLetters,
    capitals,
    digits,
    numbers,
    spacedNumbers,
    noise,
    joinedMarks,
    marks,
    moreMarks,
    repeatedMarks,
    breaks,
    gaps,
    gapChars,
    controls,
    latin,
    latinMarks,
    cyrillicWords,
    cyrillic,
    alphabets,
    arabicWords,
    arabic,
    indic,
    southeast,
    hangulWords,
    hangul,
    kana,
    han,
    wideMarks,
    symbols,
    emoji,
  )
}

/** What the features come to at these prices. */
export function estimateOf(features: Features, prices: readonly number[]): number {
  let sum = 0
  for (let at = 0; at < features.length; at++) sum += features[at]! * prices[at]!
  return sum
}
