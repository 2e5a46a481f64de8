/** The strict provider of chat completions: what it refuses, and with which words. */

import { isImageUrl } from './picture.ts'
import {
  isBlank,
  isObject,
  type Json,
  NAME,
  needWindow,
  onlyKeys,
  parsed,
  refuse,
  type StrictRules,
} from './refusal.ts'
import { checkParameters } from './strict-schema.ts'

/** Their thoughts stand among the parts of the content. */
const MISTRAL = /m(i|agi)stral/
/** Models that reason take the output limit by another name, and no temperature. */
const REASONS = /^(gpt-5(?!.*chat)|o\d)/

/** OpenAI's own models: other servers know further fields, or pass over what they do not know. */
const OPENAI = /^(gpt-\d|o\d|chatgpt)/
const FIELDS = [
  ...['audio', 'frequency_penalty', 'function_call', 'functions', 'logit_bias', 'logprobs', 'max_completion_tokens'],
  ...['max_tokens', 'messages', 'metadata', 'modalities', 'model', 'n', 'parallel_tool_calls', 'prediction'],
  ...['presence_penalty', 'prompt_cache_key', 'prompt_cache_retention', 'reasoning_effort', 'response_format'],
  ...['safety_identifier', 'seed', 'service_tier', 'stop', 'store', 'stream', 'stream_options', 'temperature'],
  ...['tool_choice', 'tools', 'top_logprobs', 'top_p', 'user', 'verbosity', 'web_search_options'],
]
const MESSAGE_FIELDS = [
  ...['annotations', 'audio', 'content', 'function_call', 'name', 'refusal', 'role', 'tool_call_id', 'tool_calls'],
]

function checkFields(body: Json) {
  onlyKeys(body, FIELDS, key => `Unrecognized request argument supplied: ${key}`)
  const messages = Array.isArray(body['messages']) ? body['messages'] : []
  for (const [index, message] of messages.entries()) {
    if (!isObject(message)) continue
    const say = (key: string) => `Additional properties are not allowed ('${key}' was unexpected) - 'messages.${index}'`
    onlyKeys(message, MESSAGE_FIELDS, say)
  }
}

export function checkChat(body: Json, size: number, rules: StrictRules) {
  const { model, stream, temperature } = body
  if (typeof model !== 'string' || !model) refuse('model is missing')
  if (OPENAI.test(model)) checkFields(body)
  if (stream !== undefined && typeof stream !== 'boolean') refuse('stream is not a boolean')
  if (body['stream_options'] !== undefined && stream !== true) refuse('stream_options without stream')
  for (const key of ['max_tokens', 'max_completion_tokens']) {
    const limit = body[key]
    if (limit !== undefined && !(Number.isInteger(limit) && (limit as number) > 0)) {
      refuse(`${key} is not a positive integer`)
    }
  }
  if (temperature !== undefined && !(typeof temperature === 'number' && temperature >= 0 && temperature <= 2)) {
    refuse('temperature is not a number from 0 to 2')
  }
  if (REASONS.test(model)) {
    for (const key of ['max_tokens', 'temperature', 'stop']) {
      if (body[key] === undefined || (key === 'temperature' && temperature === 1)) continue
      const instead = key === 'max_tokens' ? " Use 'max_completion_tokens' instead." : ''
      refuse(`Unsupported parameter: '${key}' is not supported with this model.${instead}`, 'unsupported_parameter')
    }
  }
  checkTools(body)
  checkMessages(body['messages'], rules, MISTRAL.test(model))
  const output = Number(body['max_completion_tokens'] ?? body['max_tokens'] ?? 0)
  needWindow(size, output, rules, ({ input, window }) => {
    const asked = `you requested ${input + output} tokens (${input} in the messages, ${output} in the completion)`
    refuse(`This model's maximum context length is ${window} tokens. However, ${asked}.`, 'context_length_exceeded')
  })
}

// Messages --------------------------------------------------------------------------------------------------------

function checkMessages(messages: unknown, rules: StrictRules, thinks: boolean) {
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
      if (role === 'assistant') checkAssistant(message, at, { ids, open, thinks })
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

interface AssistantRules {
  readonly ids: Set<string>
  readonly open: Set<string>
  /** Whether its content may have parts of thought. */
  readonly thinks: boolean
}

function checkAssistant(message: Json, at: string, { ids, open, thinks }: AssistantRules) {
  const { content, tool_calls: calls, reasoning_content: reasoning } = message
  if (reasoning !== undefined && typeof reasoning !== 'string') refuse(`${at}.reasoning_content is not a text`)
  if (calls === undefined) return checkContent(content, at, thinks)
  if (!Array.isArray(calls) || calls.length === 0) refuse(`${at}.tool_calls is not a list with at least one call`)
  const silent = content === undefined || content === null || content === ''
  if (!silent) checkContent(content, at, thinks)
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

function checkContent(content: unknown, at: string, thinks = false) {
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
      if (!isImageUrl(url)) refuse(`${where}.image_url is neither a web address nor a data URL of an image`)
    } else if (thinks && part['type'] === 'thinking') {
      for (const [place, text] of [part['thinking']].flat().entries()) {
        const said = isObject(text) && text['type'] === 'text' ? text['text'] : undefined
        if (typeof said !== 'string' || !said) refuse(`${where}.thinking[${place}] is no text`)
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
