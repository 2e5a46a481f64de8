/** What runs on the thread of one conversion: a script as text, because the released form has no file for it. */

import type { ImageMediaType } from './signature.ts'

export interface ConverterJob {
  /** Where the library is. */
  readonly library: string
  readonly bytes: Uint8Array
  /** At most 1. */
  readonly scale: number
  /** As EXIF counts it. */
  readonly orientation: number
  /** Whether PNG is tried first. */
  readonly lossless: boolean
  readonly maxBytes: number
}

export type ConverterResult =
  | { readonly kind: 'made'; readonly mediaType: ImageMediaType; readonly bytes: Uint8Array }
  | { readonly kind: 'no library'; readonly problem: string }
  | { readonly kind: 'undecodable' | 'too large' }

/**
 * `upright` maps each pixel to where EXIF wants it. JPEG has no transparency: what is behind is white, as in a browser,
 * for dark text on nothing would vanish on black. A picture that has none and is not lossless stays JPEG.
 */
export const CONVERTER = `'use strict'
const { parentPort, workerData } = require('node:worker_threads')
const { library, bytes, scale, orientation, lossless, maxBytes } = workerData
parentPort.postMessage(convert())

function convert() {
  let photon
  try {
    photon = require(library)
  } catch (error) {
    return { kind: 'no library', problem: String(error && error.message) }
  }
  let image
  try {
    image = photon.PhotonImage.new_from_byteslice(bytes)
  } catch {
    return { kind: 'undecodable' }
  }
  image = resized(photon, image, scale)
  if (orientation > 1) image = upright(photon, image)
  const transparent = isTransparent(image.get_raw_pixels())
  for (let round = 0; round < 8; round++) {
    if (lossless || transparent) {
      const png = image.get_bytes()
      if (png.length <= maxBytes) return { kind: 'made', mediaType: 'image/png', bytes: png }
    }
    const flat = transparent ? flattened(photon, image) : image
    for (const quality of [85, 70]) {
      const jpeg = flat.get_bytes_jpeg(quality)
      if (jpeg.length <= maxBytes) return { kind: 'made', mediaType: 'image/jpeg', bytes: jpeg }
    }
    if (flat !== image) flat.free()
    image = resized(photon, image, 0.7)
  }
  return { kind: 'too large' }
}

function resized(photon, image, by) {
  if (by >= 1) return image
  const side = length => Math.max(1, Math.round(length * by))
  const small = photon.resize(image, side(image.get_width()), side(image.get_height()), photon.SamplingFilter.Lanczos3)
  image.free()
  return small
}

function upright(photon, image) {
  const width = image.get_width()
  const height = image.get_height()
  const from = new Uint32Array(image.get_raw_pixels().buffer)
  const turned = orientation >= 5
  const [outWidth, outHeight] = turned ? [height, width] : [width, height]
  const flipX = [2, 3, 7, 8].includes(orientation)
  const flipY = [3, 4, 6, 7].includes(orientation)
  const to = new Uint32Array(from.length)
  for (let y = 0; y < outHeight; y++) {
    for (let x = 0; x < outWidth; x++) {
      const [a, b] = turned ? [y, x] : [x, y]
      to[y * outWidth + x] = from[(flipY ? height - 1 - b : b) * width + (flipX ? width - 1 - a : a)]
    }
  }
  image.free()
  return new photon.PhotonImage(new Uint8Array(to.buffer), outWidth, outHeight)
}

function isTransparent(pixels) {
  for (let at = 3; at < pixels.length; at += 4) if (pixels[at] !== 255) return true
  return false
}

function flattened(photon, image) {
  const pixels = image.get_raw_pixels()
  for (let at = 0; at < pixels.length; at += 4) {
    const alpha = pixels[at + 3]
    for (let part = at; part < at + 3; part++) pixels[part] = Math.round((pixels[part] * alpha + 255 * (255 - alpha)) / 255)
    pixels[at + 3] = 255
  }
  return new photon.PhotonImage(pixels, image.get_width(), image.get_height())
}
`
