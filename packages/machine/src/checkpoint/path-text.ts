/** Paths as text that survives JSON, also those that are no UTF-8. */

import { isUtf8 } from 'node:buffer'

const ESCAPE = 0xdc00

/** A byte that is part of no UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF, which no valid text holds. */
export function pathText(bytes: Uint8Array): string {
  if (isUtf8(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8')
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const lead = bytes[at]!
    const length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2
    const part = bytes.subarray(at, at + length)
    if (part.length === length && isUtf8(part)) {
      text += Buffer.from(part).toString('utf8')
      at += length
    } else {
      text += String.fromCharCode(ESCAPE + lead)
      at++
    }
  }
  return text
}

const ESCAPED = /(?<![\ud800-\udbff])[\udc80-\udcff]/g

/** What `node:fs` takes: the text itself, or the bytes that {@link pathText} had got. */
export function toPath(text: string): string | Buffer {
  if (!/[\udc80-\udcff]/.test(text)) return text
  const parts: Buffer[] = []
  let at = 0
  for (const { index } of text.matchAll(ESCAPED)) {
    parts.push(Buffer.from(text.slice(at, index)), Buffer.from([text.charCodeAt(index) - ESCAPE]))
    at = index + 1
  }
  return Buffer.concat([...parts, Buffer.from(text.slice(at))])
}
