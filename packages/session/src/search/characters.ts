/** What a character is to the search, and texts in the form in which they are compared. */

/** Blanks, signs; nothing of a word. */
const OTHER = 0
const LOWER = 1
const UPPER = 2
const DIGIT = 3
/** Of a script that writes without blanks: each character may begin a word. */
export const DENSE = 4

/** Chinese, Japanese, Korean, Thai, Lao, Myanmar, Khmer; and whatever needs two code units, emoji too. */
const DENSE_SCRIPTS =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Khmer}\p{Cs}\u3005\u30fc\uff70]/u

let classes: Uint8Array | undefined

/** Class of each UTF-16 code unit; made when it is first asked for. */
export function characterClasses(): Uint8Array {
  if (classes) return classes
  classes = new Uint8Array(0x10000)
  for (let code = 0; code < 0x10000; code++) {
    const char = String.fromCharCode(code)
    if (DENSE_SCRIPTS.test(char)) classes[code] = DENSE
    else if (/\p{Lu}|\p{Lt}/u.test(char)) classes[code] = UPPER
    else if (/\p{L}|\p{M}/u.test(char)) classes[code] = LOWER
    else if (/\p{N}/u.test(char)) classes[code] = DIGIT
  }
  return classes
}

export const classOf = (text: string, at: number): number => characterClasses()[text.charCodeAt(at)] ?? OTHER

export const isWord = (kind: number): boolean => kind !== OTHER && kind !== DENSE

/** Whether a word, or a part of one, begins at `at`: `parse|Header`, `HTTP|Server`, `sha|256`; any character of a dense script. */
export function beginsPart(text: string, at: number): boolean {
  const kind = classOf(text, at)
  if (!isWord(kind)) return kind === DENSE
  const before = at ? classOf(text, at - 1) : OTHER
  if (!isWord(before)) return true
  if (kind === UPPER) return before !== UPPER || (at + 1 < text.length && classOf(text, at + 1) === LOWER)
  return (kind === DIGIT) !== (before === DIGIT)
}

/** Whether a word, or a part of one, ends before `at`. */
export const endsPart = (text: string, at: number): boolean =>
  at >= text.length || !isWord(classOf(text, at)) || !isWord(classOf(text, at - 1)) || beginsPart(text, at)

/** One line of plain text: blanks, controls, and what shows nothing or turns the direction of writing, are one blank. */
export function tidy(text: string): string {
  if (ASCII.test(text)) return text.replace(ASCII_BLANKS, ' ').trim()
  return text.normalize('NFC').replace(BLANKS, ' ').trim()
}

// A single blank stays as it is: most of them are.
const ASCII = /^\p{ASCII}*$/u
const ASCII_BLANKS = / {2,}| ?\p{Cc}[\p{Cc} ]*/gu
const BLANKS = /[\s\p{Cc}\p{Cf}\p{Cs}]{2,}|(?! )[\s\p{Cc}\p{Cf}\p{Cs}]/gu

const folds = new Map<string, string>()

/**
 * The text as it is compared: small letters, without accents of Latin ones, wide forms as narrow ones. As long as the
 * text itself, so that a place in one is the same place in the other.
 */
export function fold(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase()
  return text.replace(/\P{ASCII}|[A-Z]+/gu, char => {
    const known = folds.get(char)
    if (known !== undefined) return known
    const folded = foldChar(char)
    if (char.length < 3) folds.set(char, folded)
    return folded
  })
}

function foldChar(char: string): string {
  if (char <= '\x7f') return char.toLowerCase()
  const code = char.charCodeAt(0)
  if (code >= 0xff01 && code <= 0xff5e) return String.fromCharCode(code - 0xfee0).toLowerCase()
  const bare = /\p{Script=Latin}/u.test(char) ? char.normalize('NFD')[0]! : char
  const small = bare.toLowerCase()
  return small.length === char.length ? small : char
}
