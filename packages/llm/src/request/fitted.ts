/** A message as one model can take it: without pictures for one that reads none, without what another provider wants back. */

import type { AssistantMessage, ContentBlock, Message, TextBlock } from '../message.ts'

const NO_IMAGE: TextBlock = { type: 'text', text: '[An image was here; this model does not read images.]' }

const blind = new WeakMap<Message, Message>()
const foreign = new WeakMap<Message, Message>()

/** Says in each picture's place that there was one; the very same object where there is none. */
export function withoutImages(message: Message): Message {
  return remembered(blind, message, () => {
    const content = (message.content as readonly ContentBlock[]).map(block => {
      if (block.type === 'image') return NO_IMAGE
      if (block.type !== 'tool-result' || block.content.every(item => item.type === 'text')) return block
      return { ...block, content: block.content.map(item => (item.type === 'image' ? NO_IMAGE : item)) }
    })
    const same = content.every((block, index) => block === message.content[index])
    return same ? message : ({ ...message, content } as Message)
  })
}

/** Takes out what only the provider that made the message understands, unless that is `provider`. */
export function withoutForeignReplay(message: Message, provider: string): Message {
  if (message.role !== 'assistant') return message
  const { source } = message
  if (source.kind === 'model' && source.provider === provider) return message
  return remembered(foreign, message, () => stripped(message))
}

function stripped(message: AssistantMessage): Message {
  if (message.content.every(block => block.type === 'text' || block.replay === undefined)) return message
  const content = message.content.flatMap(block => {
    if (block.type === 'text' || block.replay === undefined) return [block]
    const { replay: _foreign, ...rest } = block
    return rest.type === 'reasoning' && !rest.text.trim() ? [] : [rest]
  })
  return { ...message, content }
}

function remembered(cache: WeakMap<Message, Message>, message: Message, make: () => Message): Message {
  let made = cache.get(message)
  if (!made) {
    made = make()
    cache.set(message, made)
  }
  return made
}
