/** What a picture costs, which providers count by its size and each in its own way. */

import type { ImageSize } from '../image/size.ts'
import { sniffImage } from '../image/sniff.ts'
import type { ImageBlock } from '../message.ts'
import type { Vocabulary } from './vocabulary.ts'

/** Enough for the header of nearly every picture, in characters of base64. */
const HEAD_CHARS = 87_384

export function sizeOf({ data }: ImageBlock): ImageSize | undefined {
  return sniffImage(Buffer.from(data.slice(0, HEAD_CHARS), 'base64'))
}

/** Of the size `undefined`, which could not be read, a middle value. */
export function imageTokens(size: ImageSize | undefined, vocabulary: Vocabulary): number {
  switch (vocabulary) {
    case 'o200k':
    case 'cl100k':
      return size ? tileTokens(size) : 765
    case 'gemini':
      return size ? 258 * cropsOf(size) : 1_032
    default:
      return size ? areaTokens(size) : 1_200
  }
}

/** Anthropic: scaled into 1568 × 1568 and about 1.15 megapixels, then a token for 750 pixels (docs: Vision, "Image size"). */
function areaTokens({ width, height }: ImageSize): number {
  const scale = Math.min(1, 1_568 / Math.max(width, height))
  return Math.min(1_600, Math.ceil((width * scale * height * scale) / 750))
}

/** OpenAI, high detail: into 2048 × 2048, the shorter side to 768, 170 a tile of 512 and 85 once (docs: Images and vision). */
function tileTokens({ width, height }: ImageSize): number {
  const fit = Math.min(1, 2_048 / Math.max(width, height))
  const scale = fit * Math.min(1, 768 / (Math.min(width, height) * fit))
  return 85 + 170 * Math.ceil((width * scale) / 512) * Math.ceil((height * scale) / 512)
}

/** Gemini: one piece up to 384 × 384, else pieces of 768. */
function cropsOf({ width, height }: ImageSize): number {
  if (width <= 384 && height <= 384) return 1
  return Math.min(16, Math.ceil(width / 768) * Math.ceil(height / 768))
}
