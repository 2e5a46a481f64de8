/** What happened, in lines that no model has to write: the last resort where a summary cannot be had. */

import { estimateTokens, type Message, type ToolCallBlock, type ToolResultBlock, textOf } from '@cambium/llm'
import { isCheckpoint } from './cuts.ts'
import { cutMiddle, originOf } from './shorten.ts'

const LINE_CHARS = 200
const ARGUMENT_CHARS = 120
const MAX_FILES = 40
/** Of the room, for what an earlier checkpoint says. */
const FORMER_SHARE = 0.5

/**
 * An outline of the messages within so many tokens: what was said and called, the newest lines first kept. What stands
 * elsewhere word for word, by the ids of `kept`, is left out.
 */
export function digestOf(
  messages: readonly Message[],
  maxTokens: number,
  model: string,
  kept: ReadonlySet<string> = new Set(),
): string {
  const former = messages.filter(({ source }) => isCheckpoint(source)).map(formerText)
  const lines: string[] = []
  let left = maxTokens
  const take = (text: string): boolean => {
    const tokens = estimateTokens(text, model) + 1
    if (tokens > left) return false
    left -= tokens
    return true
  }
  const before = former.length ? shorter(former.join('\n\n'), maxTokens * FORMER_SHARE, model) : ''
  if (before && !take(before)) left = Math.floor(left / 2)
  const files = filesIn(messages)
  const touched = files.length ? `Files that were named: ${files.join(', ')}` : ''
  const showsFiles = touched !== '' && take(touched)
  const results = resultsOf(messages)
  const told = messages.filter(message => !isCheckpoint(message.source) && !kept.has(originOf(message)))
  const all = told.flatMap(message => linesOf(message, results))
  let at = all.length - 1
  for (; at >= 0; at--) {
    if (!take(all[at]!)) break
    lines.unshift(all[at]!)
  }
  const missing = at + 1
  return [before, showsFiles ? touched : '', missing > 0 ? `(${missing} earlier lines are left out.)` : '', ...lines]
    .filter(Boolean)
    .join('\n')
}

/** The part of a checkpoint that sums up, without what the person said, which is kept by itself. */
function formerText(message: Message): string {
  const text = message.content.find(block => block.type === 'text' && /^<(summary|digest)>/.test(block.text))
  return text?.type === 'text' ? text.text.replace(/^<\w+>\n|\n<\/\w+>$/g, '') : ''
}

function shorter(text: string, tokens: number, model: string): string {
  let made = text
  for (let chars = text.length; estimateTokens(made, model) > tokens && chars > 16; chars = Math.floor(chars / 1.5)) {
    made = cutMiddle(text, chars)
  }
  return made
}

type Results = ReadonlyMap<string, ToolResultBlock>

function resultsOf(messages: readonly Message[]): Results {
  const results = new Map<string, ToolResultBlock>()
  for (const { content } of messages) {
    for (const block of content) {
      if (block.type === 'tool-result' && !results.has(block.toolCallId)) results.set(block.toolCallId, block)
    }
  }
  return results
}

function linesOf(message: Message, results: Results): string[] {
  const who = message.role === 'assistant' ? 'assistant' : message.source.kind === 'user' ? 'person' : 'context'
  const said = textOf(message)
  const lines = said ? [`${who}: ${line(said, LINE_CHARS)}`] : []
  for (const block of message.content) {
    if (block.type === 'tool-call') lines.push(callLine(block, results))
    if (block.type === 'image') lines.push(`${who}: (a picture)`)
  }
  return lines
}

function callLine({ id, name, arguments: args }: ToolCallBlock, results: Results): string {
  const result = results.get(id)
  const said = result ? textOf(result) : ''
  const outcome = result ? ` → ${result.isError ? 'failed: ' : ''}${line(said, ARGUMENT_CHARS) || '(nothing)'}` : ''
  return `called ${name} ${line(args, ARGUMENT_CHARS)}${outcome}`
}

/** One line of it, whole characters only. */
function line(text: string, maxChars: number): string {
  const flat = text
    .slice(0, maxChars * 8)
    .replace(/\s+/g, ' ')
    .trim()
  if (flat.length <= maxChars) return flat
  return `${[...flat.slice(0, maxChars)].slice(0, -1).join('')}…`
}

const PATH_KEYS = ['file_path', 'path', 'filePath', 'file']

function filesIn(messages: readonly Message[]): string[] {
  const files = new Set<string>()
  for (const { content } of messages) {
    for (const block of content) {
      if (block.type !== 'tool-call') continue
      const path = pathIn(block.arguments)
      // The last to be named stands last.
      if (path && files.delete(path)) files.add(path)
      else if (path) files.add(path)
    }
  }
  return [...files].slice(-MAX_FILES)
}

function pathIn(json: string): string | undefined {
  let args: unknown
  try {
    args = JSON.parse(json)
  } catch {
    // What the model wrote need not be JSON; then it names no file.
    return undefined
  }
  if (typeof args !== 'object' || args === null) return undefined
  const value = PATH_KEYS.map(key => (args as Record<string, unknown>)[key]).find(item => typeof item === 'string')
  return typeof value === 'string' && value.length < 300 ? value : undefined
}
