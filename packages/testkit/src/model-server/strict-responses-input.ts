/** The strict provider of Responses: what it refuses among the items of the input. */

import { isImageUrl } from './picture.ts'
import { readEncrypted } from './proof.ts'
import { isBlank, isObject, type Json, NAME, parsed, refuse } from './refusal.ts'

const FIELDS: Record<string, readonly string[]> = {
  message: ['type', 'id', 'status', 'role', 'content', 'phase'],
  function_call: ['type', 'id', 'status', 'call_id', 'name', 'arguments'],
  function_call_output: ['type', 'id', 'status', 'call_id', 'output'],
  reasoning: ['type', 'id', 'status', 'summary', 'content', 'encrypted_content'],
  item_reference: ['type', 'id'],
}
const PREFIX: Record<string, string> = { message: 'msg', function_call: 'fc', reasoning: 'rs' }
const INPUT_PARTS: Record<string, readonly string[]> = {
  input_text: ['type', 'text'],
  input_image: ['type', 'image_url', 'file_id', 'detail'],
  input_file: ['type', 'file_id', 'file_data', 'file_url', 'filename', 'detail'],
}
const OUTPUT_PARTS: Record<string, readonly string[]> = {
  output_text: ['type', 'text', 'annotations', 'logprobs'],
  refusal: ['type', 'refusal'],
}

/** `stored`: ids of items that the server has kept; undefined when the request is not to be stored. */
export interface InputRules {
  readonly stored: ReadonlySet<string> | undefined
}

export function checkInput(input: unknown, rules: InputRules) {
  if (input === undefined) refuse("Missing required parameter: 'input'.", 'missing_required_parameter')
  if (typeof input === 'string') {
    if (isBlank(input)) refuse("Invalid 'input': it is empty.", 'invalid_value')
    return
  }
  if (!Array.isArray(input)) wrongType('input', 'one of an array of objects or a string')
  if (!input.length) refuse("Invalid 'input': it is empty.", 'empty_array')
  const ids = new Set<unknown>()
  for (const [index, item] of input.entries()) checkItem(item, `input[${index}]`, ids, rules)
  checkCalls(input)
  for (const [index, item] of input.entries()) checkThought(item, input[index + 1], input, rules)
}

export function wrongType(path: string, wanted: string): never {
  refuse(`Invalid type for '${path}': expected ${wanted}.`, 'invalid_type')
}

export function needLength(value: unknown, path: string, most: number) {
  if (value === undefined) return
  if (typeof value !== 'string') wrongType(path, 'a string')
  if (value.length <= most) return
  const said = `Expected a string with maximum length ${most}, but got a string with length ${value.length} instead.`
  refuse(`Invalid '${path}': string too long. ${said}`, 'string_above_max_length')
}

const typeOf = (item: Json) => (item['type'] === undefined ? 'message' : String(item['type']))

function checkItem(item: unknown, at: string, ids: Set<unknown>, { stored }: InputRules) {
  if (!isObject(item)) wrongType(at, 'an object')
  const type = typeOf(item)
  const fields = FIELDS[type]
  if (!fields) refuse(`Invalid value: '${type}' for '${at}.type'.`, 'invalid_value')
  for (const key of Object.keys(item)) {
    if (!fields.includes(key)) refuse(`Unknown parameter: '${at}.${key}'.`, 'unknown_parameter')
  }
  const { id } = item
  if (id !== undefined && id !== null) {
    needLength(id, `${at}.id`, 64)
    const prefix = PREFIX[type]
    if (prefix && !String(id).startsWith(`${prefix}_`)) {
      const said = `Expected an ID that begins with '${prefix}'.`
      refuse(`Invalid '${at}.id': '${String(id)}'. ${said}`, 'invalid_value')
    }
    if (ids.has(id))
      refuse(`Duplicate item found with id ${String(id)}. Remove duplicate items from your input and try again.`)
    ids.add(id)
  }
  if (type === 'message') checkMessage(item, at)
  else if (type === 'function_call') checkCall(item, at)
  else if (type === 'function_call_output') checkOutput(item, at)
  else if (type === 'reasoning') checkReasoning(item, at, stored)
  else if (!stored?.has(String(id))) notFound(id)
}

function notFound(id: unknown): never {
  const why = 'Items are not persisted when `store` is set to false.'
  refuse(
    `Item with id '${String(id)}' not found. ${why} Try again with \`store\` set to true, or remove this item from your input.`,
  )
}

function checkMessage({ role, content }: Json, at: string) {
  if (!['user', 'assistant', 'system', 'developer'].includes(String(role))) {
    refuse(`Invalid value: '${String(role)}' for '${at}.role'.`, 'invalid_value')
  }
  checkParts(content, `${at}.content`, role === 'assistant' ? OUTPUT_PARTS : INPUT_PARTS)
}

function checkParts(content: unknown, at: string, known: Record<string, readonly string[]>) {
  if (typeof content === 'string') {
    if (isBlank(content)) refuse(`Invalid '${at}': it is empty.`, 'invalid_value')
    return
  }
  if (!Array.isArray(content)) wrongType(at, 'one of an array of objects or a string')
  if (!content.length) refuse(`Invalid '${at}': it is empty.`, 'empty_array')
  for (const [index, part] of content.entries()) {
    const where = `${at}[${index}]`
    if (!isObject(part)) wrongType(where, 'an object')
    const type = String(part['type'])
    const fields = known[type]
    if (!fields) {
      const supported = Object.keys(known).map(name => `'${name}'`)
      refuse(`Invalid value: '${type}'. Supported values are: ${supported.join(', ')}.`, 'invalid_value')
    }
    for (const key of Object.keys(part)) {
      if (!fields.includes(key)) refuse(`Unknown parameter: '${where}.${key}'.`, 'unknown_parameter')
    }
    const key = type === 'refusal' ? 'refusal' : 'text'
    if (type === 'input_image') checkImage(part, where)
    else if (type !== 'input_file' && (typeof part[key] !== 'string' || isBlank(part[key]))) {
      refuse(`Invalid '${where}.${key}': it is empty.`, 'invalid_value')
    }
  }
}

function checkImage({ image_url: url, file_id: file }: Json, at: string) {
  if (typeof file === 'string') return
  if (!isImageUrl(url)) {
    const wanted = 'Expected a base64-encoded data URL with an image MIME type, or a web address.'
    refuse(`Invalid '${at}.image_url'. ${wanted}`, 'invalid_value')
  }
}

function checkCallId(id: unknown, at: string) {
  if (typeof id !== 'string' || !id)
    refuse(`Missing required parameter: '${at}.call_id'.`, 'missing_required_parameter')
  needLength(id, `${at}.call_id`, 64)
}

function checkCall(item: Json, at: string) {
  checkCallId(item['call_id'], at)
  const { name, arguments: args } = item
  if (typeof name !== 'string' || !NAME.test(name)) {
    const said = `Expected a string that matches the pattern '${NAME.source}'.`
    refuse(`Invalid '${at}.name': string does not match pattern. ${said}`, 'invalid_value')
  }
  if (typeof args !== 'string' || !isObject(parsed(args))) wrongType(`${at}.arguments`, 'the JSON of an object')
}

function checkOutput(item: Json, at: string) {
  checkCallId(item['call_id'], at)
  checkParts(item['output'], `${at}.output`, INPUT_PARTS)
}

function checkReasoning(item: Json, at: string, stored: ReadonlySet<string> | undefined) {
  const { id, summary, encrypted_content: content } = item
  if (!Array.isArray(summary)) refuse(`Missing required parameter: '${at}.summary'.`, 'missing_required_parameter')
  for (const [index, part] of summary.entries()) {
    if (isObject(part) && part['type'] === 'summary_text' && typeof part['text'] === 'string') continue
    wrongType(`${at}.summary[${index}]`, 'a summary_text')
  }
  if (content === undefined || content === null) {
    if (!stored?.has(String(id))) notFound(id)
    return
  }
  const secret = readEncrypted(content)
  if (!secret || (id !== undefined && secret.id !== id)) {
    const why = 'Reason: Encrypted content could not be decrypted or parsed.'
    refuse(`The encrypted content for item ${String(id)} could not be verified. ${why}`, 'invalid_encrypted_content')
  }
}

/** Each output has its call before it, each call one output after it. */
function checkCalls(input: readonly Json[]) {
  const open = new Set<unknown>()
  const ids = new Set<unknown>()
  for (const item of input) {
    const id = item['call_id']
    if (item['type'] === 'function_call') {
      if (ids.has(id)) refuse(`Duplicate function call found with call_id ${String(id)}.`)
      ids.add(id)
      open.add(id)
    } else if (item['type'] === 'function_call_output') {
      if (!ids.has(id)) refuse(`No tool call found for function call output with call_id ${String(id)}.`)
      if (!open.delete(id)) refuse(`Duplicate function call output found for call_id ${String(id)}.`)
    }
  }
  if (open.size) refuse(`No tool output found for function call ${String([...open][0])}.`)
}

/** A reasoning goes with what it led to, and what it led to goes with it where its own id is given. */
function checkThought(item: Json, next: Json | undefined, input: readonly Json[], { stored }: InputRules) {
  const type = typeOf(item)
  const id = String(item['id'])
  if (type === 'reasoning') {
    const wanted = readEncrypted(item['encrypted_content'])?.next
    const follows = next !== undefined && (typeOf(next) !== 'message' || next['role'] === 'assistant')
    const fits = follows && (typeOf(next) === 'reasoning' || wanted === undefined || typeOf(next) === wanted)
    if (!fits || typeOf(next) === 'function_call_output') {
      refuse(`Item '${id}' of type 'reasoning' was provided without its required following item.`)
    }
    return
  }
  // The mark that ids of answers with reasoning bear.
  const [, mark] = /^(?:fc|msg)_(f[0-9a-f]{24})[0-9a-f]{2}$/.exec(id) ?? []
  if (!mark || input.some(other => String(other['id']).startsWith(`rs_${mark}`))) return
  if (stored && !stored.has(id)) return
  refuse(`Item '${id}' of type '${type}' was provided without its required 'reasoning' item: 'rs_${mark}00'.`)
}
