/** What the tests of this package share: a small tree, and answers collected. */

import { type Context, createRoot, type LogRecord } from '@cambium/core'
import * as llm from '@cambium/llm'
import {
  type AssistantBlock,
  BlockAssembler,
  createUserMessage,
  type LlmAdapter,
  type LlmFailure,
  type LlmRequest,
  type Message,
  type StreamChunk,
  type TokenUsage,
} from '@cambium/llm'
import * as openai from '@cambium/llm/openai'
import { afterEach, vi } from 'vitest'

const roots: Context[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  await Promise.all(roots.splice(0).map(root => root.fiber.dispose()))
})

/** A root with `ctx.llm`, disposed after the test. */
export async function tree(logs: LogRecord[] = []): Promise<Context> {
  const root = createRoot({ level: 'debug', write: record => void logs.push(record) })
  roots.push(root)
  await root.plugin(llm)
  return root
}

/** The variables of every route are cleared, so that what the machine has set changes nothing. */
export function clearEnvironment() {
  const prefixes =
    /^(OPENAI|ANTHROPIC|DEEPSEEK|OPENROUTER|GROQ|MISTRAL|XAI|TOGETHER|FIREWORKS|GEMINI|GOOGLE|MOONSHOT|ZAI|ZHIPU|CEREBRAS|NVIDIA|OLLAMA|LMSTUDIO|VLLM|LLAMA_CPP)_/
  for (const name of Object.keys(process.env)) if (prefixes.test(name)) vi.stubEnv(name, '')
}

export type ProviderSettings = Partial<openai.ProviderConfig>

/** A tree whose provider `test` is at `url`. */
export async function connected(
  url: string,
  settings: ProviderSettings = {},
  config: Partial<openai.Config> = {},
): Promise<Context> {
  clearEnvironment()
  const root = await tree()
  await root.plugin(openai, {
    providers: { test: { baseURL: url, ...settings } },
    ...config,
  } as openai.Config)
  return root
}

/** A tree whose provider `test` is the given adapter. */
export async function adapted(adapter: LlmAdapter): Promise<Context> {
  const root = await tree()
  root.llm.registerAdapter('test', adapter)
  return root
}

export const user = (content: string): Message => createUserMessage({ content, source: { kind: 'user' } })

export const ask = (more: Partial<LlmRequest> = {}): LlmRequest => ({
  provider: 'test',
  model: 'test-model',
  messages: [user('hello')],
  ...more,
})

export interface Answer {
  readonly chunks: readonly StreamChunk[]
  readonly blocks: readonly AssistantBlock[]
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly { id: string; name: string; arguments: string }[]
  readonly cut: readonly { id: string; name: string }[]
  readonly usage: TokenUsage | undefined
  readonly reason: string | undefined
  readonly failure: LlmFailure | undefined
}

export async function collect(stream: AsyncIterable<StreamChunk>): Promise<Answer> {
  const assembler = new BlockAssembler()
  const chunks: StreamChunk[] = []
  for await (const chunk of stream) {
    chunks.push(chunk)
    assembler.push(chunk)
  }
  const blocks = assembler.blocks()
  const join = (type: 'text' | 'reasoning') =>
    blocks.flatMap(block => (block.type === type ? [block.text] : [])).join('')
  return {
    chunks,
    blocks,
    text: join('text'),
    reasoning: join('reasoning'),
    calls: blocks.flatMap(block =>
      block.type === 'tool-call' ? [{ id: block.id, name: block.name, arguments: block.arguments }] : [],
    ),
    cut: assembler.cutCalls(),
    usage: assembler.usage,
    reason: assembler.finish?.reason,
    failure: assembler.finish?.failure,
  }
}

export const answer = (root: Context, more: Partial<LlmRequest> = {}): Promise<Answer> =>
  collect(root.llm.stream(ask(more)))
