/** Writes a request as the body of `POST /messages`. */

import type { JsonObject, JsonValue } from '@cambium/core'
import type { Message } from '../message.ts'
import { wellFormed } from '../request/unicode.ts'
import type { LlmRequest, ModelInfo, ToolSchema } from '../stream.ts'
import type { ProviderError } from '../web/failure-code.ts'
import { Lessons } from './lessons.ts'
import { usualMaxTokens } from './models.ts'
import { type Plan, planOf, type Thoughts } from './thinking.ts'
import { joined, textBlock, userText, type Wire, wireOf } from './wire.ts'

export interface WriterOptions {
  /** How long the provider keeps a prompt; false for no cache marks at all. */
  readonly cache: false | '5m' | '1h'
  readonly thinking?: 'adaptive' | 'budget' | 'none' | undefined
  readonly info: (model: string) => ModelInfo | undefined
}

interface Turn {
  readonly role: Wire['role']
  results: string
  rest: string
}

/** For a conversation that begins or ends with an answer: the API wants a user's message there. */
const GO_ON = 'Continue.'

/**
 * One writer a provider. What a message becomes is remembered by its identity, so that a request of a long conversation
 * costs what is new in it, and a prefix has the same bytes each time: only the cache marks move.
 */
export class MessagesWriter {
  private readonly options: WriterOptions
  private readonly lessons: Lessons
  private readonly seen: Record<Thoughts, WeakMap<Message, Wire>> = {
    none: new WeakMap(),
    signed: new WeakMap(),
    all: new WeakMap(),
  }
  private readonly tools = new WeakMap<ToolSchema, string>()

  constructor(options: WriterOptions) {
    this.options = options
    this.lessons = new Lessons(options.thinking)
  }

  body(request: LlmRequest): Buffer {
    const plan = this.plan(request)
    const mark = this.mark(request)
    const turns = this.turns(request, plan)
    const tools = this.toolList(request, turns.calls)
    const parts = [
      `"model":${JSON.stringify(request.model)}`,
      JSON.stringify(this.fields(request, plan, tools.stubs)).slice(1, -1),
    ]
    if (request.system) parts.push(`"system":[${marked(textBlock(request.system), mark)}]`)
    if (tools.json) parts.push(`"tools":[${marked(tools.json, mark)}]`)
    parts.push(`"messages":[${this.messages(turns.list, mark)}]`)
    return Buffer.from(`{${parts.join(',')}}`)
  }

  /** Says what the last refusal was about in another way next time; false where there is none. */
  amend(request: LlmRequest, refusal: ProviderError): boolean {
    return this.lessons.learn(request, refusal, this.plan(request).maxTokens)
  }

  /** Thoughts of this model are bound to what stands before them, and the request says what to do when that changed. */
  binds({ model }: LlmRequest): boolean {
    return this.lessons.traits(model).bound
  }

  private plan(request: LlmRequest): Plan {
    const { model } = request
    const { lessons } = this
    const known = this.options.info(model)?.maxOutputTokens
    const learned = lessons.maxTokens(model)
    return planOf(request, lessons.traits(model), {
      limit: known === undefined || learned === undefined ? (learned ?? known) : Math.min(known, learned),
      usual: usualMaxTokens(model),
      trusted: message => lessons.trusts(message),
      thoughtless: lessons.silences(request),
    })
  }

  private mark(request: LlmRequest): string {
    const { cache } = this.options
    if (!cache || !this.lessons.marks(request)) return ''
    return `,"cache_control":{"type":"ephemeral"${cache === '1h' ? ',"ttl":"1h"' : ''}}`
  }

  private fields(request: LlmRequest, plan: Plan, stubs: boolean): JsonObject {
    const { temperature, stop = [], providerOptions = {} } = request
    const stops = stop.filter(text => text.trim()).map(wellFormed)
    const free = !plan.on && this.lessons.traits(request.model).samples
    const fields: Record<string, JsonValue> = { max_tokens: plan.maxTokens, stream: true, ...plan.fields }
    // The scale ends at 1 here, and at 2 elsewhere.
    if (temperature !== undefined && free) fields['temperature'] = Math.min(1, temperature)
    if (stops.length) fields['stop_sequences'] = stops
    if (stubs) fields['tool_choice'] = { type: 'none' }
    const { messages: _m, model: _n, stream: _s, system: _y, tools: _t, ...options } = providerOptions
    return { ...fields, ...options }
  }

  /** The provider's own tools, given as an option, stand behind ours. */
  private toolList(request: LlmRequest, called: ReadonlySet<string>): { json: string; stubs: boolean } {
    const own = request.providerOptions?.['tools']
    const more = Array.isArray(own) ? own.map(tool => JSON.stringify(tool)) : []
    const list = [...(request.tools ?? []).map(tool => this.tool(tool)), ...more]
    if (list.length || !called.size) return { json: list.join(','), stubs: false }
    // A history with calls is refused where no tool is declared: those that it names, which may not be called now.
    const stub = (name: string) => JSON.stringify({ name, input_schema: { type: 'object' } })
    return { json: [...called].map(stub).join(','), stubs: true }
  }

  private tool(tool: ToolSchema): string {
    let json = this.tools.get(tool)
    if (json === undefined) {
      json = JSON.stringify(wireTool(tool))
      this.tools.set(tool, json)
    }
    return json
  }

  private turns(request: LlmRequest, { on, thoughts }: Plan): { list: Turn[]; calls: ReadonlySet<string> } {
    const { messages, model } = request
    const prefill = !on && this.lessons.traits(model).prefill
    const list: Turn[] = []
    const calls = new Set<string>()
    const add = ({ role, results, rest, calls: called }: Wire) => {
      let turn = list[list.length - 1]
      if (turn?.role !== role) {
        turn = { role, results: '', rest: '' }
        list.push(turn)
      }
      turn.results = joined(turn.results, results)
      turn.rest = joined(turn.rest, rest)
      for (const name of called) calls.add(name)
    }
    if (messages[0]?.role === 'assistant') add(userText(GO_ON))
    const end = messages.length - 1
    for (let at = 0; at <= end; at++) add(this.wire(messages[at]!, thoughts, at === end && prefill))
    if (list.length === 0 || (list[list.length - 1]!.role === 'assistant' && !prefill)) add(userText(GO_ON))
    return { list, calls }
  }

  private wire(message: Message, thoughts: Thoughts, last: boolean): Wire {
    const kept = message.role === 'assistant' && !this.lessons.trusts(message) ? 'none' : thoughts
    if (last && message.role === 'assistant') return wireOf(message, kept, true)
    let wire = this.seen[kept].get(message)
    if (!wire) {
      wire = wireOf(message, kept)
      this.seen[kept].set(message, wire)
    }
    return wire
  }

  /** Marked at the end of the last user's turn and of the one before, where the request before this one ended. */
  private messages(turns: readonly Turn[], mark: string): string {
    let marks = mark ? 2 : 0
    const out = new Array<string>(turns.length)
    for (let at = turns.length - 1; at >= 0; at--) {
      const { role, results, rest } = turns[at]!
      const content = joined(results, rest)
      const here = role === 'user' && marks > 0
      if (here) marks--
      out[at] = `{"role":"${role}","content":[${here ? marked(content, mark) : content}]}`
    }
    return out.join(',')
  }
}

const KEY = /^[a-zA-Z0-9_.-]{1,64}$/

/** A parameter whose name the API refuses is told of in words, and may be given all the same. */
function wireTool({ name, description, parameters }: ToolSchema): JsonObject {
  const properties = Object.entries((parameters['properties'] ?? {}) as JsonObject)
  const odd = properties.filter(([key]) => !KEY.test(key))
  const said = odd.map(([key, schema]) => `\n\nIt also takes ${JSON.stringify(key)}: ${JSON.stringify(schema)}`)
  const text = description + said.join('')
  const about = text.trim() ? { description: text } : {}
  if (!odd.length) return { name, ...about, input_schema: parameters }
  const { additionalProperties: _closed, required, ...open } = parameters
  const needed = Array.isArray(required) ? required.filter(key => KEY.test(String(key))) : []
  const fitting = Object.fromEntries(properties.filter(([key]) => KEY.test(key)))
  const schema = { ...open, properties: fitting, ...(needed.length ? { required: needed } : {}) }
  return { name, ...about, input_schema: schema }
}

/** Puts a cache mark on the last of these blocks. */
const marked = (blocks: string, mark: string) => (mark ? `${blocks.slice(0, -1)}${mark}}` : blocks)
