/** What the tests of the Messages adapter share. */

import type { Context } from '@cambium/core'
import {
  type AssistantBlock,
  createToolResultMessage,
  type LlmRequest,
  type Message,
  newMessageId,
  type ResultBlock,
} from '@cambium/llm'
import * as anthropic from '@cambium/llm/anthropic'
import type { ModelServer } from '@cambium/testkit'
import { type Answer, clearEnvironment, collect, tree } from './llm.ts'

export const CLAUDE = 'claude-sonnet-4-5'

/** A tree whose provider `test` is at `url`; the key is `key`. */
export async function claudeAt(
  url: string,
  settings: Partial<anthropic.ProviderConfig> = {},
  config: Partial<anthropic.Config> = {},
): Promise<Context> {
  clearEnvironment()
  const root = await tree()
  const provider = { baseURL: url, apiKey: 'key', ...settings }
  await root.plugin(anthropic, { providers: { test: provider }, ...config } as anthropic.Config)
  return root
}

export const assistant = (content: readonly AssistantBlock[], provider = 'test', model = CLAUDE): Message => ({
  id: newMessageId(),
  role: 'assistant',
  content,
  source: { kind: 'model', provider, model },
})

export const called = (id: string, args = '{}', name = 'read'): AssistantBlock => ({
  type: 'tool-call',
  id,
  name,
  arguments: args,
})

export const result = (callId: string, content: string | readonly ResultBlock[] = 'ok', isError = false): Message =>
  createToolResultMessage({
    callId,
    content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
    isError,
  })

export const READ = { name: 'read', description: 'Reads a file', parameters: { type: 'object', properties: {} } }
export const PNG = `iVBORw0KGgo${'A'.repeat(21)}`

export interface Body {
  readonly max_tokens: number
  readonly system?: readonly Block[]
  readonly tools?: readonly Block[]
  readonly messages: readonly { readonly role: string; readonly content: readonly Block[] }[]
  readonly thinking?: Readonly<Record<string, unknown>>
  readonly [key: string]: unknown
}
export type Block = Readonly<Record<string, unknown>>

/** What the server got, oldest first. */
export const bodies = (server: ModelServer): Body[] => server.requests.map(({ body }) => body as unknown as Body)

export async function ask(root: Context, request: Partial<LlmRequest> & Pick<LlmRequest, 'messages'>): Promise<Answer> {
  return collect(root.llm.stream({ provider: 'test', model: CLAUDE, ...request }))
}

/** Events as the API sends them, each named by its type. */
export const events = (...list: readonly Block[]): string =>
  list.map(event => `event: ${String(event['type'])}\ndata: ${JSON.stringify(event)}\n\n`).join('')

export const begin = (usage: object = { input_tokens: 3, output_tokens: 1 }) => ({
  type: 'message_start',
  message: { id: 'msg_1', type: 'message', role: 'assistant', content: [], usage },
})
export const open = (index: number, content_block: Block) => ({ type: 'content_block_start', index, content_block })
export const delta = (index: number, delta: Block) => ({ type: 'content_block_delta', index, delta })
export const close = (index: number) => ({ type: 'content_block_stop', index })
export const finish = (stop_reason: string, usage: object = { output_tokens: 5 }) => ({
  type: 'message_delta',
  delta: { stop_reason, stop_sequence: null },
  usage,
})
export const stop = { type: 'message_stop' }
