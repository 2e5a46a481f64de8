/** GIF 87a and 89a. */

import type { ImageSize } from './size.ts'

export function readGif(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 13) return undefined
  const size = { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) }
  return framesOf(bytes, 2).whole > 1 ? { ...size, animated: true } : size
}

/** Why its first frame cannot be shown; undefined when it is whole. */
export function damagedGif(bytes: Buffer): string | undefined {
  const { whole, begun } = framesOf(bytes, 1)
  if (whole) return undefined
  return begun ? 'it is cut off' : 'it holds no pixels'
}

const tableBytes = (flags: number) => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)

/** How many frames there are, counted up to `enough`. */
function framesOf(bytes: Buffer, enough: number): { readonly whole: number; readonly begun: number } {
  let whole = 0
  let begun = 0
  let at = 13 + tableBytes(bytes[10] ?? 0)
  while (at < bytes.length && whole < enough) {
    const kind = bytes[at]
    if (kind === 0x2c) {
      begun++
      at = blocksEnd(bytes, at + 11 + tableBytes(bytes[at + 9] ?? 0))
      if (at <= bytes.length) whole++
    } else if (kind === 0x21) at = blocksEnd(bytes, at + 2)
    else break
  }
  return { whole, begun }
}

/** Behind the empty block that ends a row of blocks; behind the end of the bytes when there is none. */
function blocksEnd(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length) {
    const length = bytes[at]!
    at += 1 + length
    if (!length) return at
  }
  return bytes.length + 1
}
