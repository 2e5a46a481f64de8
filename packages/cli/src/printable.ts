/** Text from a model, a tool or a file made safe and short enough for a line of a terminal. */

// Control characters, and format characters that reorder, hide or break a line.
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu

// What moves the cursor, sets a title or reaches the clipboard; lines, tabs and every script stay as they are.
const COMMANDS = /(?!\r\n|[\n\t])\p{Cc}/gu

/** Control and format characters as visible escapes, so that what is shown is what there is. */
export const escapeControls = (text: string): string => text.replace(UNSAFE, escaped)

/** A text of many lines, as a model writes it, for a terminal: it cannot command it. */
export const escapeCommands = (text: string): string => text.replace(COMMANDS, escaped)

function escaped(char: string): string {
  if (char === '\n') return '\\n'
  if (char === '\t') return '\\t'
  if (char === '\r') return '\\r'
  const code = char.codePointAt(0) ?? 0
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`
}

/** JSON for a program, which a terminal also takes literally. */
export const jsonText = (data: unknown, indent?: number): string =>
  `${JSON.stringify(data, null, indent).replace(/[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu, char =>
    [...Array(char.length).keys()].map(at => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  )}\n`

/** One line of at most `max` characters; a cut is marked by how much is missing. */
export function oneLine(text: string, max: number): string {
  // Cut first: escaping a megabyte of arguments to show a hundred characters would be felt.
  const head = escapeControls(text.slice(0, max + 1))
  if (text.length <= max && head.length <= max) return head
  const shown = [...head].slice(0, max).join('')
  return `${shown}… (+${text.length - Math.min(text.length, max)} characters)`.replace(' (+0 characters)', '')
}

/** Milliseconds as a person says them: `0.8 s`, `12 s`, `3 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

/** A count in at most four characters: `950`, `1.2k`, `34k`, `1.5M`. */
export function count(value: number): string {
  if (value < 1000) return String(value)
  if (value < 10_000) return `${(value / 1000).toFixed(1)}k`
  if (value < 1_000_000) return `${Math.round(value / 1000)}k`
  return `${(value / 1_000_000).toFixed(1)}M`
}

export const plural = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`
