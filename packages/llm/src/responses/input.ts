/** Writes messages as the items of a request. */

import { createHash } from 'node:crypto'
import type { JsonObject } from '@cambium/core'
import type { AssistantMessage, ImageBlock, Message, ResultBlock, TextBlock, UserBlock } from '../message.ts'
import { replayedItem } from './replay.ts'

/** What decides how a message is written, beside the message itself. */
export interface InputStyle {
  /** Reasoning goes back as it came. */
  readonly replay: boolean
  /** Texts say whether they are remarks on the way or the last word. */
  readonly phases: boolean
}

/** The items of a message as JSON, in order. */
export function inputItems(message: Message, style: InputStyle): string[] {
  const items = message.role === 'assistant' ? assistantItems(message, style) : otherItems(message)
  return items.map(item => JSON.stringify(item))
}

function otherItems(message: Message & { role: 'user' | 'system' }): JsonObject[] {
  const items: JsonObject[] = []
  const content: (TextBlock | ImageBlock)[] = []
  for (const block of message.content as readonly UserBlock[]) {
    if (block.type !== 'tool-result') content.push(block)
    else
      items.push({
        type: 'function_call_output',
        call_id: fitCallId(block.toolCallId),
        output: outputOf(block.content),
      })
  }
  if (content.length) items.push({ type: 'message', role: message.role, content: content.map(inputPart) })
  return items
}

/** One text where that is all there is: every server that speaks this protocol takes it. */
function outputOf(blocks: readonly ResultBlock[]): string | JsonObject[] {
  const texts = blocks.flatMap(block => (block.type === 'text' ? [block.text] : []))
  return texts.length === blocks.length ? texts.join('\n') : blocks.map(inputPart)
}

function inputPart(block: TextBlock | ImageBlock): JsonObject {
  if (block.type === 'text') return { type: 'input_text', text: block.text }
  return { type: 'input_image', image_url: `data:${block.mediaType};base64,${block.data}`, detail: 'auto' }
}

/** Items have no ids: nothing is stored under them, and an id would tie an item to others that may not be there. */
function assistantItems({ content }: AssistantMessage, { replay, phases }: InputStyle): JsonObject[] {
  const items: JsonObject[] = []
  const last = content.findLastIndex(block => block.type !== 'reasoning')
  const goesOn = content.some(block => block.type === 'tool-call')
  for (const [at, block] of content.entries()) {
    if (block.type === 'text') {
      const text = { type: 'output_text', text: block.text, annotations: [] }
      const phase = phases ? { phase: goesOn || at < last ? 'commentary' : 'final_answer' } : {}
      items.push({ type: 'message', role: 'assistant', content: [text], ...phase })
    } else if (block.type === 'tool-call') {
      const { name, arguments: text } = block
      items.push({ type: 'function_call', call_id: fitCallId(block.id), name, arguments: text })
    } else if (replay && at < last) {
      // Reasoning that nothing followed is refused: what it led to was cut off.
      const item = replayedItem(block.replay)
      if (item) items.push(item)
    }
  }
  return items
}

const MAX_CALL_ID = 64

/** A call's id as the API takes it: of ids that were unique, each stays so. */
function fitCallId(id: string): string {
  if (id.length <= MAX_CALL_ID) return id
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 40)}`
}
