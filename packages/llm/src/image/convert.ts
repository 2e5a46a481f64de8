/** Scales pictures down and changes their format, on a thread of its own and one at a time. */

import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'
import { errorMessage } from '@cambium/core'
import type { ImageLimits } from './admit.ts'
import { CONVERTER, type ConverterJob, type ConverterResult } from './converter.ts'
import type { ImageMediaType } from './signature.ts'
import type { ImageFacts } from './sniff.ts'

/** Decodes, scales and encodes, as WebAssembly: no binary of a platform, no download. */
const LIBRARY = '@silvia-odwyer/photon-node'

/** Twenty times what 12 megapixels take on a slow machine. */
const CONVERT_MS = 60_000

/** Why a picture could not be converted, as the end of a sentence. */
export class ConversionError extends Error {
  override readonly name = 'ConversionError'
  readonly fix: string
  constructor(problem: string, fix: string, cause?: unknown) {
    super(problem, { cause })
    this.fix = fix
  }
}

export interface Converted {
  readonly mediaType: ImageMediaType
  readonly bytes: Uint8Array
}

let before: Promise<unknown> = Promise.resolve()

/**
 * Each picture has a thread, which ends with it: a decoder that meets damaged data may leave its memory in any state, and
 * WebAssembly gives none back. One at a time, because a large one takes hundreds of megabytes.
 * @throws ConversionError, or the signal's reason
 */
export function convertImage(
  bytes: Buffer,
  facts: ImageFacts,
  limits: ImageLimits,
  signal: AbortSignal | undefined,
): Promise<Converted> {
  const mine = before.then(() => run(bytes, facts, limits, signal))
  before = mine.catch(() => {})
  return mine
}

async function run(
  bytes: Buffer,
  { mediaType, width, height, orientation = 1 }: ImageFacts,
  { maxSide, maxBase64 }: ImageLimits,
  signal: AbortSignal | undefined,
): Promise<Converted> {
  signal?.throwIfAborted()
  const job: ConverterJob = {
    library: find(),
    bytes,
    scale: Math.min(1, maxSide / Math.max(width, height)),
    orientation,
    lossless: mediaType === 'image/png' || mediaType === 'image/gif',
    maxBytes: Math.floor(maxBase64 / 4) * 3,
  }
  const worker = new Worker(CONVERTER, { eval: true, workerData: job, stdout: true, stderr: true, execArgv: [] })
  let timer: NodeJS.Timeout | undefined
  let stop = () => {}
  try {
    const result = await new Promise<ConverterResult>((resolve, reject) => {
      stop = () => reject(signal?.reason)
      signal?.addEventListener('abort', stop, { once: true })
      const late = new ConversionError('converting it takes too long', 'scale it down first')
      timer = setTimeout(() => reject(late), CONVERT_MS)
      worker.once('message', resolve)
      worker.once('error', error =>
        reject(new ConversionError(`it cannot be converted: ${errorMessage(error)}`, AGAIN)),
      )
      worker.once('exit', () => reject(new ConversionError('its conversion broke off', AGAIN)))
    })
    if (result.kind === 'made') return result
    if (result.kind === 'no library') throw new ConversionError(`${LIBRARY} does not load: ${result.problem}`, INSTALL)
    if (result.kind === 'undecodable') throw new ConversionError('its pixels cannot be decoded', AGAIN)
    throw new ConversionError('it does not get small enough', 'scale it down, or cut out a part')
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
    await worker.terminate()
  }
}

const AGAIN = 'convert it to a PNG or JPEG of less than 2000 pixels a side by other means'
const INSTALL = 'scale it down by other means, or install the package again with all of its dependencies'

function find(): string {
  try {
    return createRequire(import.meta.url).resolve(LIBRARY)
  } catch (error) {
    throw new ConversionError(`what would convert it, ${LIBRARY}, is not installed`, INSTALL, error)
  }
}
