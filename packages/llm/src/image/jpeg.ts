/** JPEG (ITU T.81): baseline and progressive, with the orientation that EXIF gives. */

import type { ImageSize } from './size.ts'

const SOS = 0xda
const EOI = 0xd9

/** Frame headers of every coding, and none of the tables that share their range. */
const isFrame = (marker: number) => marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)

export function readJpeg(bytes: Buffer): ImageSize | undefined {
  let orientation: number | undefined
  for (const { marker, start, end } of segments(bytes)) {
    if (end > bytes.length) return undefined
    if (marker === 0xe1) orientation ??= orientationOf(bytes.subarray(start, end))
    if (isFrame(marker)) {
      if (end - start < 6) return undefined
      const size = { height: bytes.readUInt16BE(start + 1), width: bytes.readUInt16BE(start + 3) }
      return orientation && orientation > 1 ? { ...size, orientation } : size
    }
    if (marker === SOS) return undefined
  }
  return undefined
}

/** Why it cannot be shown whole; undefined when its parts are all there. What the pixels are is not looked at. */
export function damagedJpeg(bytes: Buffer): string | undefined {
  let scans = 0
  for (const { marker, end } of segments(bytes)) {
    if (end > bytes.length) return 'it is cut off'
    if (marker === SOS) scans++
    if (marker === EOI) return scans ? undefined : 'it holds no pixels'
  }
  return 'it is cut off, or damaged'
}

interface Segment {
  readonly marker: number
  readonly start: number
  /** Behind its parameters; those of a scan are followed by its data, which is passed over. */
  readonly end: number
}

function* segments(bytes: Buffer): Generator<Segment> {
  for (let at = 2; at + 2 <= bytes.length; ) {
    if (bytes[at] !== 0xff) return
    const marker = bytes[at + 1]!
    if (marker === 0xff) {
      // A filling byte.
      at++
      continue
    }
    if (marker === EOI) {
      yield { marker, start: at + 2, end: at + 2 }
      return
    }
    if (at + 4 > bytes.length) return
    const length = bytes.readUInt16BE(at + 2)
    if (length < 2 || marker < 0xc0) return
    const end = at + 2 + length
    yield { marker, start: at + 4, end }
    at = marker === SOS ? afterScan(bytes, end) : end
  }
}

/** Where the next marker is: inside a scan's data 0xff is followed by 0, or by a restart mark. */
function afterScan(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(0xff, from); at >= 0 && at + 1 < bytes.length; at = bytes.indexOf(0xff, at + 1)) {
    const next = bytes[at + 1]!
    if (next !== 0 && next !== 0xff && !(next >= 0xd0 && next <= 0xd7)) return at
  }
  return bytes.length
}

/** Tag 0x0112 of the first directory of an EXIF segment (CIPA DC-008). */
function orientationOf(exif: Buffer): number | undefined {
  if (exif.length < 14 || exif.toString('latin1', 0, 6) !== 'Exif\0\0') return undefined
  const tiff = exif.subarray(6)
  const order = tiff.toString('latin1', 0, 2)
  if (order !== 'II' && order !== 'MM') return undefined
  const u16 = (at: number) =>
    at + 2 > tiff.length ? 0 : order === 'II' ? tiff.readUInt16LE(at) : tiff.readUInt16BE(at)
  const directory = order === 'II' ? tiff.readUInt32LE(4) : tiff.readUInt32BE(4)
  const count = u16(directory)
  for (let entry = 0; entry < count; entry++) {
    const at = directory + 2 + entry * 12
    if (at + 12 > tiff.length) return undefined
    if (u16(at) !== 0x0112) continue
    const value = u16(at + 8)
    return value >= 1 && value <= 8 ? value : undefined
  }
  return undefined
}
