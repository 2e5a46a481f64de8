/** One message as the content blocks of the Messages API, each block already as JSON. */

import { createHash } from 'node:crypto'
import type { AssistantMessage, ImageBlock, Message, TextBlock, UserBlock } from '../message.ts'
import { goesBack, replayOf, type Thoughts } from './thinking.ts'

/** Blocks joined by commas. A user message's results stand before everything else of its turn. */
export interface Wire {
  readonly role: 'user' | 'assistant'
  readonly results: string
  readonly rest: string
  /** Tools that are called in it. */
  readonly calls: readonly string[]
}

export const joined = (a: string, b: string) => (a && b ? `${a},${b}` : a || b)

export const textBlock = (text: string) => `{"type":"text","text":${JSON.stringify(text)}}`

export function userText(text: string): Wire {
  return { role: 'user', results: '', rest: textBlock(text), calls: [] }
}

/** `last`: nothing comes behind it, and an answer that is to be gone on with may not end in white space. */
export function wireOf(message: Message, thoughts: Thoughts, last = false): Wire {
  if (message.role === 'assistant') return assistant(message, thoughts, last)
  if (message.role === 'user') return user(message.content)
  // The protocol has one place for instructions, in front; what comes later is said in the conversation.
  const text = message.content.map(block => block.text).join('\n\n')
  return userText(`<system-message>\n${text}\n</system-message>`)
}

function user(content: readonly UserBlock[]): Wire {
  const results: string[] = []
  const rest: string[] = []
  for (const block of content) {
    if (block.type !== 'tool-result') {
      rest.push(plain(block))
      continue
    }
    const { toolCallId, isError } = block
    // A result that is an error may hold text alone.
    const inside = isError ? block.content.filter(item => item.type === 'text') : block.content
    if (isError) rest.push(...block.content.filter(item => item.type === 'image').map(plain))
    const items = inside.length ? inside.map(plain) : [textBlock('(an image, shown below)')]
    const id = fittedId(toolCallId)
    const failed = isError ? ',"is_error":true' : ''
    results.push(`{"type":"tool_result","tool_use_id":"${id}","content":[${items.join(',')}]${failed}}`)
  }
  return { role: 'user', results: results.join(','), rest: rest.join(','), calls: [] }
}

function plain(block: TextBlock | ImageBlock): string {
  if (block.type === 'text') return textBlock(block.text)
  const { mediaType, data } = block
  return `{"type":"image","source":${JSON.stringify({ type: 'base64', media_type: mediaType, data })}}`
}

function assistant({ content }: AssistantMessage, thoughts: Thoughts, last: boolean): Wire {
  const blocks: string[] = []
  const calls: string[] = []
  let tail = 0
  for (const block of content) {
    if (block.type === 'reasoning') {
      const replay = replayOf(block)
      if (!goesBack(replay, thoughts)) continue
      const { type } = replay
      blocks.push(
        JSON.stringify(
          type === 'thinking'
            ? { type, thinking: block.text, signature: replay.signature }
            : { type, data: replay.data },
        ),
      )
      continue
    }
    if (block.type === 'text') blocks.push(textBlock(block.text))
    else {
      calls.push(block.name)
      // The model's own text: what it reads again is what it wrote, byte by byte.
      blocks.push(
        `{"type":"tool_use","id":"${fittedId(block.id)}","name":${JSON.stringify(block.name)},"input":${block.arguments}}`,
      )
    }
    tail = blocks.length
  }
  // A thought may not stand last: it is the rest of an answer that was broken off.
  blocks.length = tail
  const end = content.findLast(block => block.type !== 'reasoning')
  if (last && end?.type === 'text') blocks[tail - 1] = textBlock(end.text.trimEnd())
  return { role: 'assistant', results: '', rest: blocks.join(','), calls }
}

/** The same for a call and its result, and for every request. */
function fittedId(id: string): string {
  if (/^[a-zA-Z0-9_-]{1,64}$/.test(id)) return id
  return `toolu_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`
}
