/** Texts, results and messages made shorter, each the same way every time, so that doing it twice changes nothing. */

import {
  type AssistantBlock,
  type AssistantMessage,
  type ImageBlock,
  type Message,
  newMessageId,
  type TextBlock,
  type ToolResultBlock,
  type UserBlock,
  type UserMessage,
} from '@cambium/llm'

/** An old result that is longer keeps its beginning and its end; both and the note are shorter than this. */
export const OLD_RESULT_CHARS = 2_000
const HEAD_SHARE = 2 / 3
/** Characters that a note may have. */
const NOTE_CHARS = 400

/** The text, or its beginning and end around a note of what is missing; at most `maxChars` and the note. */
export function cutMiddle(text: string, maxChars: number, where = ''): string {
  if (text.length <= maxChars + Math.min(NOTE_CHARS, maxChars)) return text
  const head = text.slice(0, boundary(text, Math.floor(maxChars * HEAD_SHARE)))
  const tail = text.slice(boundary(text, text.length - Math.floor(maxChars * (1 - HEAD_SHARE))))
  const missing = text.length - head.length - tail.length
  return `${head}\n[… ${missing} characters are left out here to save room${where ? `; ${where}` : ''} …]\n${tail}`
}

/** The same place, or the one before it where that lies inside a pair of surrogates. */
function boundary(text: string, at: number): number {
  const code = text.charCodeAt(at)
  const before = text.charCodeAt(at - 1)
  return code >= 0xdc00 && code <= 0xdfff && before >= 0xd800 && before <= 0xdbff ? at - 1 : at
}

export function imageNote({ mediaType }: ImageBlock, where = 'look at it again if it is needed'): TextBlock {
  return { type: 'text', text: `[A picture (${mediaType}) was here and is left out to save room; ${where}.]` }
}

/** A result that was read long ago, shorter and without pictures; the very same message where it is so already. */
export function shortenResult(message: Message): Message {
  if (message.role !== 'user' || !message.content.some(isResult)) return message
  let changed = false
  const content = message.content.map(block => {
    if (!isResult(block)) return block
    const texts = block.content.map(item => (item.type === 'image' ? imageNote(item) : item))
    const whole = texts.map(({ text }) => text).join('\n')
    const same = texts.every((text, at) => text === block.content[at])
    if (same && whole.length <= OLD_RESULT_CHARS) return block
    changed = true
    if (whole.length <= OLD_RESULT_CHARS) return { ...block, content: texts }
    const text = cutMiddle(whole, OLD_RESULT_CHARS - NOTE_CHARS, 'call the tool again if they are needed')
    return { ...block, content: [{ type: 'text' as const, text }] }
  })
  return changed ? { ...message, id: newMessageId(), content } : message
}

const isResult = (block: UserBlock): block is ToolResultBlock => block.type === 'tool-result'

/** An answer of a turn that is over, without what was thought; the very same message where nothing was. */
export function withoutReasoning(message: Message): Message {
  if (message.role !== 'assistant' || !message.content.some(block => block.type === 'reasoning')) return message
  const content = message.content.flatMap((block): AssistantBlock[] => {
    if (block.type === 'reasoning') return []
    if (block.type === 'text' || block.replay === undefined) return [block]
    // What a provider wants back of a call belongs to the thought before it.
    const { replay: _with, ...call } = block
    return [call]
  })
  // Nothing else was said: no provider takes it as a message, and neither did it go out before.
  return { ...message, id: newMessageId(), content } satisfies AssistantMessage
}

export interface Caps {
  readonly chars: number
  readonly images: boolean
  /** What the note says beside what is missing. */
  readonly where?: string
}

/** A user's message or a result with each text at most so long; the very same message where nothing is longer. */
export function capMessage(message: UserMessage, { chars, images, where }: Caps): UserMessage {
  let changed = false
  const cap = <B extends TextBlock | ImageBlock>(block: B): B | TextBlock => {
    if (block.type === 'image') {
      if (images) return block
      changed = true
      return imageNote(block, where)
    }
    const text = cutMiddle(block.text, chars, where)
    if (text === block.text) return block
    changed = true
    return { ...block, text }
  }
  const content = message.content.map(block =>
    isResult(block) ? { ...block, content: block.content.map(cap) } : cap(block),
  )
  if (!changed) return message
  const own = message.source.kind === 'tool'
  return {
    ...message,
    id: newMessageId(),
    content,
    source: own ? message.source : { kind: 'compaction', form: 'shortened', of: originOf(message) },
  }
}

/** The id of the message that somebody sent, of which this one is all or a part. */
export function originOf({ id, source }: Message): string {
  return source.kind === 'compaction' && source.of !== undefined ? source.of : id
}

/** The longest text in it, in characters. */
export function longestText(message: UserMessage): number {
  let longest = 0
  for (const block of message.content) {
    for (const item of isResult(block) ? block.content : [block]) {
      if (item.type === 'text') longest = Math.max(longest, item.text.length)
    }
  }
  return longest
}
