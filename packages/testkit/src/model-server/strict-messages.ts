/** The strict provider of Messages: what it refuses in the fields and the tools of a request. */

import type { IncomingHttpHeaders } from 'node:http'
import { isBlank, isObject, type Json, NAME, needWindow, onlyKeys, refuse, type StrictRules } from './refusal.ts'
import { checkConversation, checkTextBlock } from './strict-messages-content.ts'
import { checkParameters } from './strict-schema.ts'

const FIELDS = [
  ...['model', 'messages', 'max_tokens', 'system', 'metadata', 'stop_sequences', 'stream', 'temperature', 'top_k'],
  ...['top_p', 'tools', 'tool_choice', 'thinking', 'service_tier', 'container', 'context_management', 'mcp_servers'],
  ...['output_config', 'output_format', 'cache_control', 'inference_geo'],
]
const TOOL_FIELDS = ['name', 'description', 'input_schema', 'type', 'cache_control', 'strict', 'eager_input_streaming']
const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']

/** Budgets of thinking and sampling parameters are refused by these. */
const ADAPTIVE_ONLY = /claude-(opus|sonnet|haiku|fable|mythos)-(4-[7-9]|[5-9]|\d\d)\b/
/** These take no beginning of the answer as the last message. */
const NO_PREFILL = /claude-(opus|sonnet|haiku|fable|mythos)-(4-[6-9]|[5-9]|\d\d)\b/

/** Thoughts are bound to what stands before them; they cannot be told to think less than this. */
const BOUND = /claude-((fable|mythos)-5-[1-9]|(opus|sonnet|haiku)-5-[5-9])\b/
const ALWAYS = /claude-(fable|mythos|opus-5-5)\b/

export function checkMessagesHeaders({ thinking }: Json, headers: IncomingHttpHeaders) {
  if (!headers['anthropic-version']) refuse('anthropic-version: header is required')
  const beta = String(headers['anthropic-beta'] ?? '').split(',')
  if (!isObject(thinking) || !thinking['block_binding'] || beta.includes('thinking-binding-controls-2026-08-01')) return
  refuse('thinking.block_binding: Extra inputs are not permitted')
}

export function checkMessagesRequest(body: Json, size: number, rules: StrictRules) {
  onlyKeys(body, FIELDS, key => `${key}: Extra inputs are not permitted`)
  const { model, stream, max_tokens: maxTokens } = body
  if (typeof model !== 'string' || !model) refuse('model: Field required')
  if (stream !== undefined && typeof stream !== 'boolean') refuse('stream: Input should be a valid boolean')
  if (maxTokens === undefined) refuse('max_tokens: Field required')
  if (!Number.isInteger(maxTokens) || (maxTokens as number) < 1) {
    refuse('max_tokens: Input should be greater than or equal to 1')
  }
  const budget = checkThinking(body, model)
  checkSampling(body, model, budget !== undefined)
  checkTools(body, budget !== undefined)
  checkSystem(body['system'])
  checkConversation(body['messages'], { thinking: budget !== undefined && budget !== 'adaptive' })
  checkEnd(body, model)
  checkBreakpoints(body)
  needWindow(size, maxTokens as number, rules, ({ input, window }) => {
    if (input > window) refuse(`prompt is too long: ${input} tokens > ${window} maximum`)
    const sizes = `${input} + ${maxTokens} > ${window}`
    refuse(`input length and \`max_tokens\` exceed context limit: ${sizes}, decrease input length or \`max_tokens\``)
  })
}

/** Its budget, or that it is adaptive; undefined when it is off. */
function checkThinking({ thinking, max_tokens, output_config: output }: Json, model: string) {
  if (output !== undefined) {
    if (!isObject(output)) refuse('output_config: Input should be an object')
    onlyKeys(output, ['effort', 'format'], key => `output_config.${key}: Extra inputs are not permitted`)
    const { effort } = output
    if (effort !== undefined && !EFFORTS.includes(String(effort))) {
      refuse(`output_config.effort: Input should be ${EFFORTS.map(name => `'${name}'`).join(', ')}`)
    }
  }
  if (thinking === undefined) return undefined
  if (!isObject(thinking)) refuse('thinking: Input should be an object')
  const { type, budget_tokens: budget } = thinking
  const fields = ['type', 'budget_tokens', 'display', ...(BOUND.test(model) ? ['block_binding'] : [])]
  onlyKeys(thinking, fields, key => `thinking.${key}: Extra inputs are not permitted`)
  if (type === 'disabled' && ALWAYS.test(model)) refuse('"thinking.type.disabled" is not supported for this model.')
  if (type === 'between_tools' && /claude-sonnet-5-5/.test(model)) return undefined
  if (type === 'disabled' || type === 'adaptive') {
    if (budget !== undefined) refuse(`thinking.${type}.budget_tokens: Extra inputs are not permitted`)
    if (type === 'adaptive' && /claude-(3|(opus|sonnet|haiku)-4-[0-5])/.test(model)) {
      refuse('adaptive thinking is not supported on this model')
    }
    return type === 'adaptive' ? 'adaptive' : undefined
  }
  if (type !== 'enabled') refuse(`thinking: Input tag '${String(type)}' found using 'type' does not match`)
  if (ADAPTIVE_ONLY.test(model)) {
    const instead = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
    refuse(`"thinking.type.enabled" is not supported for this model. ${instead}`)
  }
  if (!Number.isInteger(budget)) refuse('thinking.enabled.budget_tokens: Field required')
  if ((budget as number) < 1024) {
    refuse('thinking.enabled.budget_tokens: Input should be greater than or equal to 1024')
  }
  if ((budget as number) >= (max_tokens as number)) {
    refuse('`max_tokens` must be greater than `thinking.budget_tokens`')
  }
  return budget as number
}

function checkSampling(body: Json, model: string, thinking: boolean) {
  const { temperature, top_p: topP, top_k: topK, stop_sequences: stops } = body
  for (const [key, value] of Object.entries({ temperature, top_p: topP })) {
    if (value === undefined) continue
    if (typeof value !== 'number' || value < 0 || value > 1) refuse(`${key}: range: 0..1`)
    if (ADAPTIVE_ONLY.test(model) && value !== 1) refuse(`\`${key}\` is deprecated for this model.`)
  }
  if (topK !== undefined && ADAPTIVE_ONLY.test(model)) refuse('`top_k` is deprecated for this model.')
  if (thinking) {
    if (temperature !== undefined && temperature !== 1) {
      refuse('`temperature` may only be set to 1 when thinking is enabled')
    }
    if (topK !== undefined) refuse('`top_k` must be unset when thinking is enabled')
    if (topP !== undefined && (topP as number) < 0.95) {
      refuse('`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled')
    }
  }
  if (stops === undefined) return
  if (!Array.isArray(stops)) refuse('stop_sequences: Input should be a valid list')
  for (const [index, stop] of stops.entries()) {
    if (typeof stop !== 'string') refuse(`stop_sequences.${index}: Input should be a valid string`)
    if (isBlank(stop)) refuse('stop_sequences: each stop sequence must contain non-whitespace')
  }
}

function checkSystem(system: unknown) {
  if (system === undefined) return
  if (typeof system === 'string') {
    if (isBlank(system)) refuse('system: text content blocks must contain non-whitespace text')
    return
  }
  if (!Array.isArray(system)) refuse('system: Input should be a valid string')
  for (const [index, block] of system.entries()) {
    const at = `system.${index}`
    if (!isObject(block) || block['type'] !== 'text') refuse(`${at}.type: Input should be 'text'`)
    checkTextBlock(block, at)
  }
}

/** A last message of the assistant is the beginning of the answer, for models that take one. */
function checkEnd({ messages }: Json, model: string) {
  const last = (messages as Json[]).at(-1)
  if (last?.['role'] !== 'assistant') return
  if (NO_PREFILL.test(model)) {
    const must = 'The conversation must end with a user message.'
    refuse(`This model does not support assistant message prefill. ${must}`)
  }
  const { content } = last
  const text = Array.isArray(content) ? (content.at(-1) as Json)?.['text'] : content
  if (typeof text === 'string' && text !== text.trimEnd()) {
    refuse('messages: final assistant content cannot end with trailing whitespace')
  }
}

function checkTools(body: Json, thinking: boolean) {
  const { tools, tool_choice: choice } = body
  const names = new Set<unknown>()
  if (tools !== undefined) {
    if (!Array.isArray(tools)) refuse('tools: Input should be a valid list')
    for (const [index, tool] of tools.entries()) names.add(checkTool(tool, `tools.${index}`, names))
  }
  if (!names.size && /"type":"tool_(use|result)"/.test(JSON.stringify(body['messages'] ?? ''))) {
    refuse('Requests which include `tool_use` or `tool_result` blocks must define tools')
  }
  if (choice === undefined) return
  if (!names.size) refuse('tool_choice may only be specified while providing tools')
  if (!isObject(choice)) refuse('tool_choice: Input should be an object')
  const { type, name } = choice
  if (!['auto', 'any', 'tool', 'none'].includes(String(type))) {
    refuse(`tool_choice: Input tag '${String(type)}' found using 'type' does not match any of the expected tags`)
  }
  if (type === 'tool' && !names.has(name)) refuse(`tool_choice: Tool '${String(name)}' not found in provided tools`)
  if (thinking && (type === 'any' || type === 'tool')) {
    refuse('Thinking may not be enabled when tool_choice forces tool use.')
  }
}

function checkTool(tool: unknown, at: string, names: Set<unknown>): string {
  if (!isObject(tool)) refuse(`${at}: Input should be an object`)
  onlyKeys(tool, TOOL_FIELDS, key => `${at}.custom.${key}: Extra inputs are not permitted`)
  const { name, description, type = 'custom', input_schema: schema } = tool
  if (type !== 'custom') refuse(`${at}: Input tag '${String(type)}' found using 'type' does not match`)
  if (typeof name !== 'string' || !NAME.test(name)) {
    refuse(`${at}.custom.name: String should match pattern '${NAME.source}'`)
  }
  if (names.has(name)) refuse('tools: Tool names must be unique.')
  if (description !== undefined && typeof description !== 'string') {
    refuse(`${at}.custom.description: Input should be a valid string`)
  }
  if (schema === undefined) refuse(`${at}.custom.input_schema: Field required`)
  checkParameters(schema, `${at}.custom.input_schema`)
  for (const key of Object.keys((schema as Json)['properties'] ?? {})) {
    if (/^[a-zA-Z0-9_.-]{1,64}$/.test(key)) continue
    refuse(`${at}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`)
  }
  return name
}

/** At most four, on blocks that may carry one. */
function checkBreakpoints(body: Json) {
  let count = 0
  const look = (value: unknown, key: string) => {
    // What a tool was called with and what its schema says is no place of ours.
    if (key === 'input' || key === 'input_schema') return
    if (Array.isArray(value)) for (const item of value) look(item, '')
    if (!isObject(value)) return
    const { cache_control: mark, type } = value
    if (mark !== undefined && mark !== null) {
      count++
      if (!isObject(mark) || mark['type'] !== 'ephemeral') refuse("cache_control.type: Input should be 'ephemeral'")
      onlyKeys(mark, ['type', 'ttl'], name => `cache_control.${name}: Extra inputs are not permitted`)
      if (mark['ttl'] !== undefined && !['5m', '1h'].includes(String(mark['ttl']))) {
        refuse("cache_control.ttl: Input should be '5m' or '1h'")
      }
      if (type === 'thinking' || type === 'redacted_thinking') {
        refuse(`${String(type)}.cache_control: Extra inputs are not permitted`)
      }
      if (type === 'text' && !value['text']) refuse('cache_control cannot be set for empty text blocks')
    }
    for (const [name, item] of Object.entries(value)) look(item, name)
  }
  look(body, '')
  if (count > 4) refuse(`A maximum of 4 blocks with cache_control may be provided. Found ${count}.`)
}
