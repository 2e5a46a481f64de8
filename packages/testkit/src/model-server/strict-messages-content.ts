/** The strict provider of Messages: what it refuses in the conversation. */

import { isBase64, PICTURE_TYPES, pictureTypeOf } from './picture.ts'
import { isRedactedData, signatureOf } from './proof.ts'
import { isBlank, isObject, type Json, NAME, onlyKeys, refuse } from './refusal.ts'

const TOOL_ID = /^[a-zA-Z0-9_-]+$/
const BLOCKS: Record<string, Record<string, readonly string[]>> = {
  user: {
    text: ['text', 'citations', 'cache_control'],
    image: ['source', 'cache_control'],
    document: ['source', 'title', 'context', 'citations', 'cache_control'],
    tool_result: ['tool_use_id', 'content', 'is_error', 'cache_control'],
  },
  assistant: {
    text: ['text', 'citations', 'cache_control'],
    tool_use: ['id', 'name', 'input', 'cache_control', 'caller'],
    thinking: ['thinking', 'signature', 'cache_control'],
    redacted_thinking: ['data', 'cache_control'],
  },
}

interface Turn {
  readonly role: 'user' | 'assistant'
  readonly blocks: readonly Json[]
}

export function checkConversation(messages: unknown, { thinking }: { thinking: boolean }) {
  if (!Array.isArray(messages)) refuse('messages: Field required')
  if (messages.length === 0) refuse('messages: at least one message is required')
  const turns = messages.map((message, index) => readMessage(message, index, index === messages.length - 1))
  if (turns[0]!.role !== 'user') refuse('messages: first message must use the "user" role')
  checkPairs(turns)
  if (thinking) checkThinkingTurn(turns)
}

function readMessage(message: unknown, index: number, last: boolean): Turn {
  const at = `messages.${index}`
  if (!isObject(message)) refuse(`${at}: Input should be an object`)
  onlyKeys(message, ['role', 'content'], key => `${at}.${key}: Extra inputs are not permitted`)
  const { role, content } = message
  if (role !== 'user' && role !== 'assistant') {
    refuse(`messages: Unexpected role "${String(role)}". Allowed roles are "user" or "assistant".`)
  }
  if (content === undefined) refuse(`${at}.content: Field required`)
  const blocks = typeof content === 'string' ? (content ? [{ type: 'text', text: content }] : []) : content
  if (!Array.isArray(blocks)) refuse(`${at}.content: Input should be a valid list`)
  if (!blocks.length && !(last && role === 'assistant')) {
    refuse(`${at}: all messages must have non-empty content except for the optional final assistant message`)
  }
  for (const [place, block] of blocks.entries()) checkBlock(block, role, `${at}.content.${place}`)
  const end = (blocks as Json[]).at(-1)?.['type']
  if (end === 'thinking' || end === 'redacted_thinking') {
    refuse(`${at}: The final block in an assistant message cannot be \`${end}\`.`)
  }
  return { role, blocks }
}

function checkBlock(block: unknown, role: 'user' | 'assistant', at: string) {
  const type = isObject(block) ? String(block['type']) : ''
  const fields = BLOCKS[role]![type]
  if (!isObject(block) || !fields) {
    const expected = Object.keys(BLOCKS[role]!).join("', '")
    refuse(`${at}: Input tag '${type}' found using 'type' does not match any of the expected tags: '${expected}'`)
  }
  onlyKeys(block, ['type', ...fields], key => `${at}.${type}.${key}: Extra inputs are not permitted`)
  if (type === 'text') checkTextBlock(block, at)
  else if (type === 'image') checkImage(block, at)
  else if (type === 'tool_use') checkToolUse(block, at)
  else if (type === 'tool_result') checkToolResult(block, at)
  else if (type === 'thinking') checkThinking(block, at)
  else if (type === 'redacted_thinking' && !isRedactedData(block['data'])) {
    refuse(`${at}: Invalid \`data\` in \`redacted_thinking\` block`)
  }
}

export function checkTextBlock(block: Json, at: string) {
  const { text } = block
  if (typeof text !== 'string') refuse(`${at}.text: Field required`)
  if (!text) refuse(`${at}: text content blocks must be non-empty`)
  if (isBlank(text)) refuse(`${at}: text content blocks must contain non-whitespace text`)
}

function checkImage(block: Json, at: string) {
  const source = block['source']
  if (!isObject(source)) refuse(`${at}.image.source: Field required`)
  if (source['type'] === 'url') return
  if (source['type'] !== 'base64') refuse(`${at}.image.source: Input tag does not match any of the expected tags`)
  const { media_type: media, data } = source
  if (!PICTURE_TYPES.includes(String(media))) {
    const types = PICTURE_TYPES.map(type => `'${type}'`).join(', ')
    refuse(`${at}.image.source.base64.media_type: Input should be ${types}`)
  }
  if (typeof data !== 'string' || !data) refuse(`${at}.image.source.base64: image cannot be empty`)
  if (!isBase64(data)) refuse(`${at}.image.source.base64.data: Invalid base64 data`)
  const found = pictureTypeOf(data)
  if (!found) refuse('Could not process image')
  if (found !== media) {
    const said = `The image was specified using the ${String(media)} media type, but appears to be ${found}`
    refuse(`${at}.image.source.base64.data: ${said}`)
  }
  // It counts the text, not the bytes.
  const most = 5 * 2 ** 20
  if (data.length > most) {
    refuse(`${at}.image.source.base64: image exceeds 5 MB maximum: ${data.length} bytes > ${most} bytes`)
  }
}

function checkToolUse({ id, name, input }: Json, at: string) {
  if (typeof id !== 'string' || !TOOL_ID.test(id)) {
    refuse(`${at}.tool_use.id: String should match pattern '${TOOL_ID.source}'`)
  }
  if (typeof name !== 'string' || !NAME.test(name)) {
    refuse(`${at}.tool_use.name: String should match pattern '${NAME.source}'`)
  }
  if (!isObject(input)) refuse(`${at}.tool_use.input: Input should be a valid dictionary`)
}

function checkToolResult({ tool_use_id: id, content, is_error: failed }: Json, at: string) {
  if (typeof id !== 'string' || !TOOL_ID.test(id)) {
    refuse(`${at}.tool_result.tool_use_id: String should match pattern '${TOOL_ID.source}'`)
  }
  if (failed !== undefined && typeof failed !== 'boolean') refuse(`${at}.tool_result.is_error: Input should be a bool`)
  if (failed && (content === undefined || (content as string | unknown[]).length === 0)) {
    refuse(`${at}.tool_result: content cannot be empty if \`is_error\` is true`)
  }
  if (content === undefined || typeof content === 'string') return
  if (!Array.isArray(content)) refuse(`${at}.tool_result.content: Input should be a valid list`)
  for (const [index, item] of content.entries()) {
    const where = `${at}.tool_result.content.${index}`
    const type = isObject(item) ? item['type'] : undefined
    if (type !== 'text' && type !== 'image' && type !== 'document') {
      refuse(`${where}: Input tag '${String(type)}' found using 'type' does not match any of the expected tags`)
    }
    if (failed && type !== 'text') {
      refuse(`${at}.tool_result: all content must be type "text" if \`is_error\` is true`)
    }
    if (type !== 'document') checkBlock(item, 'user', where)
  }
}

/** A signature stands for the very text that it was given for. */
function checkThinking({ thinking, signature }: Json, at: string) {
  if (typeof thinking !== 'string') refuse(`${at}.thinking.thinking: Field required`)
  if (typeof signature !== 'string') refuse(`${at}.thinking.signature: Field required`)
  if (signature !== signatureOf(thinking)) refuse(`${at}: Invalid \`signature\` in \`thinking\` block`)
}

/** Each use has its result at once in the next message, in front of everything else there; no result without a use. */
function checkPairs(turns: readonly Turn[]) {
  const ids = new Set<string>()
  let open: string[] = []
  for (const [index, { role, blocks }] of turns.entries()) {
    const at = `messages.${index}`
    if (role === 'assistant') {
      if (open.length) unanswered(index - 1, open)
      open = blocks.flatMap(block => (block['type'] === 'tool_use' ? [String(block['id'])] : []))
      for (const id of open) {
        if (ids.has(id)) refuse(`${at}: \`tool_use\` ids must be unique`)
        ids.add(id)
      }
      continue
    }
    const rest = blocks.findIndex(block => block['type'] !== 'tool_result')
    const results = rest < 0 ? blocks : blocks.slice(0, rest)
    const given = new Set<string>()
    for (const [place, block] of blocks.entries()) {
      if (block['type'] !== 'tool_result') continue
      const id = String(block['tool_use_id'])
      const where = `${at}.content.${place}`
      if (!open.includes(id)) {
        const must = 'Each `tool_result` block must have a corresponding `tool_use` block in the previous message.'
        refuse(`${where}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. ${must}`)
      }
      if (given.has(id)) {
        refuse(
          `${where}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`,
        )
      }
      if (results.includes(block)) given.add(id)
    }
    const missing = open.filter(id => !given.has(id))
    if (missing.length) unanswered(index - 1, missing)
    open = []
  }
  if (open.length) unanswered(turns.length - 1, open)
}

function unanswered(index: number, ids: readonly string[]): never {
  const must = 'Each `tool_use` block must have a corresponding `tool_result` block in the next message.'
  refuse(
    `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids.join(', ')}. ${must}`,
  )
}

const isThought = (block: Json | undefined) => block?.['type'] === 'thinking' || block?.['type'] === 'redacted_thinking'
const isAnswered = ({ role, blocks }: Turn) => role === 'user' && blocks[0]?.['type'] === 'tool_result'

/** A turn that goes on after tool results began with a thought. */
function checkThinkingTurn(turns: readonly Turn[]) {
  let at = turns.length - 1
  const prefill = turns[at]!.role === 'assistant'
  if (!prefill && !isAnswered(turns[at]!)) return
  while (at > 0 && (turns[at]!.role === 'assistant' || isAnswered(turns[at]!))) at--
  const first = at + 1
  const begin = turns[first]
  if (!begin || isThought(begin.blocks[0])) return
  const found = String(begin.blocks[0]?.['type'])
  refuse(
    `messages.${first}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${found}\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks).`,
  )
}
