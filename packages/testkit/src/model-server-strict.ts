/** The strict provider: what it refuses in a chat-completions request, and with which words. */

type Json = Record<string, unknown>

export interface StrictRules {
  /** Refuses two messages of the same role in a row, tool results aside. */
  alternateRoles: boolean
  /** In tokens of four characters of the body; the output limit that the request asks for counts as well. */
  contextWindow: number | undefined
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/
const TYPES = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)
const isBlank = (value: unknown) => typeof value === 'string' && value.trim() === ''

/** Says what is wrong with it; caught by {@link inspectRequest}. */
class Refusal extends Error {
  readonly code: string | null
  constructor(problem: string, code: string | null) {
    super(problem)
    this.code = code
  }
}

function refuse(problem: string, code: string | null = null): never {
  throw new Refusal(problem, code)
}

export interface Inspection {
  /** The parsed body; undefined when it is not JSON. */
  body: unknown
  /** The first thing that is wrong. */
  problem?: string
  /** The provider's code for it. */
  code?: string | null
}

/** The parsed body of a request, and the first thing that is wrong with it, if any. */
export function inspectRequest(bytes: Uint8Array, rules?: StrictRules): Inspection {
  let body: unknown
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    body = JSON.parse(text)
  } catch (error) {
    return { body: undefined, problem: `the body is not well-formed JSON in UTF-8: ${(error as Error).message}` }
  }
  if (!rules) return { body }
  try {
    checkBody(body, bytes.length, rules)
    return { body }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { body, problem: error.message, code: error.code }
  }
}

function checkBody(body: unknown, size: number, rules: StrictRules) {
  if (!isObject(body)) refuse('the body is not an object')
  checkUnicode(body, 'body')
  if (typeof body['model'] !== 'string' || !body['model']) refuse('model is missing')
  if (body['stream'] !== undefined && typeof body['stream'] !== 'boolean') refuse('stream is not a boolean')
  if (body['stream_options'] !== undefined && body['stream'] !== true) refuse('stream_options without stream')
  for (const key of ['max_tokens', 'max_completion_tokens']) {
    const limit = body[key]
    if (limit !== undefined && !(Number.isInteger(limit) && (limit as number) > 0)) {
      refuse(`${key} is not a positive integer`)
    }
  }
  const temperature = body['temperature']
  if (temperature !== undefined && !(typeof temperature === 'number' && temperature >= 0 && temperature <= 2)) {
    refuse('temperature is not a number from 0 to 2')
  }
  checkTools(body)
  checkMessages(body['messages'], rules)
  const output = Number(body['max_completion_tokens'] ?? body['max_tokens'] ?? 0)
  const input = Math.ceil(size / 4)
  if (rules.contextWindow !== undefined && input + output > rules.contextWindow) {
    refuse(
      `This model's maximum context length is ${rules.contextWindow} tokens. However, you requested ${input + output} tokens (${input} in the messages, ${output} in the completion).`,
      'context_length_exceeded',
    )
  }
}

function checkUnicode(value: unknown, at: string): void {
  if (typeof value === 'string') {
    if (/\p{Surrogate}/u.test(value)) refuse(`${at} holds a lone surrogate`)
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkUnicode(item, `${at}[${index}]`)
  } else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      checkUnicode(key, `a key of ${at}`)
      checkUnicode(item, `${at}.${key}`)
    }
  }
}

// Messages --------------------------------------------------------------------------------------------------------

function checkMessages(messages: unknown, rules: StrictRules) {
  if (!Array.isArray(messages) || messages.length === 0) refuse('messages is not a list with at least one message')
  const ids = new Set<string>()
  const open = new Set<string>()
  let before: unknown
  for (const [index, message] of messages.entries()) {
    const at = `messages[${index}]`
    if (!isObject(message)) refuse(`${at} is not an object`)
    const role = message['role']
    if (role === 'tool') {
      checkResult(message, at, ids, open)
    } else {
      if (open.size) refuse(`tool call ${first(open)} has no result before ${at}`)
      if (rules.alternateRoles && role === before) refuse(`${at} has the role of the message before it: ${role}`)
      if (role === 'assistant') checkAssistant(message, at, ids, open)
      else if (role === 'system' || role === 'developer' || role === 'user') checkContent(message['content'], at)
      else refuse(`${at}.role cannot be ${JSON.stringify(role)}`)
    }
    before = role
  }
  if (open.size) refuse(`tool call ${first(open)} has no result`)
}

const first = (open: Set<string>) => JSON.stringify([...open][0])

function checkResult(message: Json, at: string, ids: Set<string>, open: Set<string>) {
  const id = message['tool_call_id']
  if (typeof id !== 'string') refuse(`${at} names no tool_call_id`)
  if (!ids.has(id)) refuse(`${at} is the result of ${JSON.stringify(id)}, which no message before it called`)
  if (!open.delete(id)) refuse(`${at} is a second result of tool call ${JSON.stringify(id)}`)
  checkContent(message['content'], at)
}

function checkAssistant(message: Json, at: string, ids: Set<string>, open: Set<string>) {
  const { content, tool_calls: calls, reasoning_content: reasoning } = message
  if (reasoning !== undefined && typeof reasoning !== 'string') refuse(`${at}.reasoning_content is not a text`)
  if (calls === undefined) return checkContent(content, at)
  if (!Array.isArray(calls) || calls.length === 0) refuse(`${at}.tool_calls is not a list with at least one call`)
  const silent = content === undefined || content === null || content === ''
  if (!silent) checkContent(content, at)
  for (const [index, call] of calls.entries()) {
    const where = `${at}.tool_calls[${index}]`
    const made = isObject(call) && isObject(call['function']) ? call['function'] : undefined
    if (!isObject(call) || call['type'] !== 'function' || !made) refuse(`${where} is not a function call`)
    const id = call['id']
    if (typeof id !== 'string' || !id) refuse(`${where} has no id`)
    if (ids.has(id)) refuse(`${where} repeats the id ${JSON.stringify(id)}`)
    if (typeof made['name'] !== 'string' || !NAME.test(made['name'])) refuse(`${where} has an invalid tool name`)
    if (!isObject(parsed(made['arguments']))) refuse(`${where}.function.arguments is not the JSON of an object`)
    ids.add(id)
    open.add(id)
  }
}

function parsed(text: unknown): unknown {
  try {
    return JSON.parse(String(text))
  } catch {
    // Not JSON is one of the answers: the caller wants an object.
    return undefined
  }
}

function checkContent(content: unknown, at: string) {
  if (typeof content === 'string') {
    if (isBlank(content)) refuse(`${at}.content is empty`)
    return
  }
  if (!Array.isArray(content) || content.length === 0) refuse(`${at}.content is empty`)
  for (const [index, part] of content.entries()) {
    const where = `${at}.content[${index}]`
    if (!isObject(part)) refuse(`${where} is not an object`)
    if (part['type'] === 'text') {
      if (typeof part['text'] !== 'string' || isBlank(part['text'])) refuse(`${where}.text is empty`)
    } else if (part['type'] === 'image_url') {
      const url = isObject(part['image_url']) ? part['image_url']['url'] : undefined
      if (typeof url !== 'string' || !/^(https?:\/\/|data:image\/[a-z+.-]+;base64,[A-Za-z0-9+/]+=*$)/.test(url)) {
        refuse(`${where}.image_url is neither a web address nor a data URL of an image`)
      }
    } else {
      refuse(`${where}.type cannot be ${JSON.stringify(part['type'])}`)
    }
  }
}

// Tools -----------------------------------------------------------------------------------------------------------

function checkTools(body: Json) {
  const { tools, tool_choice: choice } = body
  const names = new Set<unknown>()
  if (tools !== undefined) {
    if (!Array.isArray(tools) || tools.length === 0) refuse('tools is not a list with at least one tool')
    for (const [index, tool] of tools.entries()) names.add(checkTool(tool, `tools[${index}]`, names))
  }
  if (choice === undefined) return
  if (tools === undefined) refuse('tool_choice without tools')
  if (isObject(choice)) {
    const wanted = isObject(choice['function']) ? choice['function']['name'] : undefined
    if (!names.has(wanted)) refuse(`tool_choice names ${JSON.stringify(wanted)}, which is not among tools`)
  } else if (!['none', 'auto', 'required'].includes(String(choice))) {
    refuse(`tool_choice cannot be ${JSON.stringify(choice)}`)
  }
}

function checkTool(tool: unknown, at: string, names: Set<unknown>): string {
  const made = isObject(tool) && tool['type'] === 'function' ? tool['function'] : undefined
  if (!isObject(made)) refuse(`${at} is not a function`)
  const { name, description, parameters } = made
  if (typeof name !== 'string' || !NAME.test(name)) {
    refuse(`${at}.function.name ${JSON.stringify(name)} does not match ${NAME.source}`)
  }
  if (names.has(name)) refuse(`${at}.function.name ${JSON.stringify(name)} is not unique`)
  if (description !== undefined && typeof description !== 'string') refuse(`${at}.function.description is not a text`)
  if (parameters !== undefined) checkParameters(parameters, `${at}.function.parameters`)
  return name
}

function checkParameters(schema: unknown, at: string) {
  if (!isObject(schema) || schema['type'] !== 'object') refuse(`${at}: schema must be of type "object"`)
  for (const key of ['oneOf', 'anyOf', 'allOf', 'enum', 'not']) {
    if (key in schema) refuse(`${at}: "${key}" is not allowed at the top level`)
  }
  checkSchema(schema, at, schema)
}

function checkSchema(schema: unknown, at: string, root: Json): void {
  if (schema === true || schema === false) return
  if (!isObject(schema)) refuse(`${at} is not a schema`)
  const types = schema['type'] === undefined ? [] : [schema['type']].flat()
  for (const type of types) if (!TYPES.includes(String(type))) refuse(`${at}.type cannot be ${JSON.stringify(type)}`)
  if (types.includes('array') && schema['items'] === undefined && schema['prefixItems'] === undefined) {
    refuse(`${at}: array schema missing items`)
  }
  const { enum: values, required } = schema
  if (values !== undefined) {
    if (!Array.isArray(values) || values.length === 0) refuse(`${at}.enum is not a list with at least one value`)
    const odd = values.find(value => types.length > 0 && !types.some(type => fits(value, type)))
    if (odd !== undefined) refuse(`${at}.enum value ${JSON.stringify(odd)} does not fit its type`)
  }
  if (required !== undefined && !(Array.isArray(required) && required.every(key => typeof key === 'string'))) {
    refuse(`${at}.required is not a list of names`)
  }
  checkReference(schema, at, root)
  for (const key of ['properties', '$defs', 'definitions', 'patternProperties']) {
    if (schema[key] === undefined) continue
    if (!isObject(schema[key])) refuse(`${at}.${key} is not an object`)
    for (const [name, item] of Object.entries(schema[key])) checkSchema(item, `${at}.${key}.${name}`, root)
  }
  for (const key of ['anyOf', 'oneOf', 'allOf', 'prefixItems']) {
    const list = schema[key]
    if (list === undefined) continue
    if (!Array.isArray(list) || list.length === 0) refuse(`${at}.${key} is not a list with at least one schema`)
    for (const [index, item] of list.entries()) checkSchema(item, `${at}.${key}[${index}]`, root)
  }
  for (const key of ['items', 'additionalProperties', 'not']) {
    if (schema[key] !== undefined) checkSchema(schema[key], `${at}.${key}`, root)
  }
}

function fits(value: unknown, type: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

/** Follows a local reference; a chain of references that leads nowhere or round in a circle is refused. */
function checkReference(schema: Json, at: string, root: Json) {
  const seen = new Set<unknown>()
  let here: unknown = schema
  while (isObject(here) && here['$ref'] !== undefined) {
    const reference = here['$ref']
    if (typeof reference !== 'string' || !/^#(\/|$)/.test(reference)) refuse(`${at}.$ref is not a local reference`)
    if (seen.has(reference)) refuse(`${at}.$ref leads round in a circle`)
    seen.add(reference)
    here = reference
      .split('/')
      .slice(1)
      .map(part => decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>((value, part) => (value as Json | undefined)?.[part], root)
    if (here === undefined) refuse(`${at}.$ref names ${JSON.stringify(reference)}, which is not there`)
  }
}
