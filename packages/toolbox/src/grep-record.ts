/** Reads the records of `rg --json`. */

import { StringDecoder } from 'node:string_decoder'

export type GrepRecord =
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'line'; readonly number: number; readonly text: string; readonly isMatch: boolean }

/** Text, or base64 of what is no UTF-8. */
interface Encoded {
  readonly text?: string
  readonly bytes?: string
}

interface Raw {
  readonly type: string
  readonly data: {
    readonly path?: Encoded
    readonly lines?: Encoded
    readonly line_number?: number | null
    readonly submatches?: ReadonlyArray<{ readonly start: number }>
  }
}

/** A match over several lines gives one record each; other kinds of records give none. */
export function parseGrepRecord(json: string, maxLineChars: number): GrepRecord[] {
  const { type, data } = JSON.parse(json) as Raw
  if (type === 'begin') return [{ kind: 'file', path: decode(data.path).toString('utf8') }]
  if (type !== 'match' && type !== 'context') return []
  const isMatch = type === 'match'
  const first = data.line_number ?? 1
  const start = data.submatches?.[0]?.start ?? 0
  return splitLines(decode(data.lines)).map((line, i) => ({
    kind: 'line',
    number: first + i,
    text: around(line, i === 0 ? start : 0, maxLineChars),
    isMatch,
  }))
}

/** Of a record that is too long to be read whole: of what kind it is, and where its line number stands. */
export const LINE_NUMBER = /"line_number":(\d+)/

export function parseLongRecord(start: string, number: string | undefined): GrepRecord[] {
  const type = /^\{"type":"(match|context)"/.exec(start)?.[1]
  const text = '(a very long line; see parts of it with grep -o in bash)'
  return type ? [{ kind: 'line', number: Number(number ?? 1), text, isMatch: type === 'match' }] : []
}

function decode({ text, bytes }: Encoded = {}): Buffer {
  return bytes === undefined ? Buffer.from(text ?? '') : Buffer.from(bytes, 'base64')
}

function splitLines(bytes: Buffer): Buffer[] {
  const lines: Buffer[] = []
  for (let from = 0; from < bytes.length; ) {
    const newline = bytes.indexOf(0x0a, from)
    const end = newline < 0 ? bytes.length : newline
    lines.push(bytes.subarray(from, bytes[end - 1] === 0x0d && end > from ? end - 1 : end))
    from = end + 1
  }
  return lines
}

/** The line, or the part of a long one where it matched. */
function around(line: Buffer, matchStart: number, maxChars: number): string {
  // No character has more than 4 bytes, so this much holds enough of them on both sides.
  const from = line.length <= maxChars ? 0 : boundary(line, Math.max(0, matchStart - Math.floor(maxChars / 4)))
  const decoder = new StringDecoder('utf8')
  const text = decoder.write(line.subarray(from, from + maxChars * 4))
  const cut = text.length > maxChars ? text.slice(0, maxChars).replace(/[\ud800-\udbff]$/, '') : text
  const whole = from + Buffer.byteLength(cut) >= line.length
  return `${from ? '…' : ''}${cut}${whole ? '' : '…'}`
}

function boundary(line: Buffer, offset: number): number {
  while (offset < line.length && (line[offset]! & 0xc0) === 0x80) offset++
  return offset
}
