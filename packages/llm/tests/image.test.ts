import { deflateSync } from 'node:zlib'
import { HarnessError } from '@cambium/core'
import { admitImage, IMAGE_LIMITS, sniffImage } from '@cambium/llm/image'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  animation,
  extendedWebp,
  gif,
  header,
  jpeg,
  lossyWebp,
  noise,
  pixelsOf,
  png,
  pngOf,
  webp,
  withOrientation,
  withSegment,
} from './pictures.ts'

const bytesOf = ({ data }: { data: string }) => Buffer.from(data, 'base64')

/** What `admitImage` says against it. */
async function refusal(bytes: Uint8Array, options: Parameters<typeof admitImage>[1] = {}): Promise<string> {
  const error = await admitImage(bytes, { name: 'a.png', ...options }).then(
    () => undefined,
    error => error,
  )
  expect(error).toBeInstanceOf(HarnessError)
  expect(error.code).toBe('IMAGE_UNSUPPORTED')
  expect(error.fix).toBeTruthy()
  return `${error.problem}; ${error.fix}`
}

/** Anywhere in something, with the same chance everywhere. */
const place = fc.noBias(fc.integer({ min: 0, max: 9_999 })).map(part => part / 10_000)

/** Pictures with some bytes changed, some of them cut. */
const mutated = (seeds: readonly Buffer[]) =>
  fc
    .record({
      seed: fc.constantFrom(...seeds),
      cut: fc.oneof({ weight: 2, arbitrary: fc.constant(1) }, place),
      edits: fc.array(fc.tuple(place, fc.constantFrom(0, 1, 0x7f, 0x80, 0xd8, 0xfe, 0xff)), { maxLength: 8 }),
    })
    .map(({ seed, cut, edits }) => {
      const bytes = Buffer.from(seed.subarray(0, Math.ceil(seed.length * cut)))
      for (const [at, value] of edits) if (bytes.length) bytes[Math.floor(at * bytes.length)] = value
      return bytes
    })

describe('what bytes are', () => {
  const photo = jpeg(png(60, 40))
  const progressive = Buffer.from(photo)
  progressive[progressive.indexOf(Buffer.from([0xff, 0xc0])) + 1] = 0xc2
  const lossless = webp(png(30, 20))

  it.each([
    ['a PNG', png(30, 20), { mediaType: 'image/png', width: 30, height: 20 }],
    [
      'an animated PNG',
      png(3, 2, undefined, [animation]),
      { mediaType: 'image/png', width: 3, height: 2, animated: true },
    ],
    ['a JPEG', photo, { mediaType: 'image/jpeg', width: 60, height: 40 }],
    ['a progressive JPEG', progressive, { mediaType: 'image/jpeg', width: 60, height: 40 }],
    [
      'a JPEG that EXIF turns',
      withOrientation(photo, 6),
      { mediaType: 'image/jpeg', width: 60, height: 40, orientation: 6 },
    ],
    [
      'one in the other byte order',
      withOrientation(photo, 3, 'II'),
      { mediaType: 'image/jpeg', width: 60, height: 40, orientation: 3 },
    ],
    [
      'a JPEG with a profile before its header',
      withSegment(photo, 0xe2, Buffer.alloc(60_000, 0xff)),
      { mediaType: 'image/jpeg', width: 60, height: 40 },
    ],
    ['a GIF', gif(), { mediaType: 'image/gif', width: 1, height: 1 }],
    ['an animated GIF', gif(3), { mediaType: 'image/gif', width: 1, height: 1, animated: true }],
    ['a lossy WebP', lossyWebp(640, 480), { mediaType: 'image/webp', width: 640, height: 480 }],
    ['a lossless WebP', lossless, { mediaType: 'image/webp', width: 30, height: 20 }],
    ['an extended WebP', extendedWebp(lossless, [30, 20]), { mediaType: 'image/webp', width: 30, height: 20 }],
    [
      'an animated WebP',
      extendedWebp(lossless, [30, 20], 2),
      { mediaType: 'image/webp', width: 30, height: 20, animated: true },
    ],
  ])('%s is known with its size', (_name, bytes, facts) => {
    expect(sniffImage(bytes)).toEqual(facts)
    // A view into a larger memory is the same picture.
    const shared = new Uint8Array(bytes.length + 9)
    shared.set(bytes, 9)
    expect(sniffImage(shared.subarray(9))).toEqual(facts)
  })

  it('a PNG of no pixels, or of more than a file can hold, is none', () => {
    expect(sniffImage(pngOf(header(0, 5, 8, 6), Buffer.alloc(0)))).toBeUndefined()
    expect(sniffImage(pngOf(header(0xffffffff, 5, 8, 6), Buffer.alloc(0)))).toBeUndefined()
    expect(sniffImage(pngOf(header(0x7fffffff, 0x7fffffff, 8, 6), Buffer.alloc(0)))).toBeUndefined()
  })

  it('no bytes make it throw, hang, or give a size that is none', () => {
    const seeds = [
      png(5, 4, undefined, [animation]),
      withOrientation(photo, 8),
      gif(2),
      lossless,
      lossyWebp(9, 9),
      extendedWebp(lossless, [30, 20], 2),
    ]
    fc.assert(
      fc.property(fc.oneof(mutated(seeds), fc.uint8Array({ maxLength: 200 })), bytes => {
        const facts = sniffImage(bytes)
        if (!facts) return
        expect(facts.width).toBeGreaterThan(0)
        expect(facts.height).toBeGreaterThan(0)
        expect(Number.isSafeInteger(facts.width * facts.height)).toBe(true)
      }),
      { numRuns: 3_000 },
    )
  })
})

describe('the door', () => {
  it('a PNG or JPEG within the limits passes byte for byte, whatever it was said to be', async () => {
    for (const bytes of [png(40, 30), jpeg(noise(90, 90)), withOrientation(jpeg(png(40, 30)), 6)]) {
      const block = await admitImage(bytes)
      expect(bytesOf(block).equals(bytes)).toBe(true)
      expect(block.mediaType).toBe(sniffImage(bytes)!.mediaType)
    }
  })

  it('one that is too large is scaled down, its shape kept', async () => {
    const picture = png(640, 320, (x, y) => [x >> 2, y >> 1, 90, 255])
    const { width, height, at } = pixelsOf((await admitImage(picture, { maxSide: 100 })).data)
    expect([width, height]).toEqual([100, 50])
    expect(at(90, 5)[0]).toBeGreaterThan(at(10, 5)[0]! + 100)
    expect(at(5, 45)[1]).toBeGreaterThan(at(5, 5)[1]! + 100)
  })

  it('each of the eight ways of EXIF puts the first stored pixel where it belongs', async () => {
    // Only the corner that is stored first is white.
    const stored = jpeg(
      png(80, 48, (x, y) => (x < 24 && y < 16 ? [255, 255, 255, 255] : [0, 0, 0, 255])),
      95,
    )
    const corner = async (orientation: number) => {
      const { width, height, at } = pixelsOf(
        (await admitImage(withOrientation(stored, orientation), { maxSide: 40 })).data,
      )
      const light = (x: number, y: number) => at(x, y)[0]! > 128
      if (light(2, 2)) return 'top left'
      if (light(width - 3, 2)) return 'top right'
      return light(width - 3, height - 3) ? 'bottom right' : light(2, height - 3) ? 'bottom left' : 'nowhere'
    }
    const found = []
    for (let orientation = 1; orientation <= 8; orientation++) found.push(await corner(orientation))
    expect(found).toEqual([
      'top left',
      'top right',
      'bottom right',
      'bottom left',
      'top left',
      'top right',
      'bottom right',
      'bottom left',
    ])
  })

  it('GIF and WebP become what every provider takes: the first frame as PNG, or JPEG', async () => {
    const still = webp(png(30, 20, () => [0, 0, 255, 255]))
    const ghost = webp(png(30, 20, () => [0, 0, 255, 90]))
    const all = await Promise.all(
      [gif(3), still, extendedWebp(still, [30, 20], 2), ghost].map(bytes => admitImage(bytes)),
    )
    expect(all.map(({ mediaType }) => mediaType)).toEqual(['image/png', 'image/jpeg', expect.any(String), 'image/png'])
    expect(all.map(block => sniffImage(bytesOf(block))?.mediaType)).toEqual(all.map(({ mediaType }) => mediaType))
    expect(pixelsOf(all[0]!.data).at(0, 0)).toEqual([255, 0, 0, 255])
    expect(pixelsOf(all[2]!.data).at(5, 5)[2]).toBeGreaterThan(200)
    expect(pixelsOf(all[3]!.data).at(5, 5)[3]).toBe(90)
  })

  it('what does not compress becomes a JPEG, smaller still if need be, below the limit of bytes', async () => {
    const maxBase64 = 40_000
    const block = await admitImage(noise(300, 300), { maxBase64 })
    expect(block.mediaType).toBe('image/jpeg')
    expect(block.data.length).toBeLessThanOrEqual(maxBase64)
    expect(await refusal(noise(300, 300), { maxBase64: 400 })).toMatch(/does not get small enough; scale it down/)
  })

  it('a transparent picture that has to be a JPEG lies on white', async () => {
    const sheer = png(300, 300, (x, y) =>
      (x * 7919 + y * 104_729) % 3 ? [0, 0, 0, 0] : [(x * y) & 255, x & 255, y & 255, 40],
    )
    const block = await admitImage(sheer, { maxBase64: 30_000 })
    expect(block.mediaType).toBe('image/jpeg')
    expect(pixelsOf(block.data).at(3, 3)[0]).toBeGreaterThan(180)
  })

  it.each([
    ['BM\x10\0\0\0\0\0\0\0', /a BMP picture/],
    ['II*\0\x08\0\0\0', /a TIFF picture/],
    ['\0\0\0\x20ftypavif\0\0\0\0', /an AVIF picture/],
    ['\0\0\0\x20ftypheic\0\0\0\0', /a HEIC picture/],
    ['\0\0\x01\0\x01\0', /an ICO icon/],
    ['<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>', /an SVG drawing.*render it to PNG/],
    ['<svg/>', /an SVG drawing/],
    ['<!-- logo -->\n<svg width="3">', /an SVG drawing/],
    ['<!DOCTYPE html><title>404</title>', /a page of HTML.*error page/],
    ['%PDF-1.7', /a PDF document/],
    ['BMW is a car', /a text/],
    ['', /an empty file/],
    ['\x07\x01\x02nothing', /no picture that is known/],
  ])('%j is refused by its name, with what to do', async (text, said) => {
    const problem = await refusal(Buffer.from(text, 'latin1'))
    expect(problem).toMatch(said)
    expect(problem).toMatch(/^a\.png is /)
  })

  it('damaged and cut pictures are refused and not sent', async () => {
    const good = noise(80, 80)
    const hole = Buffer.from(good).fill(0, 9_000, 9_500)
    expect(await refusal(hole)).toMatch(/damaged PNG: its IDAT part is damaged/)
    expect(await refusal(good.subarray(0, 12_000))).toMatch(/damaged PNG: it is cut off/)
    expect(await refusal(good.subarray(0, 20))).toMatch(/damaged PNG: its header cannot be read/)
    // All checksums are right, and still there is no picture in it.
    expect(await refusal(pngOf(header(1, 1, 8, 6), Buffer.from('stub')))).toMatch(/its pixels are damaged/)
    expect(await refusal(pngOf(header(50, 50, 8, 6), deflateSync(Buffer.alloc(90))))).toMatch(/its pixels are damaged/)
    expect(await refusal(pngOf(header(5, 5, 7, 6), deflateSync(Buffer.alloc(200))))).toMatch(/its header is senseless/)
    const photo = jpeg(png(80, 80))
    expect(await refusal(photo.subarray(0, photo.length - 30))).toMatch(/damaged JPEG: it is cut off/)
    expect(await refusal(photo.subarray(0, 200))).toMatch(/damaged JPEG/)
    expect(await refusal(gif().subarray(0, 34))).toMatch(/damaged GIF: it is cut off/)
    expect(await refusal(webp(good).subarray(0, 400))).toMatch(/damaged WebP: it is cut off/)
    expect(await refusal(extendedWebp(webp(good), [4, 4]))).toMatch(/its sizes contradict/)
  })

  it('a PNG of any depth and interlacing is not taken for a damaged one', async () => {
    const bytes = (width: number, bits: number) => 1 + Math.ceil((width * bits) / 8)
    for (const [depth, colour, channels] of [
      [1, 0, 1],
      [2, 3, 1],
      [4, 0, 1],
      [16, 2, 3],
      [8, 4, 2],
    ] as const) {
      const rows = Buffer.alloc(7 * bytes(9, depth * channels))
      const plain = pngOf(header(9, 7, depth, colour), deflateSync(rows))
      await expect(admitImage(plain)).resolves.toMatchObject({ mediaType: 'image/png' })
    }
    // Seven passes over 9 × 7 pixels of one byte.
    const passes = [
      [2, 1],
      [1, 1],
      [3, 1],
      [2, 2],
      [5, 2],
      [4, 4],
      [9, 3],
    ] as const
    const interlaced = Buffer.alloc(passes.reduce((sum, [width, rows]) => sum + rows * (1 + width), 0))
    await expect(admitImage(pngOf(header(9, 7, 8, 0, 1), deflateSync(interlaced)))).resolves.toBeTruthy()
    expect(await refusal(pngOf(header(9, 7, 8, 0, 1), deflateSync(interlaced.subarray(1))))).toMatch(
      /pixels are damaged/,
    )
  })

  it('a picture that would fill the memory is refused by its header alone', async () => {
    const bomb = pngOf(header(12_000, 12_000, 8, 6), deflateSync(Buffer.alloc(1_000)))
    expect(await refusal(bomb)).toMatch(/a\.png has 12000 × 12000 pixels, and at most 51 megapixels are decoded/)
    expect(IMAGE_LIMITS.maxBase64).toBe(5_242_880)
  })

  it('pixels that only a decoder finds damaged are refused as well, and the next picture is converted', async () => {
    const broken = webp(noise(60, 60))
    broken.fill(0xa5, 40)
    const [first, second] = await Promise.allSettled([admitImage(broken), admitImage(webp(png(9, 9)))])
    expect(first).toMatchObject({ status: 'rejected', reason: { code: 'IMAGE_UNSUPPORTED' } })
    expect(second).toMatchObject({ status: 'fulfilled' })
  })

  it('property: whatever is wrong with a picture, it is let in or refused in words', async () => {
    const seeds = [png(9, 9), png(5, 4, undefined, [animation]), withOrientation(jpeg(png(9, 9)), 6), gif(2)]
    let passed = 0
    await fc.assert(
      fc.asyncProperty(mutated([...seeds, noise(20, 20)]), async bytes => {
        const block = await admitImage(bytes).catch(error => error)
        if (block instanceof Error) expect(block).toMatchObject({ code: 'IMAGE_UNSUPPORTED', fix: expect.any(String) })
        else passed++
      }),
      { numRuns: 60 },
    )
    expect(passed).toBeGreaterThan(0)
  })

  it('a conversion ends when its signal says so', async () => {
    const stop = new AbortController()
    const waiting = admitImage(noise(600, 600), { maxSide: 500, signal: stop.signal })
    setImmediate(() => stop.abort(new Error('enough')))
    await expect(waiting).rejects.toThrow('enough')
  })
})
