/** Writes a request as the body of a response. */

import { createHash } from 'node:crypto'
import type { JsonObject, JsonValue } from '@cambium/core'
import type { Message } from '../message.ts'
import type { LlmRequest, ToolSchema } from '../stream.ts'
import { LlmError } from '../web/failure.ts'
import type { ProviderError } from '../web/failure-code.ts'
import { isRecord } from '../web/value.ts'
import { inputItems } from './input.ts'
import { hasPhases, isReasoningModel, modelFamily } from './models.ts'

export interface ResponsesDialect {
  /** Whether the models reason, where their names do not tell. */
  readonly reasoning?: boolean
}

interface Written {
  /** With its reasoning, and without: which it is depends on the model that is asked. */
  full?: string
  bare?: string
  phased: boolean
}

/** Fields of ours that a model may be too small or an account too new for; the answer is the same without them. */
const OPTIONAL = [
  'include',
  'parallel_tool_calls',
  'prompt_cache_key',
  'reasoning.summary',
  'store',
  'stream',
  'temperature',
]
/** Not every server gives these refusals their code. */
const REPLAY_REFUSED =
  /encrypted content .*could not be|provided without its required|item with id '?rs_\w+'? not found/i
const UNSUPPORTED =
  /(unsupported|unknown|unrecognized) (parameter|value|field)|must be verified|is not supported with this model/i
const MIN_OUTPUT_TOKENS = 16
const MAX_CACHE_KEY = 64

/**
 * One writer a provider. What a message becomes is remembered by its identity, so that a request of a long
 * conversation costs what is new in it.
 */
export class ResponseWriter {
  private readonly dialect: ResponsesDialect
  private readonly written = new WeakMap<Message, Written>()
  private readonly tools = new WeakMap<ToolSchema, string>()
  /** Fields that the provider has refused, by model. */
  private readonly refused = new Map<string, Set<string>>()
  /** Messages whose encrypted reasoning the provider could not read: they go without it from then on. */
  private readonly unreadable = new WeakSet<Message>()

  constructor(dialect: ResponsesDialect) {
    this.dialect = dialect
  }

  /**
   * The system text goes as `instructions`: every server puts them before all input, none of them minds the role, and
   * they stand in a field of their own, so that input only ever grows at its end.
   */
  body(request: LlmRequest): Buffer {
    const { model, system, stop, providerOptions = {} } = request
    if (stop?.length) {
      throw new LlmError({
        code: 'UNSUPPORTED_OPTION',
        message: `${request.provider} speaks the Responses API, which knows no stop sequences`,
        fix: 'leave out `stop`, or use a provider that speaks chat completions',
      })
    }
    const { tools: more, input: _input, model: _model, reasoning: _merged, ...options } = providerOptions
    const tools = [...(request.tools ?? []).map(tool => this.tool(tool)), ...extraTools(more)]
    const parts = [
      `"model":${JSON.stringify(model)}`,
      ...(system ? [`"instructions":${JSON.stringify(system)}`] : []),
      ...(tools.length ? [`"tools":[${tools.join(',')}]`] : []),
      `"input":[${this.input(request).join(',')}]`,
      JSON.stringify({ ...this.fields(request, tools.length > 0), ...options }).slice(1, -1),
    ]
    return Buffer.from(`{${parts.filter(Boolean).join(',')}}`)
  }

  /** True when {@link body} leaves out what the provider has just refused. */
  amend(request: LlmRequest, refusal: ProviderError): boolean {
    const { codes, message, param } = refusal
    const replay = codes.includes('invalid_encrypted_content') || REPLAY_REFUSED.test(message)
    if (replay || this.isReasoning(request, `${param ?? ''} ${message}`)) {
      const family = modelFamily(request.model)
      const known = request.messages.filter(item => this.replays(item, family))
      for (const item of known) this.unreadable.add(item)
      return known.length > 0
    }
    if (!codes.some(code => /^(unsupported|unknown)_(parameter|value)$/.test(code)) && !UNSUPPORTED.test(message)) {
      return false
    }
    const named = param ?? /['"`]([a-z_.]+)['"`]/.exec(message)?.[1]
    const field = OPTIONAL.find(name => name === named) ?? (/encrypted content/i.test(message) ? 'include' : undefined)
    const refused = this.refused.get(request.model) ?? new Set()
    if (!field || refused.has(field) || !this.sends(request, field)) return false
    this.refused.set(request.model, refused.add(field))
    return true
  }

  /** Whether the complaint is of an item that gives reasoning back, in whatever way a server wants it otherwise. */
  private isReasoning(request: LlmRequest, complaint: string): boolean {
    const [, place] = /\binput\[(\d+)\]/.exec(complaint) ?? []
    if (place === undefined) return false
    const items = JSON.parse(`[${this.input(request).join(',')}]`) as { readonly type: string }[]
    return items[Number(place)]?.type === 'reasoning'
  }

  // Fields ------------------------------------------------------------------------------------------------------

  private fields(request: LlmRequest, withTools: boolean): Record<string, JsonValue | undefined> {
    const { effort, maxTokens, temperature, sessionId, providerOptions = {} } = request
    const reasons = this.reasons(request)
    const refused = this.refused.get(request.model)
    const summary = refused?.has('reasoning.summary') ? {} : { summary: 'auto' }
    const asked = isRecord(providerOptions['reasoning']) ? (providerOptions['reasoning'] as JsonObject) : {}
    const reasoning: JsonObject = { ...(effort ? { effort } : {}), ...(reasons ? summary : {}), ...asked }
    const fields: Record<string, JsonValue | undefined> = {
      stream: true,
      store: false,
      include: reasons ? ['reasoning.encrypted_content'] : undefined,
      reasoning: Object.keys(reasoning).length ? reasoning : undefined,
      max_output_tokens: maxTokens === undefined ? undefined : Math.max(MIN_OUTPUT_TOKENS, maxTokens),
      temperature: reasons ? undefined : temperature,
      parallel_tool_calls: withTools ? true : undefined,
      prompt_cache_key: sessionId === undefined ? undefined : cacheKey(sessionId),
    }
    for (const name of refused ?? []) delete fields[name]
    return fields
  }

  private sends(request: LlmRequest, field: string): boolean {
    const [name = '', part] = field.split('.')
    const value = this.fields(request, (request.tools?.length ?? 0) > 0)[name]
    return part ? isRecord(value) && part in value : value !== undefined
  }

  private reasons({ model, effort }: LlmRequest): boolean {
    return effort !== undefined || (this.dialect.reasoning ?? isReasoningModel(model))
  }

  private tool(tool: ToolSchema): string {
    let json = this.tools.get(tool)
    if (json === undefined) {
      const { name, description, parameters } = tool
      // Strict is the default of this API, and takes only schemas in which every property is required.
      json = JSON.stringify({ type: 'function', name, description, parameters, strict: false })
      this.tools.set(tool, json)
    }
    return json
  }

  // Input -------------------------------------------------------------------------------------------------------

  private input(request: LlmRequest): string[] {
    const phased = hasPhases(request.model)
    const family = modelFamily(request.model)
    return request.messages.map(message => this.items(message, this.replays(message, family), phased)).filter(Boolean)
  }

  private items(message: Message, replay: boolean, phased: boolean): string {
    let known = this.written.get(message)
    if (known?.phased !== phased) {
      known = { phased }
      this.written.set(message, known)
    }
    const key = replay ? 'full' : 'bare'
    known[key] ??= inputItems(message, { replay, phases: phased }).join(',')
    return known[key]
  }

  /** What a model encrypted it reads itself; another one of the same provider may refuse it. */
  private replays(message: Message, family: string): boolean {
    if (message.role !== 'assistant' || message.source.kind !== 'model' || this.unreadable.has(message)) return false
    return modelFamily(message.source.model) === family
  }
}

const extraTools = (value: JsonValue | undefined): string[] =>
  Array.isArray(value) ? value.map(tool => JSON.stringify(tool)) : []

const cacheKey = (sessionId: string): string =>
  sessionId.length <= MAX_CACHE_KEY ? sessionId : createHash('sha256').update(sessionId).digest('hex')
