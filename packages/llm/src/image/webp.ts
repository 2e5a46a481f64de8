/** WebP (RFC 9649): lossy, lossless and extended. */

import type { ImageSize } from './size.ts'

export function readWebp(bytes: Buffer): ImageSize | undefined {
  for (const { type, start, end } of chunks(bytes)) {
    // A head may hold less than the whole chunk.
    const part = bytes.subarray(start, Math.min(end, bytes.length))
    if (type === 'VP8 ') return lossy(part)
    if (type === 'VP8L') return lossless(part)
    if (type === 'VP8X') return extended(part)
  }
  return undefined
}

/** Why it cannot be decoded; undefined when its parts are all there and agree. What the pixels are is not looked at. */
export function damagedWebp(bytes: Buffer): string | undefined {
  const size = readWebp(bytes)
  if (bytes.readUInt32LE(4) + 8 > bytes.length) return 'it is cut off'
  for (const { type, start, end } of chunks(bytes)) {
    if (end > bytes.length) return 'it is cut off'
    if (type === 'ANMF') return undefined
    if (type !== 'VP8 ' && type !== 'VP8L') continue
    const part = bytes.subarray(start, end)
    const own = type === 'VP8 ' ? lossy(part) : lossless(part)
    // A canvas that says less than its picture would have a decoder take more memory than was looked at.
    return own?.width === size?.width && own?.height === size?.height ? undefined : 'its sizes contradict each other'
  }
  return 'it holds no pixels'
}

function* chunks(bytes: Buffer): Generator<{ type: string; start: number; end: number }> {
  for (let at = 12; at + 8 <= bytes.length; ) {
    const start = at + 8
    const length = bytes.readUInt32LE(at + 4)
    yield { type: bytes.toString('latin1', at, at + 4), start, end: start + length }
    at = start + length + (length & 1)
  }
}

function lossy(part: Buffer): ImageSize | undefined {
  if (part.length < 10 || part.readUIntBE(3, 3) !== 0x9d012a) return undefined
  return { width: part.readUInt16LE(6) & 0x3fff, height: part.readUInt16LE(8) & 0x3fff }
}

function lossless(part: Buffer): ImageSize | undefined {
  if (part.length < 5 || part[0] !== 0x2f) return undefined
  const bits = part.readUInt32LE(1)
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
}

function extended(part: Buffer): ImageSize | undefined {
  if (part.length < 10) return undefined
  const size = { width: part.readUIntLE(4, 3) + 1, height: part.readUIntLE(7, 3) + 1 }
  return part[0]! & 0x02 ? { ...size, animated: true } : size
}
