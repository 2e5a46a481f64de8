/** The vocabulary of a conversation: messages, their blocks, and where each came from. */

import { randomUUID } from 'node:crypto'
import type { JsonValue } from '@cambium/core'

declare const brand: unique symbol
/** Unique in a session; the receipt that `followup`, `steer` and `inject` return. */
export type MessageId = string & { readonly [brand]?: 'MessageId' }
/** Unique in a session, whatever the provider sent. */
export type CallId = string & { readonly [brand]?: 'CallId' }

export const MessageId = (id: string): MessageId => id
export const CallId = (id: string): CallId => id

export interface TextBlock {
  readonly type: 'text'
  readonly text: string
}

export interface ReasoningBlock {
  readonly type: 'reasoning'
  readonly text: string
  /** What the provider that made it wants back: a signature, an encrypted item. Opaque to everybody else. */
  readonly replay?: JsonValue
}

export interface ImageBlock {
  readonly type: 'image'
  /** `image/png`, `image/jpeg`, `image/webp` or `image/gif`. */
  readonly mediaType: string
  /** The file's bytes in base64. */
  readonly data: string
}

export interface ToolCallBlock {
  readonly type: 'tool-call'
  readonly id: CallId
  readonly name: string
  /** The model's JSON text, untouched, valid or not. Blank means no arguments. */
  readonly arguments: string
  /** As in {@link ReasoningBlock.replay}. */
  readonly replay?: JsonValue
}

export interface ToolResultBlock {
  readonly type: 'tool-result'
  readonly toolCallId: CallId
  readonly content: readonly ResultBlock[]
  readonly isError?: true
}

export type ResultBlock = TextBlock | ImageBlock
export type UserBlock = TextBlock | ImageBlock | ToolResultBlock
export type AssistantBlock = TextBlock | ReasoningBlock | ToolCallBlock
export type ContentBlock = UserBlock | AssistantBlock

/** Kinds of source, each with what belongs to it. Plugins add kinds by augmenting this interface. */
export interface MessageSources {
  /** A person typed it. An attestation: nothing else may claim it. */
  user: object
  /** A plugin made it: a snapshot, a notice, an instruction file. */
  plugin: {
    readonly plugin: string
    readonly form?: 'instructions' | 'snapshot' | 'notice' | 'catalog' | 'relay' | 'recall'
  }
  model: { readonly provider: string; readonly model: string }
  tool: { readonly callId: CallId }
  cron: { readonly schedule: string }
}

export type MessageSource = {
  [K in keyof MessageSources]: { readonly kind: K } & MessageSources[K]
}[keyof MessageSources]

export interface SystemMessage {
  readonly id: MessageId
  readonly role: 'system'
  readonly content: readonly TextBlock[]
  readonly source: MessageSource
}

export interface UserMessage {
  readonly id: MessageId
  readonly role: 'user'
  readonly content: readonly UserBlock[]
  readonly source: MessageSource
}

export interface AssistantMessage {
  readonly id: MessageId
  readonly role: 'assistant'
  readonly content: readonly AssistantBlock[]
  readonly source: MessageSource
}

export type Message = SystemMessage | UserMessage | AssistantMessage

/** A user message, with an id of its own unless one is given. `content` as a string is one text block. */
export function createUserMessage(options: {
  content: string | readonly UserBlock[]
  source: MessageSource
  id?: MessageId
}): UserMessage {
  const { content, source, id = newMessageId() } = options
  return {
    id,
    role: 'user',
    content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
    source,
  }
}

/** The user-role message that carries one tool's answer back to the model. */
export function createToolResultMessage(options: {
  callId: CallId
  content: readonly ResultBlock[]
  isError?: boolean
}): UserMessage {
  const { callId, content, isError } = options
  return {
    id: newMessageId(),
    role: 'user',
    content: [{ type: 'tool-result', toolCallId: callId, content, ...(isError ? { isError } : {}) }],
    source: { kind: 'tool', callId },
  }
}

/** The first tool result that a message carries. */
export function toolResultOf(message: UserMessage): ToolResultBlock | undefined {
  return message.content.find(block => block.type === 'tool-result')
}

export const newMessageId = (): MessageId => randomUUID()

/** The text blocks of a message, joined by blank lines: what a person reads as its answer. */
export function textOf(message: { readonly content: readonly ContentBlock[] }): string {
  return message.content.flatMap(block => (block.type === 'text' && block.text ? [block.text] : [])).join('\n\n')
}
