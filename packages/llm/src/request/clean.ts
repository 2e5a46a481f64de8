/** One message made sendable, remembered by identity: a long conversation is cleaned once, not once a step. */

import { createHash } from 'node:crypto'
import { parsedProblem } from '@cambium/core'
import type {
  AssistantBlock,
  CallId,
  Message,
  ResultBlock,
  TextBlock,
  ToolCallBlock,
  ToolResultBlock,
  UserBlock,
  UserMessage,
} from '../message.ts'
import { soundImage } from './images.ts'
import { wellFormed, wellFormedDeep } from './unicode.ts'

export interface CleanMessage {
  /** Without tool results; undefined when nothing is left that may be sent. */
  readonly message: Message | undefined
  readonly calls: readonly ToolCallBlock[]
  /** Each result as a message of its own. */
  readonly results: readonly { readonly id: CallId; readonly message: UserMessage }[]
}

const cache = new WeakMap<Message, CleanMessage>()
const NONE: readonly never[] = []

/** What providers refuse is taken out or replaced; the very same object comes back where nothing was wrong. */
export function cleanMessage(message: Message): CleanMessage {
  let clean = cache.get(message)
  if (!clean) {
    clean = message.role === 'assistant' ? cleanAssistant(message) : cleanOther(message)
    cache.set(message, clean)
  }
  return clean
}

function cleanAssistant(message: Message & { role: 'assistant' }): CleanMessage {
  const content: AssistantBlock[] = []
  for (const block of message.content) {
    if (block.type === 'tool-call') content.push(cleanCall(block))
    else if (block.text.trim() || (block.type === 'reasoning' && block.replay !== undefined)) {
      content.push(withText(block, wellFormed(block.text)))
    }
  }
  const calls = content.filter(block => block.type === 'tool-call')
  // Reasoning alone is an answer that was interrupted before it said anything: no provider takes it as a message.
  const kept = calls.length > 0 || content.some(block => block.type === 'text')
  return { message: kept ? replaced(message, content) : undefined, calls, results: NONE }
}

function cleanOther(message: Message & { role: 'user' | 'system' }): CleanMessage {
  const content: UserBlock[] = []
  const results: { id: CallId; message: UserMessage }[] = []
  for (const block of message.content as readonly UserBlock[]) {
    if (block.type === 'tool-result') {
      const clean = cleanResult(block)
      const own = message.role === 'user' && message.content.length === 1 ? message : undefined
      results.push({ id: block.toolCallId, message: own && clean === block ? own : resultMessage(clean) })
    } else if (block.type === 'image') {
      if (block.data) content.push(soundImage(block))
    } else if (block.text.trim()) {
      content.push(withText(block, wellFormed(block.text)))
    }
  }
  return { message: content.length ? replaced(message, content) : undefined, calls: NONE, results }
}

function replaced<M extends Message>(message: M, content: readonly unknown[]): M {
  const before = message.content
  const same = before.length === content.length && content.every((block, index) => block === before[index])
  return same ? message : ({ ...message, content } as M)
}

const withText = <B extends { readonly text: string }>(block: B, text: string): B =>
  text === block.text ? block : { ...block, text }

function cleanResult(block: ToolResultBlock): ToolResultBlock {
  const content = block.content.flatMap((item): ResultBlock[] => {
    if (item.type === 'image') return item.data ? [soundImage(item)] : []
    return item.text.trim() ? [withText(item, wellFormed(item.text))] : []
  })
  if (!content.length) content.push(NO_OUTPUT)
  const same = content.length === block.content.length && content.every((item, index) => item === block.content[index])
  return same ? block : { ...block, content }
}

const NO_OUTPUT: TextBlock = { type: 'text', text: '(no output)' }

/** A message for one result, its id derived so that the same history gives the same request. */
export function resultMessage(block: ToolResultBlock): UserMessage {
  const { toolCallId: callId } = block
  return { id: `result-${callId}`, role: 'user', content: [block], source: { kind: 'tool', callId } }
}

function cleanCall(block: ToolCallBlock): ToolCallBlock {
  const id = wellFormed(block.id)
  const name = wireToolName(block.name)
  const args = wireArguments(block.arguments)
  if (id === block.id && name === block.name && args === block.arguments) return block
  return { ...block, id, name, arguments: args }
}

const VALID_NAME = /^[a-zA-Z0-9_-]{1,64}$/

/**
 * A tool's name as every provider accepts it. A changed one ends in a digest of the original, so that two names never
 * become one.
 */
export function wireToolName(name: string): string {
  if (VALID_NAME.test(name)) return name
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${name.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 54) || 'unnamed'}_${digest}`
}

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/
const MAX_INVALID_CHARS = 4_000

/** A call's arguments as a JSON object. What is none goes into one, so that the model sees what it wrote. */
export function wireArguments(text: string): string {
  if (!text.trim()) return '{}'
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || parsedProblem(value)) {
    return JSON.stringify({ _invalid_arguments: wellFormed(text.slice(0, MAX_INVALID_CHARS)) })
  }
  const escaped = SURROGATE_ESCAPE.test(text) ? wellFormedDeep(value) : value
  return escaped === value ? wellFormed(text) : JSON.stringify(escaped)
}
