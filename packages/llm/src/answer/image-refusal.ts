/** Goes on without an image that a provider refuses, so that one bad picture does not end a conversation for good. */

import type { ImageBlock } from '../message.ts'
import type { LlmFailure, LlmFailureCode, StreamChunk } from '../stream.ts'

/** Codes that a refused request has; a server of one's own may call it its own trouble when a model has no eyes. */
const CODES: readonly LlmFailureCode[] = ['INVALID_REQUEST', 'UNSUPPORTED_CONTENT', 'UNKNOWN_MODEL', 'SERVER']
const ABOUT_IMAGES = /\bimages?\b|image_url|\bvision\b|multi-?modal/i
/** A server in trouble may quote anything, so that it has to be plainer. */
const NO_EYES = /image input|(support|process|accept|read|handle)\w*.{0,20}\bimages?\b/i

const isAboutImages = ({ code, message }: LlmFailure): boolean =>
  CODES.includes(code) && (code === 'SERVER' ? NO_EYES : ABOUT_IMAGES).test(message)

/** What each provider's models took, and what not, for as long as the process lives. */
export class ImageRefusals {
  private readonly taken = new WeakMap<ImageBlock, Set<string>>()
  private readonly refused = new WeakMap<ImageBlock, Set<string>>()

  isRefused(image: ImageBlock, route: string): boolean {
    return this.refused.get(image)?.has(route) ?? false
  }

  /**
   * Those that it has never answered to, and all of them when there is none: which one it means cannot be told. Returns
   * the undo, for when it was not that.
   */
  refuse(images: readonly ImageBlock[], route: string): () => void {
    const fresh = images.filter(image => !this.taken.get(image)?.has(route))
    const meant = fresh.length ? fresh : images
    for (const image of meant) mark(this.refused, image, route)
    return () => {
      for (const image of meant) this.refused.get(image)?.delete(route)
    }
  }

  take(images: readonly ImageBlock[], route: string): void {
    for (const image of images) mark(this.taken, image, route)
  }
}

function mark(marks: WeakMap<ImageBlock, Set<string>>, image: ImageBlock, route: string): void {
  const routes = marks.get(image) ?? new Set()
  marks.set(image, routes.add(route))
}

type Attempt = AsyncIterableIterator<StreamChunk, undefined>

export interface SecondTryOptions {
  readonly first: Attempt
  /** Called when the provider has begun to answer: it takes the images. */
  readonly taken: () => void
  /** Called once, when it has refused an image before it said anything. */
  readonly refused: (failure: LlmFailure) => {
    /** What goes on in place of the first attempt. */
    readonly attempt: Attempt
    /** Called when that one fails as well, so that the images were not the reason. */
    readonly undo: () => void
  }
}

/** One attempt, or a second one without the images that the provider would not take in the first. */
export class SecondTry implements AsyncIterableIterator<StreamChunk, undefined> {
  private readonly options: SecondTryOptions
  private current: Attempt
  private begun = false

  constructor(options: SecondTryOptions) {
    this.options = options
    this.current = options.first
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<StreamChunk, undefined>> {
    const step = await this.current.next()
    if (this.begun || step.done) return step
    this.begun = true
    const failure = failureOf(step.value)
    if (!failure) this.options.taken()
    if (!failure || !isAboutImages(failure)) return step
    const { attempt, undo } = this.options.refused(failure)
    this.current = attempt
    const other = await attempt.next()
    if (!other.done && failureOf(other.value)) undo()
    return other
  }

  async return(): Promise<IteratorResult<StreamChunk, undefined>> {
    return (await this.current.return?.()) ?? { done: true, value: undefined }
  }
}

const failureOf = (chunk: StreamChunk): LlmFailure | undefined => (chunk.type === 'finish' ? chunk.failure : undefined)
