/** The door that every picture passes on its way into a conversation. */

import { HarnessError } from '@cambium/core'
import type { ImageBlock } from '../message.ts'
import { damagedGif } from './gif.ts'
import { damagedJpeg } from './jpeg.ts'
import { damagedPng } from './png-data.ts'
import { type ImageMediaType, imageTypeOf, otherFormatOf } from './signature.ts'
import { type ImageFacts, sniffImage } from './sniff.ts'
import { damagedWebp } from './webp.ts'

export interface ImageLimits {
  /** Pixels of the longer side. */
  readonly maxSide: number
  /** Characters of base64. */
  readonly maxBase64: number
  /** Pixels that are decoded at all. */
  readonly maxPixels: number
}

/**
 * The tightest among common providers, so that a conversation may change its model. Anthropic takes 5 MiB of base64 an
 * image, and sides of 2000 pixels as soon as a request holds more than 20 (8000 otherwise); OpenAI scales to 2048 itself
 * and Gemini to tiles of 768, so that nothing is seen in more. @see https://platform.claude.com/docs/en/build-with-claude/vision
 * The pixels are a bound of memory, four bytes each while one is scaled: a phone's 50 megapixels are below it.
 */
export const IMAGE_LIMITS: ImageLimits = { maxSide: 2_000, maxBase64: 5 * 2 ** 20, maxPixels: 51_000_000 }

/** More than any picture below {@link ImageLimits.maxPixels} needs. */
const MAX_FILE_BYTES = 256 * 2 ** 20

export interface AdmitOptions extends Partial<ImageLimits> {
  /** What the message calls it: the name of its file, say. */
  readonly name?: string
  readonly signal?: AbortSignal
}

/**
 * Makes a file's bytes a block that every common provider takes, and refuses what is none: its type is read from the
 * bytes, whatever a name or a header said. A PNG or JPEG within the limits stays as it is, byte for byte. A larger one is
 * scaled down and turned upright, and a GIF or WebP becomes a PNG or JPEG of its first frame, on a thread of its own.
 *
 * @throws `IMAGE_UNSUPPORTED` for what is no picture, damaged, too large, or cannot be converted here: what it is, and
 * what to do. The signal's reason when that aborts.
 */
export async function admitImage(bytes: Uint8Array, options: AdmitOptions = {}): Promise<ImageBlock> {
  const { name = 'the image', signal, ...own } = options
  const limits = { ...IMAGE_LIMITS, ...own }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const refuse = (problem: string, fix: string, cause?: unknown) =>
    new HarnessError('IMAGE_UNSUPPORTED', `${name} ${problem}`, { fix, cause })
  signal?.throwIfAborted()
  if (buffer.length > MAX_FILE_BYTES) throw refuse(`holds ${megabytes(buffer.length)}`, 'give a smaller one')
  const facts = sniffImage(buffer)
  if (!facts) {
    const mediaType = imageTypeOf(buffer)
    if (mediaType) throw refuse(`is a damaged ${formatOf(mediaType)}: its header cannot be read`, GET_ANEW)
    const { name: other, fix } = otherFormatOf(buffer)
    throw refuse(`is ${other} and no image`, fix)
  }
  const { mediaType, width, height } = facts
  if (width * height > limits.maxPixels) {
    const most = `${Math.floor(limits.maxPixels / 1e6)} megapixels`
    throw refuse(`has ${width} × ${height} pixels, and at most ${most} are decoded`, 'scale it down, or cut out a part')
  }
  const damage = await damageOf(buffer, mediaType)
  if (damage) throw refuse(`is a damaged ${formatOf(mediaType)}: ${damage}`, GET_ANEW)
  signal?.throwIfAborted()
  if (isFine(facts, buffer, limits)) return { type: 'image', mediaType, data: buffer.toString('base64') }
  const { convertImage, ConversionError } = await import('./convert.ts')
  try {
    const made = await convertImage(buffer, facts, limits, signal)
    return { type: 'image', mediaType: made.mediaType, data: Buffer.from(made.bytes).toString('base64') }
  } catch (error) {
    if (!(error instanceof ConversionError)) throw error
    throw refuse(`${whyConverted(facts, buffer, limits)}, and ${error.message}`, error.fix, error)
  }
}

/** In both every provider of images takes them; of the other two one or the other is refused by several. */
const COMMON: readonly ImageMediaType[] = ['image/png', 'image/jpeg']
const GET_ANEW = 'get it anew, or convert it to PNG or JPEG'

function isFine({ mediaType, width, height, animated }: ImageFacts, bytes: Buffer, limits: ImageLimits): boolean {
  const small = Math.max(width, height) <= limits.maxSide && base64Length(bytes.length) <= limits.maxBase64
  return small && COMMON.includes(mediaType) && !animated
}

function whyConverted({ mediaType, width, height }: ImageFacts, bytes: Buffer, limits: ImageLimits): string {
  if (Math.max(width, height) > limits.maxSide)
    return `has ${width} × ${height} pixels, ${limits.maxSide} a side are allowed`
  if (base64Length(bytes.length) > limits.maxBase64)
    return `holds ${megabytes(bytes.length)}, ${megabytes((limits.maxBase64 / 4) * 3)} are allowed`
  return `is a ${formatOf(mediaType)}, which not every model reads`
}

async function damageOf(bytes: Buffer, mediaType: ImageMediaType): Promise<string | undefined> {
  switch (mediaType) {
    case 'image/png':
      return damagedPng(bytes)
    case 'image/jpeg':
      return damagedJpeg(bytes)
    case 'image/gif':
      return damagedGif(bytes)
    case 'image/webp':
      return damagedWebp(bytes)
  }
}

export const base64Length = (bytes: number): number => 4 * Math.ceil(bytes / 3)

const formatOf = (mediaType: ImageMediaType) =>
  ({ png: 'PNG', jpeg: 'JPEG', gif: 'GIF', webp: 'WebP' })[mediaType.slice(6)]!

const megabytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`
