/** The strict provider of Responses: what it refuses in the fields and the tools of a request. */

import { isBlank, isObject, type Json, NAME, needWindow, onlyKeys, refuse, type StrictRules } from './refusal.ts'
import { checkInput, needLength, wrongType } from './strict-responses-input.ts'
import { checkParameters } from './strict-schema.ts'

const FIELDS = [
  ...['background', 'context_management', 'conversation', 'include', 'input', 'instructions', 'max_output_tokens'],
  ...['max_tool_calls', 'metadata', 'model', 'parallel_tool_calls', 'previous_response_id', 'prompt'],
  ...['prompt_cache_key', 'prompt_cache_retention', 'reasoning', 'safety_identifier', 'service_tier', 'store'],
  ...['stream', 'stream_options', 'temperature', 'text', 'tool_choice', 'tools', 'top_logprobs', 'top_p'],
  ...['truncation', 'user'],
]
const INCLUDES = [
  ...['reasoning.encrypted_content', 'message.output_text.logprobs', 'file_search_call.results'],
  ...['web_search_call.action.sources', 'code_interpreter_call.outputs', 'message.input_image.image_url'],
]
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh']
const SUMMARIES = ['auto', 'concise', 'detailed']

const REASONS = /^(gpt-5(?!.*chat)|o\d)/
/** Known to reason not at all; of other names nothing is known. */
const NEVER_REASONS = /^(gpt-(3|4)|chatgpt|gpt-5.*chat)/

const unknown = (path: string): never => refuse(`Unknown parameter: '${path}'.`, 'unknown_parameter')
const unsupported = (path: string): never =>
  refuse(`Unsupported parameter: '${path}' is not supported with this model.`, 'unsupported_parameter')

export function checkResponsesRequest(body: Json, size: number, rules: StrictRules) {
  onlyKeys(body, FIELDS, key => `Unknown parameter: '${key}'.`, 'unknown_parameter')
  const { model, stream, store, max_output_tokens: limit, instructions, include } = body
  if (typeof model !== 'string' || !model) refuse("Missing required parameter: 'model'.", 'missing_required_parameter')
  for (const [key, value] of Object.entries({ stream, store, parallel_tool_calls: body['parallel_tool_calls'] })) {
    if (value !== undefined && typeof value !== 'boolean') wrongType(key, 'a boolean')
  }
  if (instructions !== undefined && (typeof instructions !== 'string' || isBlank(instructions))) {
    wrongType('instructions', 'a string')
  }
  checkStreamOptions(body)
  if (limit !== undefined && !(Number.isInteger(limit) && (limit as number) >= 16)) {
    const value = `Expected a value >= 16, but got ${JSON.stringify(limit)} instead.`
    refuse(`Invalid 'max_output_tokens': integer below minimum value. ${value}`, 'integer_below_min_value')
  }
  for (const key of ['prompt_cache_key', 'safety_identifier', 'user']) needLength(body[key], key, 64)
  if (include !== undefined) checkInclude(include, model)
  checkSampling(body, model)
  checkReasoning(body['reasoning'], model)
  checkTools(body)
  checkInput(body['input'], { stored: store === false ? undefined : rules.stored })
  needWindow(size, Number(limit ?? 0), rules, () => {
    const message = 'Your input exceeds the context window of this model. Please adjust your input and try again.'
    refuse(message, 'context_length_exceeded')
  })
}

function checkStreamOptions({ stream, stream_options: options }: Json) {
  if (options === undefined) return
  if (stream !== true) refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
  if (!isObject(options)) wrongType('stream_options', 'an object')
  for (const key of Object.keys(options)) if (key !== 'include_obfuscation') unknown(`stream_options.${key}`)
}

function checkInclude(include: unknown, model: string) {
  if (!Array.isArray(include)) wrongType('include', 'an array')
  for (const [index, item] of include.entries()) {
    if (!INCLUDES.includes(item)) refuse(`Invalid value: '${String(item)}' for 'include[${index}]'.`, 'invalid_value')
    if (item === INCLUDES[0] && NEVER_REASONS.test(model)) refuse('Encrypted content is not supported with this model.')
  }
}

function checkSampling(body: Json, model: string) {
  for (const [key, most] of [
    ['temperature', 2],
    ['top_p', 1],
  ] as const) {
    const value = body[key]
    if (value === undefined) continue
    if (typeof value !== 'number' || value < 0 || value > most) wrongType(key, `a number from 0 to ${most}`)
    if (REASONS.test(model)) unsupported(key)
  }
}

function checkReasoning(reasoning: unknown, model: string) {
  if (reasoning === undefined || reasoning === null) return
  if (!isObject(reasoning)) wrongType('reasoning', 'an object')
  for (const key of Object.keys(reasoning)) {
    if (!['effort', 'summary', 'generate_summary'].includes(key)) unknown(`reasoning.${key}`)
    if (NEVER_REASONS.test(model)) unsupported(`reasoning.${key}`)
  }
  const { effort, summary } = reasoning
  if (effort !== undefined && effort !== null && !EFFORTS.includes(String(effort))) {
    refuse(`Invalid value: '${String(effort)}' for 'reasoning.effort'.`, 'invalid_value')
  }
  if (summary !== undefined && summary !== null && !SUMMARIES.includes(String(summary))) {
    refuse(`Invalid value: '${String(summary)}' for 'reasoning.summary'.`, 'invalid_value')
  }
}

function checkTools({ tools, tool_choice: choice }: Json) {
  const names = new Set<unknown>()
  if (tools !== undefined) {
    if (!Array.isArray(tools)) wrongType('tools', 'an array')
    for (const [index, tool] of tools.entries()) {
      const name = checkTool(tool, `tools[${index}]`)
      if (names.has(name)) refuse(`Invalid 'tools': there are two functions called '${name}'.`)
      names.add(name)
    }
  }
  if (choice === undefined) return
  if (isObject(choice)) {
    if (choice['type'] === 'function' && names.has(choice['name'])) return
    refuse(`Tool choice '${String(choice['name'])}' not found in 'tools' parameter.`)
  }
  if (!['none', 'auto', 'required'].includes(String(choice))) {
    refuse(`Invalid value: '${String(choice)}' for 'tool_choice'.`, 'invalid_value')
  }
  if (choice === 'required' && !names.size) {
    refuse("Tool choice 'required' must be specified with 'tools' parameter.")
  }
}

function checkTool(tool: unknown, at: string): string {
  if (!isObject(tool)) wrongType(at, 'an object')
  const { type, name, description, parameters, strict = true } = tool
  if (type !== 'function') refuse(`Invalid value: '${String(type)}' for '${at}.type'.`, 'invalid_value')
  for (const key of Object.keys(tool)) {
    if (!['type', 'name', 'description', 'parameters', 'strict'].includes(key)) unknown(`${at}.${key}`)
  }
  if (typeof name !== 'string' || !NAME.test(name)) {
    const said = `Expected a string that matches the pattern '${NAME.source}'.`
    refuse(`Invalid '${at}.name': string does not match pattern. ${said}`, 'invalid_value')
  }
  if (description !== undefined && description !== null && typeof description !== 'string') {
    wrongType(`${at}.description`, 'a string')
  }
  if (strict !== null && typeof strict !== 'boolean') wrongType(`${at}.strict`, 'a boolean')
  if (parameters === undefined || parameters === null) {
    if (strict) refuse(`Missing required parameter: '${at}.parameters'.`, 'missing_required_parameter')
    return name
  }
  checkParameters(parameters, `${at}.parameters`)
  if (strict) checkStrict(parameters, name, [])
  return name
}

/** A function is strict unless it says otherwise; its schema is then closed, and everything in it required. */
function checkStrict(schema: unknown, name: string, context: readonly string[]): void {
  if (!isObject(schema)) return
  const say = (problem: string) => {
    const where = `In context=(${context.map(part => `'${part}'`).join(', ')})`
    refuse(`Invalid schema for function '${name}': ${where}, ${problem}`, 'invalid_function_parameters')
  }
  const { properties, required } = schema
  if ([schema['type']].flat().includes('object') || properties !== undefined) {
    if (schema['additionalProperties'] !== false) {
      say("'additionalProperties' is required to be supplied and to be false.")
    }
    const missing = Object.keys(properties ?? {}).find(key => !Array.isArray(required) || !required.includes(key))
    if (missing !== undefined) {
      say(
        `'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`,
      )
    }
  }
  for (const key of ['oneOf', 'allOf', 'not', 'patternProperties', 'prefixItems']) {
    if (key in schema) say(`'${key}' is not permitted.`)
  }
  for (const key of ['properties', '$defs', 'definitions']) {
    for (const [at, item] of Object.entries(schema[key] ?? {})) checkStrict(item, name, [...context, key, at])
  }
  checkStrict(schema['items'], name, [...context, 'items'])
  if (Array.isArray(schema['anyOf'])) {
    for (const [at, item] of schema['anyOf'].entries()) checkStrict(item, name, [...context, 'anyOf', String(at)])
  }
}
