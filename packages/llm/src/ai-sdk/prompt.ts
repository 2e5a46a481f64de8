/** Writes messages as a prompt of the AI SDK. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type { AssistantMessage, ImageBlock, Message, ToolResultBlock, UserBlock } from '../message.ts'
import type { LlmRequest } from '../stream.ts'
import { isRecord } from '../web/value.ts'
import type { PromptMessage, Version } from './language-model.ts'

type Parts = JsonObject[]

/** `key`: that of the package's own options. */
export function writePrompt(request: LlmRequest, version: Version, key: string): PromptMessage[] {
  const writer = new PromptWriter(request.provider, version)
  if (request.system) writer.system(request.system)
  for (const message of request.messages) writer.take(message)
  const prompt = writer.finish()
  // Claude reads from its cache only what is marked; a mark covers all that stands before it, tools included.
  if (key === 'anthropic') for (const message of new Set([prompt[0], prompt.at(-1)])) mark(message)
  return prompt
}

function mark(message: PromptMessage | undefined) {
  if (message) message.providerOptions = { anthropic: { cacheControl: { type: 'ephemeral' } } }
}

class PromptWriter {
  private readonly out: PromptMessage[] = []
  /** Images of tool results: most packages send them as a text of base64 where the result is. */
  private later: Parts = []
  private readonly toolNames = new Map<string, string>()
  private readonly provider: string
  private readonly version: Version

  constructor(provider: string, version: Version) {
    this.provider = provider
    this.version = version
  }

  system(content: string): void {
    this.out.push({ role: 'system', content })
  }

  take(message: Message): void {
    if (message.role === 'assistant') this.place('assistant', this.assistant(message))
    else if (message.role === 'user') this.user(message.content)
    else {
      const text = message.content.map(block => block.text).join('\n\n')
      // Several packages refuse one behind the beginning.
      if (this.out.every(({ role }) => role === 'system')) this.system(text)
      else this.place('user', [{ type: 'text', text }])
    }
  }

  finish(): PromptMessage[] {
    this.placeLater()
    return this.out
  }

  private user(content: readonly UserBlock[]) {
    for (const block of content) {
      if (block.type === 'tool-result') this.result(block)
      else this.place('user', [block.type === 'text' ? { type: 'text', text: block.text } : this.file(block)])
    }
  }

  private result({ toolCallId, content, isError }: ToolResultBlock) {
    const images = content.filter(block => block.type === 'image')
    const texts = content.flatMap(block => (block.type === 'text' ? [block.text] : []))
    const value = texts.join('\n') || '(an image, shown below)'
    const output = { type: isError ? 'error-text' : 'text', value }
    const toolName = this.toolNames.get(toolCallId) ?? 'unknown'
    this.place('tool', [{ type: 'tool-result', toolCallId, toolName, output }])
    this.later.push(...images.map(image => this.file(image)))
  }

  /** Reasoning is the provider's own here: what others thought has been taken out of their messages' parts below. */
  private assistant({ content, source }: AssistantMessage): Parts {
    const own = source.kind === 'model' && source.provider === this.provider
    return content.flatMap((block): Parts => {
      if (block.type === 'text') return [{ type: 'text', text: block.text }]
      const kept = own ? metadataIn(block.replay) : undefined
      const options = kept ? { providerOptions: kept } : {}
      if (block.type === 'reasoning') return own ? [{ type: 'reasoning', text: block.text, ...options }] : []
      this.toolNames.set(block.id, block.name)
      const input = JSON.parse(block.arguments) as JsonValue
      return [{ type: 'tool-call', toolCallId: block.id, toolName: block.name, input, ...options }]
    })
  }

  private file({ mediaType, data }: ImageBlock): JsonObject {
    return { type: 'file', mediaType, data: this.version === 'v4' ? { type: 'data', data } : data }
  }

  private place(role: PromptMessage['role'], parts: Parts) {
    if (role !== 'tool') this.placeLater()
    const last = this.out.at(-1)
    if (last?.role === role && Array.isArray(last.content)) last.content.push(...parts)
    else if (parts.length) this.out.push({ role, content: [...parts] })
  }

  private placeLater() {
    const images = this.later
    this.later = []
    if (images.length) this.place('user', [{ type: 'text', text: 'Images of the results above:' }, ...images])
  }
}

// Replay --------------------------------------------------------------------------------------------------------

/** What a package says of a part and wants back with it, as a block keeps it. */
export function replayOf(metadata: JsonObject | undefined): JsonObject | undefined {
  return metadata && Object.keys(metadata).length ? { protocol: 'ai-sdk', metadata } : undefined
}

function metadataIn(replay: JsonValue | undefined): JsonObject | undefined {
  if (!isRecord(replay) || replay['protocol'] !== 'ai-sdk' || !isRecord(replay['metadata'])) return undefined
  return replay['metadata'] as JsonObject
}

/** A part's metadata added to what earlier parts of its block said, as plain data. */
export function addMetadata(known: JsonObject | undefined, part: unknown): JsonObject | undefined {
  const plain = plainObject(part)
  if (!plain) return known
  const merged: Record<string, JsonValue | undefined> = { ...known }
  for (const [name, value] of Object.entries(plain)) {
    const before = merged[name]
    merged[name] = isRecord(before) && isRecord(value) ? ({ ...before, ...value } as JsonObject) : value
  }
  return merged as JsonObject
}

function plainObject(value: unknown): JsonObject | undefined {
  if (!isRecord(value)) return undefined
  try {
    return JSON.parse(JSON.stringify(value)) as JsonObject
  } catch {
    // What JSON cannot say cannot be kept, and the answer is good without it.
    return undefined
  }
}
