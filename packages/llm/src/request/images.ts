/** Pictures as a request may hold them: each what it says it is, not too many, and none that was refused. */

import type { ImageRules } from '../adapter.ts'
import { type ImageMediaType, imageTypeOf, otherFormatOf } from '../image/signature.ts'
import type { ContentBlock, ImageBlock, Message, TextBlock } from '../message.ts'
import { LlmError } from '../web/failure.ts'

/** The tightest bound of one image among common providers (Anthropic), in characters of base64. */
const MAX_IMAGE_BASE64 = 5 * 2 ** 20
/** Enough of a file to tell what it is. */
const HEAD_CHARS = 684

/**
 * Anthropic takes 100 images and 32 MB a request, OpenAI 500 and 50 MB, Gemini 20 MB. Text needs room as well, and each
 * image costs some 1,500 tokens with every later request.
 */
const USUAL: Required<ImageRules> = {
  mediaTypes: ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] satisfies ImageMediaType[],
  maxCount: 40,
  maxBase64: 16 * 2 ** 20,
}

const note = (text: string): TextBlock => ({ type: 'text', text: `[An image was here; ${text}.]` })
const LEFT_OUT = note('it was left out, because a request may hold only so many. Look at it again if it is needed')
const REFUSED = note('the provider refused it. It may be damaged; do not send it again as it is')

// One image ------------------------------------------------------------------------------------------------------

const sound = new WeakMap<ImageBlock, ImageBlock | TextBlock>()

/**
 * The image with the type that its bytes have and in clean base64, whoever made it; a text in place of what is none. Only
 * the head is decoded, and only once: the very same block comes back where nothing was wrong.
 */
export function soundImage(block: ImageBlock): ImageBlock | TextBlock {
  let made = sound.get(block)
  if (!made) {
    made = examined(block)
    sound.set(block, made)
  }
  return made
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

function examined(block: ImageBlock): ImageBlock | TextBlock {
  let { data } = block
  if (data.length % 4 || !BASE64.test(data)) {
    // A data URL, lines, or the alphabet of addresses: all are read, and said anew.
    data = Buffer.from(data.replace(/^data:[^,]{0,200},/, ''), 'base64').toString('base64')
  }
  const head = Buffer.from(data.slice(0, HEAD_CHARS), 'base64')
  const mediaType = imageTypeOf(head)
  if (!mediaType) {
    const { name, fix } = otherFormatOf(head)
    return note(`it cannot be shown: it is ${name}; ${fix}`)
  }
  if (data.length > MAX_IMAGE_BASE64) {
    const size = `${((data.length * 3) / 4 / 2 ** 20).toFixed(1)} MiB`
    return note(`it was left out, because it holds ${size}. Scale it down, or cut out a part`)
  }
  return mediaType === block.mediaType && data === block.data ? block : { type: 'image', mediaType, data }
}

// A request ------------------------------------------------------------------------------------------------------

export interface FittedImages {
  readonly messages: readonly Message[]
  /** The images that stay. */
  readonly sent: readonly ImageBlock[]
  /** Why the request cannot be made: what was asked with the last message does not fit. */
  readonly problem: LlmError | undefined
}

interface Place {
  readonly message: number
  readonly block: ImageBlock
  instead: TextBlock | undefined
}

/**
 * Keeps a request to what its provider takes. When there are too many images the oldest give way, until a quarter of the
 * room is free again, so that the prefix changes once in a while and not with each image: what gives way follows from
 * the history alone, step by step as it grew. Images of the last thing that a person said never do.
 */
export function fitImages(
  messages: readonly Message[],
  rules: ImageRules & { readonly provider: string; readonly refused?: (block: ImageBlock) => boolean },
): FittedImages {
  const places: Place[] = []
  for (const [message, value] of messages.entries())
    for (const block of imagesOf(value)) places.push({ message, block, instead: undefined })
  if (!places.length) return { messages, sent: [], problem: undefined }
  const { mediaTypes, maxCount, maxBase64 } = { ...USUAL, ...rules }
  for (const place of places) {
    if (rules.refused?.(place.block)) place.instead = REFUSED
    else if (!mediaTypes.includes(place.block.mediaType)) place.instead = otherType(place.block, mediaTypes)
  }
  const budget = new Budget(maxCount, maxBase64)
  let next = 0
  for (const [index, message] of messages.entries()) {
    if (said(message)) budget.spoken(index)
    for (; places[next]?.message === index; next++) if (!places[next]!.instead) budget.add(places[next]!)
  }
  return {
    messages: replaced(messages, places),
    sent: budget.kept.map(({ block }) => block),
    // What else there was has given way by now.
    problem: budget.exceeds(1) ? tooMuch(rules.provider, budget) : undefined,
  }
}

/** What is kept so far, oldest first. */
class Budget {
  kept: Place[] = []
  readonly maxCount: number
  readonly maxBase64: number
  /** The last message of a person. */
  private asked = -1

  constructor(maxCount: number, maxBase64: number) {
    this.maxCount = maxCount
    this.maxBase64 = maxBase64
  }

  get base64(): number {
    return this.kept.reduce((sum, { block }) => sum + block.data.length, 0)
  }

  exceeds(part: number): boolean {
    return this.kept.length > Math.max(1, Math.floor(this.maxCount * part)) || this.base64 > this.maxBase64 * part
  }

  /** What was asked before may give way from now on. */
  spoken(message: number): void {
    this.asked = message
    this.trim()
  }

  add(place: Place): void {
    this.kept.push(place)
    this.trim(place)
  }

  /** The newest one goes last: it is what the model is about to look at. */
  private trim(newest?: Place): void {
    if (!this.exceeds(1)) return
    for (const old of this.kept.filter(({ message }) => message !== this.asked)) {
      if (!this.exceeds(old === newest ? 1 : 3 / 4)) continue
      old.instead = LEFT_OUT
      this.kept = this.kept.filter(other => other !== old)
    }
  }
}

function tooMuch(provider: string, { kept, base64, maxCount, maxBase64 }: Budget): LlmError {
  const many = kept.length > maxCount
  const mib = (chars: number) => `${(chars / 2 ** 20).toFixed(1)} MiB`
  const [held, most] = many ? [`${kept.length} images`, `${maxCount}`] : [`images of ${mib(base64)}`, mib(maxBase64)]
  return new LlmError({
    code: 'UNSUPPORTED_CONTENT',
    message: `the message holds ${held}, and a request to ${provider} at most ${most}`,
    fix: many ? 'send fewer images at once' : 'send fewer or smaller images at once',
  })
}

function otherType({ mediaType }: ImageBlock, mediaTypes: readonly string[]): TextBlock {
  const formats = mediaTypes.map(type => type.replace(/^image\//, ''))
  return note(`this provider does not read ${mediaType}, but ${formats.join(', ')}`)
}

const said = ({ role, source }: Message) => role === 'user' && source.kind === 'user'

// Messages -------------------------------------------------------------------------------------------------------

const found = new WeakMap<Message, readonly ImageBlock[]>()
const NONE: readonly ImageBlock[] = []

function imagesOf(message: Message): readonly ImageBlock[] {
  if (message.role !== 'user') return NONE
  let images = found.get(message)
  if (!images) {
    images = message.content.flatMap(block => {
      if (block.type === 'image') return [block]
      return block.type === 'tool-result' ? block.content.filter(item => item.type === 'image') : []
    })
    found.set(message, images)
  }
  return images
}

/** What a message last became, so that adapters may remember it by identity. */
const made = new WeakMap<Message, { readonly key: string; readonly message: Message }>()

function replaced(messages: readonly Message[], places: readonly Place[]): readonly Message[] {
  const changed = new Map<number, Place[]>()
  for (const place of places) changed.set(place.message, [...(changed.get(place.message) ?? []), place])
  for (const [index, own] of changed) if (own.every(({ instead }) => !instead)) changed.delete(index)
  if (!changed.size) return messages
  return messages.map((message, index) => {
    const own = changed.get(index)
    if (!own) return message
    const key = JSON.stringify(own.map(({ instead }) => instead?.text ?? ''))
    const known = made.get(message)
    if (known?.key === key) return known.message
    let next = 0
    const put = <B extends ContentBlock>(block: B) => (block.type === 'image' ? (own[next++]!.instead ?? block) : block)
    const content = (message.content as readonly ContentBlock[]).map(block =>
      block.type === 'tool-result' ? { ...block, content: block.content.map(put) } : put(block),
    )
    const value = { ...message, content } as Message
    made.set(message, { key, message: value })
    return value
  })
}
