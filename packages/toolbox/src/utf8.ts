/** Bytes to text and back without losing one. */

import { isUtf8 } from 'node:buffer'

const BOM = '\ufeff'

export interface DecodedText {
  /** Without the byte order mark. */
  readonly text: string
  readonly bom: boolean
}

/** Undefined when the bytes are no UTF-8 text: writing them back would not give the same file. */
export function decodeUtf8(bytes: Buffer): DecodedText | undefined {
  if (!isUtf8(bytes)) return undefined
  const text = bytes.toString('utf8')
  return text.startsWith(BOM) ? { text: text.slice(1), bom: true } : { text, bom: false }
}

export function encodeUtf8(decoded: DecodedText): string {
  return decoded.bom ? BOM + decoded.text : decoded.text
}
