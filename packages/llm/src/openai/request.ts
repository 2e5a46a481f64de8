/** Writes a request as the body of a chat completion. */

import { createHash } from 'node:crypto'
import type { JsonObject, JsonValue } from '@cambium/core'
import type { AssistantMessage, ImageBlock, Message, TextBlock, UserBlock } from '../message.ts'
import type { LlmRequest, ToolSchema } from '../stream.ts'
import { type Dialect, effortFields } from './dialect.ts'
import { subsetSchema } from './schema-subset.ts'

type Part = JsonObject
interface Wire {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  readonly value: JsonObject
  readonly json: string
  /** Images of a tool's result, which must wait until all results of the batch are said. */
  readonly later?: readonly Part[]
}

/**
 * One writer a model. What a message becomes is remembered by its identity, so that a request of a long conversation
 * costs what is new in it.
 */
export class RequestWriter {
  private readonly dialect: Dialect
  private readonly model: string
  private readonly seen = new WeakMap<Message, readonly Wire[]>()
  private readonly joined = new WeakMap<Wire, { with: Wire; wire: Wire }>()
  private readonly tools = new WeakMap<ToolSchema, string>()

  constructor(dialect: Dialect, model: string) {
    this.dialect = dialect
    this.model = model
  }

  body(request: LlmRequest): Buffer {
    const fields = this.fields(request)
    const tools = request.tools?.map(tool => this.tool(tool))
    const messages = this.messages(request).join(',')
    const toolField = tools?.length ? `"tools":[${tools.join(',')}],` : ''
    return Buffer.from(
      `{"model":${JSON.stringify(request.model)},"messages":[${messages}],${toolField}${fields.slice(1)}`,
    )
  }

  private fields(request: LlmRequest): string {
    const { maxTokensKey, streamUsage, effort, cacheKey, refuses } = this.dialect
    const fields: Record<string, JsonValue | undefined> = {
      stream: true,
      stream_options: streamUsage ? { include_usage: true } : undefined,
      [maxTokensKey]: request.maxTokens,
      temperature: refuses.includes('temperature') ? undefined : request.temperature,
      stop: request.stop?.length && !refuses.includes('stop') ? request.stop : undefined,
      prompt_cache_key: cacheKey ? request.sessionId : undefined,
      ...effortFields(effort, request.effort),
    }
    const { messages: _m, model: _n, stream: _s, ...options } = request.providerOptions ?? {}
    return JSON.stringify({ ...fields, ...options })
  }

  private tool(tool: ToolSchema): string {
    let json = this.tools.get(tool)
    if (json === undefined) {
      const { name, description, parameters: full } = tool
      const parameters = this.dialect.schema === 'subset' ? subsetSchema(full) : full
      json = JSON.stringify({ type: 'function', function: { name, description, parameters } })
      this.tools.set(tool, json)
    }
    return json
  }

  private messages(request: LlmRequest): string[] {
    const out: Wire[] = request.system ? [wire({ role: this.dialect.systemRole, content: request.system })] : []
    let later: Part[] = []
    const place = (next: Wire) => {
      const last = out[out.length - 1]
      // Chat templates exist that refuse two messages of one role in a row.
      if (last && last.role === next.role && last.role !== 'tool') out[out.length - 1] = this.join(last, next)
      else out.push(next)
    }
    const placeLater = () => {
      if (later.length)
        place(wire({ role: 'user', content: [{ type: 'text', text: 'Images of the results above:' }, ...later] }))
      later = []
    }
    for (const message of request.messages) {
      for (const next of this.wires(message, request.provider)) {
        if (next.role === 'tool') out.push(next)
        else {
          placeLater()
          place(next)
        }
        if (next.later) later.push(...next.later)
      }
    }
    placeLater()
    return out.map(({ json }) => json)
  }

  private wires(message: Message, provider: string): readonly Wire[] {
    let wires = this.seen.get(message)
    if (!wires) {
      wires = message.role === 'assistant' ? [this.assistant(message, provider)] : this.others(message)
      this.seen.set(message, wires)
    }
    return wires
  }

  private others(message: Message): Wire[] {
    const out: Wire[] = []
    const content: (TextBlock | ImageBlock)[] = []
    for (const block of message.content as readonly UserBlock[]) {
      if (block.type !== 'tool-result') {
        content.push(block)
        continue
      }
      const pictures = block.content.filter(item => item.type === 'image')
      const texts = block.content.flatMap(item => (item.type === 'text' ? [item.text] : []))
      out.push({
        ...wire({
          role: 'tool',
          tool_call_id: this.callId(block.toolCallId),
          content: texts.join('\n') || '(an image, shown below)',
        }),
        ...(pictures.length ? { later: pictures.map(imagePart) } : {}),
      })
    }
    if (content.length) out.push(wire({ role: message.role as 'user', content: contentOf(content) }))
    return out
  }

  private assistant(message: AssistantMessage, provider: string): Wire {
    const { reasoningKey, unsignedCall } = this.dialect
    // Signed reasoning is readable to the model that made it; text of another one it would take for its own.
    const own = message.source.kind === 'model' && message.source.model === this.model
    const text: string[] = []
    const reasoning: string[] = []
    const calls: JsonObject[] = []
    let replay: JsonObject = {}
    for (const block of message.content) {
      if (block.type === 'text') text.push(block.text)
      else if (block.type === 'reasoning') {
        reasoning.push(block.text)
        if (own && isObject(block.replay)) replay = { ...replay, ...block.replay }
      } else {
        calls.push({
          id: this.callId(block.id),
          type: 'function',
          function: { name: block.name, arguments: block.arguments },
          ...(own && isObject(block.replay) ? block.replay : {}),
        })
      }
    }
    if (unsignedCall && calls[0] && !('extra_content' in calls[0])) calls[0] = { ...calls[0], ...unsignedCall }
    // Never null: there are providers that refuse it, and the message would be refused with every later request.
    const content = text.join('\n\n')
    // What another provider's model has thought is nothing that this one has to have back.
    const foreign = message.source.kind === 'model' && message.source.provider !== provider
    const thought = foreign ? '' : reasoning.join('')
    return wire({
      role: 'assistant',
      content: reasoningKey === 'thinking' && own && thought ? thinkingParts(thought, content) : content,
      ...reasoningField(reasoningKey, thought, { own, calls: calls.length > 0, signed: 'reasoning_details' in replay }),
      ...replay,
      ...(calls.length ? { tool_calls: calls } : {}),
    })
  }

  private callId(id: string): string {
    const { callIdLength, plainIds } = this.dialect
    const fits = plainIds ? id.length === callIdLength && /^[a-zA-Z0-9]+$/.test(id) : id.length <= callIdLength
    return fits ? id : createHash('sha256').update(id).digest('hex').slice(0, callIdLength)
  }

  private join(first: Wire, second: Wire): Wire {
    const known = this.joined.get(first)
    if (known?.with === second) return known.wire
    const { content: a, tool_calls: _none, ...rest } = first.value
    const content = joinContent(a, second.value['content'])
    const made = wire({ ...rest, ...second.value, role: first.role, content })
    this.joined.set(first, { with: second, wire: made })
    return made
  }
}

function reasoningField(
  key: Dialect['reasoningKey'],
  thought: string,
  { own, calls, signed }: { own: boolean; calls: boolean; signed: boolean },
): JsonObject {
  // The key belongs to a message with calls even where nothing was thought.
  if (key === 'reasoning_content') return thought || calls ? { reasoning_content: thought } : {}
  return key === 'reasoning' && own && thought && !signed ? { reasoning: thought } : {}
}

function thinkingParts(thought: string, content: string): JsonValue {
  const thinking: Part = { type: 'thinking', thinking: [{ type: 'text', text: thought }] }
  return content ? [thinking, { type: 'text', text: content }] : [thinking]
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function wire(value: JsonObject & { role: Wire['role'] }): Wire {
  return { role: value.role, value, json: JSON.stringify(value) }
}

function imagePart(block: ImageBlock): Part {
  return { type: 'image_url', image_url: { url: `data:${block.mediaType};base64,${block.data}` } }
}

/** One text where that is all there is: many servers take nothing else. */
function contentOf(blocks: readonly (TextBlock | ImageBlock)[]): JsonValue {
  const texts = blocks.flatMap(block => (block.type === 'text' ? [block.text] : []))
  if (texts.length === blocks.length) return texts.join('\n\n')
  return blocks.map(block => (block.type === 'text' ? { type: 'text', text: block.text } : imagePart(block)))
}

function joinContent(a: JsonValue | undefined, b: JsonValue | undefined): JsonValue {
  if (typeof a === 'string' && typeof b === 'string') return a && b ? `${a}\n\n${b}` : a || b
  return [...partsOf(a), ...partsOf(b)]
}

function partsOf(content: JsonValue | undefined): JsonValue[] {
  if (typeof content === 'string') return content ? [{ type: 'text', text: content }] : []
  return Array.isArray(content) ? [...content] : []
}
