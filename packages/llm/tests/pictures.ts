/** Pictures for tests, made here: by hand where the bytes matter, and by the library that scales them where pixels do. */

import { createRequire } from 'node:module'
import { crc32, deflateSync } from 'node:zlib'

interface Picture {
  get_bytes_jpeg(quality: number): Uint8Array
  get_bytes_webp(): Uint8Array
  get_width(): number
  get_height(): number
  get_raw_pixels(): Uint8Array
}

/** Its own types want a browser's. */
const photon: { readonly PhotonImage: { new_from_byteslice(bytes: Uint8Array): Picture } } = createRequire(
  import.meta.url,
)('@silvia-odwyer/photon-node')

type Rgba = readonly [number, number, number, number]

const chunk = (type: string, data: Buffer) => {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const out = Buffer.alloc(body.length + 8)
  out.writeUInt32BE(data.length, 0)
  body.copy(out, 4)
  out.writeUInt32BE(crc32(body), body.length + 4)
  return out
}

/** A PNG whose pixels are `at(x, y)`; with `between` as further chunks before its data. */
export function png(
  width: number,
  height: number,
  at?: (x: number, y: number) => Rgba,
  between: Buffer[] = [],
): Buffer {
  const rows = Buffer.alloc(height * (1 + width * 4))
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) rows.set(at?.(x, y) ?? [x & 255, y & 255, 90, 255], y * (1 + width * 4) + 1 + x * 4)
  return pngOf(header(width, height, 8, 6), deflateSync(rows), between)
}

export function header(width: number, height: number, depth: number, colour: number, interlaced = 0): Buffer {
  const ihdr = Buffer.alloc(13)
  ihdr.writeUInt32BE(width, 0)
  ihdr.writeUInt32BE(height, 4)
  ihdr.set([depth, colour, 0, 0, interlaced], 8)
  return ihdr
}

export const pngOf = (ihdr: Buffer, data: Buffer, between: Buffer[] = []): Buffer =>
  Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    chunk('IHDR', ihdr),
    ...between,
    chunk('IDAT', data),
    chunk('IEND', Buffer.alloc(0)),
  ])

export const animation = chunk('acTL', Buffer.from([0, 0, 0, 2, 0, 0, 0, 0]))

/** Pixels that do not compress. */
export function noise(width: number, height: number): Buffer {
  let seed = 7
  const next = () => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    return seed >> 16
  }
  return png(width, height, () => [next() & 255, next() & 255, next() & 255, 255])
}

export const jpeg = (picture: Buffer, quality = 90): Buffer =>
  Buffer.from(photon.PhotonImage.new_from_byteslice(picture).get_bytes_jpeg(quality))

export const webp = (picture: Buffer): Buffer =>
  Buffer.from(photon.PhotonImage.new_from_byteslice(picture).get_bytes_webp())

/** The JPEG with an EXIF segment that says how to turn it. */
export function withOrientation(picture: Buffer, orientation: number, order: 'II' | 'MM' = 'MM'): Buffer {
  const tiff = Buffer.alloc(8 + 2 + 12 + 4)
  const u16 = (value: number, at: number) =>
    order === 'II' ? tiff.writeUInt16LE(value, at) : tiff.writeUInt16BE(value, at)
  const u32 = (value: number, at: number) =>
    order === 'II' ? tiff.writeUInt32LE(value, at) : tiff.writeUInt32BE(value, at)
  tiff.write(order, 'latin1')
  u16(42, 2)
  u32(8, 4)
  u16(1, 8)
  u16(0x0112, 10)
  u16(3, 12)
  u32(1, 14)
  u16(orientation, 18)
  return withSegment(picture, 0xe1, Buffer.concat([Buffer.from('Exif\0\0', 'latin1'), tiff]))
}

export function withSegment(picture: Buffer, marker: number, data: Buffer): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(data.length + 2)
  return Buffer.concat([picture.subarray(0, 2), Buffer.from([0xff, marker]), length, data, picture.subarray(2)])
}

/** Frames of one red pixel each. */
export function gif(frames = 1): Buffer {
  const screen = [...Buffer.from('GIF89a', 'latin1'), 1, 0, 1, 0, 0x80, 0, 0, 255, 0, 0, 0, 0, 0]
  const frame = [0x21, 0xf9, 4, 0, 0, 0, 0, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0]
  return Buffer.from([...screen, ...Array.from({ length: frames }, () => frame).flat(), 0x3b])
}

const riff = (...chunks: Buffer[]) => {
  const body = Buffer.concat([Buffer.from('WEBP', 'latin1'), ...chunks])
  const out = Buffer.concat([Buffer.from('RIFF\0\0\0\0', 'latin1'), body])
  out.writeUInt32LE(body.length, 4)
  return out
}

const riffChunk = (type: string, data: Buffer) => {
  const head = Buffer.from(`${type}\0\0\0\0`, 'latin1')
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data, Buffer.alloc(data.length & 1)])
}

/** The lossless WebP as a canvas of its own, animated with `frames` of it when there are several. */
export function extendedWebp(picture: Buffer, [width, height]: [number, number], frames = 1): Buffer {
  const canvas = Buffer.alloc(10)
  canvas[0] = frames > 1 ? 2 : 0
  canvas.writeUIntLE(width - 1, 4, 3)
  canvas.writeUIntLE(height - 1, 7, 3)
  const pixels = riffChunk('VP8L', picture.subarray(20, 20 + picture.readUInt32LE(16)))
  if (frames === 1) return riff(riffChunk('VP8X', canvas), pixels)
  const place = Buffer.alloc(16)
  place.writeUIntLE(width - 1, 6, 3)
  place.writeUIntLE(height - 1, 9, 3)
  place.writeUIntLE(100, 12, 3)
  const frame = riffChunk('ANMF', Buffer.concat([place, pixels]))
  return riff(riffChunk('VP8X', canvas), riffChunk('ANIM', Buffer.alloc(6)), ...Array(frames).fill(frame))
}

/** A lossy WebP's head: what tells its size. */
export function lossyWebp(width: number, height: number): Buffer {
  const data = Buffer.alloc(20)
  data.writeUIntBE(0x9d012a, 3, 3)
  data.writeUInt16LE(width, 6)
  data.writeUInt16LE(height | 0x4000, 8)
  return riff(riffChunk('VP8 ', data))
}

/** What a picture shows: its size and its pixels, four bytes each. */
export function pixelsOf(data: string | Buffer) {
  const image = photon.PhotonImage.new_from_byteslice(typeof data === 'string' ? Buffer.from(data, 'base64') : data)
  const width = image.get_width()
  const pixels = image.get_raw_pixels()
  return {
    width,
    height: image.get_height(),
    at: (x: number, y: number) => [...pixels.subarray((y * width + x) * 4, (y * width + x) * 4 + 4)],
  }
}
