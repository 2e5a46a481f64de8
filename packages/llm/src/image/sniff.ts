/** What bytes are, by their content alone: headers are read, nothing is decoded, and no input makes it throw. */

import { readGif } from './gif.ts'
import { readJpeg } from './jpeg.ts'
import { readPng } from './png.ts'
import { asBuffer, type ImageMediaType, imageTypeOf } from './signature.ts'
import type { ImageSize } from './size.ts'
import { readWebp } from './webp.ts'

export interface ImageFacts extends ImageSize {
  readonly mediaType: ImageMediaType
}

const READERS: Readonly<Record<ImageMediaType, (bytes: Buffer) => ImageSize | undefined>> = {
  'image/png': readPng,
  'image/jpeg': readJpeg,
  'image/gif': readGif,
  'image/webp': readWebp,
}

/** Type and size of a PNG, JPEG, GIF or WebP; undefined for anything else, and when its header is cut or senseless. */
export function sniffImage(bytes: Uint8Array): ImageFacts | undefined {
  const buffer = asBuffer(bytes)
  const mediaType = imageTypeOf(buffer)
  const size = mediaType && READERS[mediaType](buffer)
  // Both sides are counted in at most 31 bits; a product that is no safe integer is no picture either.
  if (!size || size.width < 1 || size.height < 1 || !Number.isSafeInteger(size.width * size.height)) return undefined
  return { mediaType, ...size }
}
