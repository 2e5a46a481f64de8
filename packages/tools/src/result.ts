/** Results: the one constructor for a tool's code, how values become text, and how failures are worded. */

import { errorMessage, isHarnessError, type JsonValue, toJson } from '@cambium/core'
import type { ResultBlock, UserMessage } from '@cambium/llm'
import { type ToolResult, type ToolResultValue, toolResultMark } from './definition.ts'
import { isAdmitted } from './images.ts'

/**
 * What a tool returns when a plain value is not enough. `content` is what the model reads, instead of the rendered
 * `value`; `meta` goes to user interfaces and the log, never to the model; `isError` marks a failure in the tool's own words.
 */
export function toolResult(parts: {
  value?: JsonValue | undefined
  content?: string | readonly ResultBlock[] | undefined
  meta?: JsonValue | undefined
  isError?: boolean | undefined
}): ToolResultValue {
  const { value, content, meta, isError } = parts
  return {
    [toolResultMark]: true,
    ...(value === undefined ? {} : { value }),
    ...(content === undefined ? {} : { content: typeof content === 'string' ? [text(content)] : content }),
    ...(meta === undefined ? {} : { meta }),
    ...(isError === undefined ? {} : { isError }),
  }
}

export function isToolResult(value: unknown): value is ToolResultValue {
  return typeof value === 'object' && value !== null && (value as Record<symbol, unknown>)[toolResultMark] === true
}

/** Codes that the pipeline itself gives; a tool's own thrown `code` stands beside them. */
export type ToolErrorCode =
  | 'ABORTED'
  | 'ABORTED_BEFORE_DISPATCH'
  | 'INVALID_ARGUMENTS'
  | 'INVALID_TOOL_OUTPUT'
  | 'SESSION_NOT_STORED'
  | 'TOOL_BLOCKED'
  | 'TOOL_CHANGED'
  | 'TOOL_DENIED'
  | 'TOOL_FAILED'
  | 'TOOL_POLICY_FAILED'
  | 'UNKNOWN_TOOL'

const NOTHING: ResultBlock = { type: 'text', text: '(no output)' }

export type ResultParts = Partial<Omit<ToolResult, 'error'>> & { error?: ToolResult['error'] | undefined }

/** A whole result, frozen, its content fit for any provider. */
export function createResult(parts: ResultParts): ToolResult {
  const { value, meta, error } = parts
  return deepFreeze({
    isError: parts.isError ?? false,
    content: sanitise(parts.content ?? []),
    ...(value === undefined ? {} : { value }),
    ...(meta === undefined ? {} : { meta }),
    ...(error === undefined ? {} : { error }),
    contexts: parts.contexts ?? [],
    concludesTurn: parts.concludesTurn ?? false,
    durationMs: parts.durationMs ?? 0,
  })
}

/** A failed result in plain words for the model: `Error: <message>`. Also for wrappers of `tools/execute`. */
export function failedResult(
  code: ToolErrorCode | (string & {}),
  message: string,
  more: { meta?: JsonValue; contexts?: readonly UserMessage[] } = {},
): ToolResult {
  return createResult({ ...more, isError: true, content: [text(`Error: ${message}`)], error: { code, message } })
}

/** What a thrown value tells the model, with its code if it has one. */
export function thrownResult(error: unknown): ToolResult {
  const code = (error as { code?: unknown } | null | undefined)?.code
  const known = typeof code === 'string' && /^[A-Z][A-Z0-9_]*$/.test(code)
  return failedResult(known ? code : 'TOOL_FAILED', inWords(error) || 'the tool failed')
}

/** A thrown value in words for a model: never a stack, which messages of wrapped errors often carry along. */
export function inWords(error: unknown): string {
  if (isHarnessError(error)) {
    const where = error.where ? ` (${error.where})` : ''
    return `${error.problem}${where}${error.fix ? `\n${error.fix}` : ''}`
  }
  const lines = errorMessage(error).split('\n')
  return lines.filter(line => !/^\s+at .*(:\d+:\d+\)?|<anonymous>\)?|\(native\))$/.test(line)).join('\n')
}

/** A canonical value as the model reads it: text as it is, anything else as indented JSON. */
export function renderValue(value: JsonValue | undefined): readonly ResultBlock[] {
  if (value === undefined) return []
  return [text(typeof value === 'string' ? value : JSON.stringify(value, null, 2))]
}

/** The text of a result, for messages and summaries. */
export function resultText(content: readonly ResultBlock[]): string {
  return content.flatMap(block => (block.type === 'text' ? [block.text] : [])).join('\n')
}

const text = (value: string): ResultBlock => ({ type: 'text', text: value })

/** Valid blocks only, never none: some providers refuse a result without visible text. */
function sanitise(content: readonly ResultBlock[]): readonly ResultBlock[] {
  const blocks = content.map(clean).filter(block => block.type !== 'text' || block.text.trim() !== '')
  return blocks.length ? blocks : [NOTHING]
}

function clean(block: ResultBlock): ResultBlock {
  if (block?.type === 'text' && typeof block.text === 'string') return text(cleanText(block.text))
  if (isAdmitted(block)) return block
  if (block?.type === 'image' && typeof block.data === 'string' && typeof block.mediaType === 'string') {
    return { type: 'image', mediaType: block.mediaType, data: block.data }
  }
  throw new TypeError(`a content block must be text or an image, got ${JSON.stringify(block)?.slice(0, 100)}`)
}

const UNFIT = /(?![\t\n])[\p{Cc}\p{Cs}]/u
const EACH_UNFIT = /\r\n?|(?![\t\n])[\p{Cc}\p{Cs}]/gu

/**
 * Text that every provider takes: line ends become `\n`, other control characters are spelt out (`\x1b`), and halves of
 * surrogate pairs become U+FFFD.
 */
export function cleanText(value: string): string {
  if (!UNFIT.test(value)) return value
  return value.replace(EACH_UNFIT, found => {
    if (found[0] === '\r') return '\n'
    const code = found.charCodeAt(0)
    return code > 0xff ? '\ufffd' : `\\x${code.toString(16).padStart(2, '0')}`
  })
}

/** A deep copy of JSON data, frozen. @throws `JSON_UNSUPPORTED` */
export function snapshot(value: unknown, what: string): JsonValue {
  return deepFreeze(toJson(value, what))
}

export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const key of Object.keys(value)) deepFreeze((value as Record<string, unknown>)[key])
  return value
}
