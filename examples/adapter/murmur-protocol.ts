/** Murmur: `POST <base>/murmurs`, answered by events `say`, `think`, `call` and `end`. */

import type { ContentBlock, LlmRequest, Message, ResultBlock } from '@cambium/llm'
import type { Protocol } from '@cambium/llm/web'
import { MurmurReader } from './murmur-reader.ts'

export class Murmur implements Protocol {
  readonly answer = 'murmur'
  readonly path = 'murmurs'
  /** What a message becomes is remembered by its identity: a request of a long conversation costs what is new in it. */
  private readonly seen = new WeakMap<Message, string>()

  authorization(key: string) {
    return { 'x-murmur-key': key }
  }

  body({ model, system, messages, tools = [], maxTokens, providerOptions }: LlmRequest): Buffer {
    const rest = {
      model,
      rules: system,
      most: maxTokens,
      tools: tools.map(({ name, description, parameters }) => ({ name, about: description, input: parameters })),
      ...providerOptions,
    }
    const talk = messages.map(message => this.said(message)).join(',')
    return Buffer.from(`{"talk":[${talk}],${JSON.stringify(rest).slice(1)}`)
  }

  reader(): MurmurReader {
    return new MurmurReader()
  }

  private said(message: Message): string {
    let json = this.seen.get(message)
    if (json === undefined) {
      const content: readonly ContentBlock[] = message.content
      json = JSON.stringify({ who: message.role === 'assistant' ? 'me' : 'you', parts: content.map(toPart) })
      this.seen.set(message, json)
    }
    return json
  }
}

function toPart(block: ContentBlock): object {
  switch (block.type) {
    case 'text':
      return { say: block.text }
    case 'image':
      return { show: block.data, as: block.mediaType }
    case 'reasoning':
      // What the server wants back with a thought it has sealed. Another provider's never gets here.
      return { think: block.text, ...(block.replay === undefined ? {} : { seal: block.replay }) }
    case 'tool-call':
      return { call: { id: block.id, name: block.name, input: block.arguments } }
    case 'tool-result':
      return { answer: block.content.map((item: ResultBlock) => toPart(item)), to: block.toolCallId }
  }
}
