/** PNG (W3C, third edition), animated ones included. */

import type { ImageSize } from './size.ts'

const SIGNATURE = 8

export function readPng(bytes: Buffer): ImageSize | undefined {
  if (bytes.length < 33 || bytes.toString('latin1', 12, 16) !== 'IHDR') return undefined
  const width = bytes.readUInt32BE(16)
  const height = bytes.readUInt32BE(20)
  if (width > 0x7fffffff || height > 0x7fffffff) return undefined
  for (const { type } of chunks(bytes)) {
    if (type === 'acTL') return { width, height, animated: true }
    if (type === 'IDAT') break
  }
  return { width, height }
}

export interface Chunk {
  readonly type: string
  readonly start: number
  readonly end: number
}

/** The last one may end behind the end of the bytes. */
export function* chunks(bytes: Buffer): Generator<Chunk> {
  for (let at = SIGNATURE; at + 8 <= bytes.length; ) {
    const start = at + 8
    const end = start + bytes.readUInt32BE(at)
    yield { type: bytes.toString('latin1', at + 4, start), start, end }
    at = end + 4
  }
}
