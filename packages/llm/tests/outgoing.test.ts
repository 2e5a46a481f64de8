import {
  type AssistantBlock,
  createUserMessage,
  type LlmRequest,
  type Message,
  type MessageSource,
  type ToolSchema,
} from '@cambium/llm'
import * as anthropic from '@cambium/llm/anthropic'
import * as openai from '@cambium/llm/openai'
import * as responses from '@cambium/llm/responses'
import { type ModelServer, type Reply, startModelServer } from '@cambium/testkit'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { logs, text, tools } from './histories.ts'
import { answer, clearEnvironment, tree } from './llm.ts'

/** More of them find more: `OUTGOING_RUNS=5000`. */
const RUNS = Number(process.env['OUTGOING_RUNS'] ?? 60)

let server: ModelServer
let reply: Reply
beforeAll(async () => {
  server = await startModelServer({ otherwise: () => reply })
})
afterAll(() => server.close())

/** The three plugins, with providers of the usual dialects, all at the strict server. */
async function everyProtocol() {
  clearEnvironment()
  const root = await tree()
  const blind = { id: 'blind', input: ['text'] }
  const at = (more: object = {}) => ({ baseURL: server.url, ...more })
  const likes = ['deepseek', 'mistral', 'openai', 'openrouter', 'gemini']
  await root.plugin(openai, {
    providers: {
      chat: at({ models: [blind] }),
      ...Object.fromEntries(likes.map(like => [`like-${like}`, at({ like })])),
    },
  } as object as openai.Config)
  await root.plugin(anthropic, {
    providers: { messages: at({ models: [blind] }), uncached: at({ cache: false }) },
  } as object as anthropic.Config)
  await root.plugin(responses, { providers: { responses: at({ models: [blind] }) } } as object as responses.Config)
  return root
}

/** Routes of a protocol, each of whose own answers a log may hold. */
const ROUTES = {
  chat: [
    ['chat', ['some-model', 'gpt-5', 'blind']],
    ['like-deepseek', ['deepseek-reasoner']],
    ['like-mistral', ['magistral-medium']],
    ['like-openai', ['gpt-4o', 'o3-mini']],
    ['like-openrouter', ['anthropic/claude-sonnet-4.5']],
    ['like-gemini', ['gemini-3-pro']],
  ],
  messages: [
    ['messages', ['claude-3-5-haiku-latest', 'claude-sonnet-4-5', 'claude-opus-4-6', 'claude-opus-4-7']],
    ['messages', ['claude-sonnet-5', 'claude-opus-5-5', 'other', 'blind']],
    ['uncached', ['claude-sonnet-4-5']],
  ],
  responses: [['responses', ['gpt-5', 'gpt-5.4', 'o3', 'gpt-4.1', 'gpt-5-chat-latest', 'blind']]],
} as const

const ANSWERS: readonly Reply[] = [
  { reasoning: 'Let me see.', text: 'Seen.' },
  { reasoning: 'Both.', text: 'Looking.', toolCalls: [{ name: 'read', arguments: { path: 'a' } }, { name: 'ls' }] },
  { reasoning: 'Hidden.', redacted: true, toolCalls: [{ name: 'read' }] },
  { reasoning: '', toolCalls: [{ name: 'ls' }] },
  { toolCalls: [{ name: 'n'.repeat(64) }] },
  { reasoning: 'Only thought.', text: 'cut', fault: 'length' },
]

const route = (protocol: keyof typeof ROUTES) =>
  fc
    .constantFrom(...ROUTES[protocol].flatMap(([provider, models]) => models.map(model => [provider, model] as const)))
    .map(([provider, model]) => ({ provider, model }))

const settings = fc.record(
  {
    effort: fc.constantFrom('low', 'medium', 'high'),
    maxTokens: fc.constantFrom(1, 10, 2_000, 20_000),
    temperature: fc.constantFrom(0, 0.5, 1),
    stop: fc.constantFrom([], ['END'], ['\n'], ['a', 'b', 'c', 'd', 'e', 'f']),
    system: text,
    sessionId: fc.constantFrom('s', 's'.repeat(200)),
  },
  { requiredKeys: [] },
)

describe.each(Object.keys(ROUTES) as (keyof typeof ROUTES)[])('over %s', protocol => {
  it('no log, no tool and no setting makes a request that the strict provider refuses', async () => {
    const root = await everyProtocol()
    const pool: AssistantBlock[][] = []
    const sources: MessageSource[] = []
    for (const [provider, models] of ROUTES[protocol]) {
      for (const model of models) sources.push({ kind: 'model', provider, model })
    }
    for (const said of ANSWERS) {
      reply = said
      const [provider, [model]] = ROUTES[protocol][0]
      pool.push([...(await answer(root, { provider, model })).blocks])
    }
    reply = { text: 'ok' }
    let sent = 0
    const request = fc.tuple(route(protocol), settings, logs(pool, sources), fc.option(tools, { nil: undefined }))
    await fc.assert(
      fc.asyncProperty(request, async ([to, how, messages, offered]) => {
        const before = server.requests.length
        const { effort, stop, ...rest } = how
        // A model that cannot think is not asked to: that is what somebody has set, and the provider's to refuse.
        const thinks = effort !== undefined && !/^gpt-4|-chat-/.test(to.model) ? { effort } : {}
        // Nor is a protocol without stop sequences given any.
        const stops = stop && protocol !== 'responses' ? { stop } : {}
        const asked = { ...rest, ...stops, ...thinks, ...to, messages, ...(offered ? { tools: offered } : {}) }
        const { failure } = await answer(root, asked as LlmRequest)
        const requests = server.requests.slice(before)
        for (const { problem, text: body } of requests) if (problem) expect.fail(`${problem}\n${body}`)
        if (requests.length) expect(failure).toBeUndefined()
        // What a model cannot do at all is said here, and not sent.
        else expect(['UNSUPPORTED_OPTION', 'INVALID_REQUEST']).toContain(failure?.code)
        sent += requests.length
      }),
      { numRuns: RUNS },
    )
    expect(sent).toBeGreaterThan(RUNS / 3)
  })

  it('a history of thousands of calls goes out whole, and in no more time than it takes to write it', async () => {
    const root = await everyProtocol()
    reply = { text: 'ok' }
    const messages: Message[] = []
    for (let turn = 0; turn < 1_500; turn++) {
      const id = `call ${turn % 50}`
      messages.push(
        createUserMessage({ content: `question ${turn} 台`, source: { kind: 'user' } }),
        {
          id: `a${turn}`,
          role: 'assistant',
          content: [{ type: 'tool-call', id, name: 'read', arguments: '{"path":"a"}' }],
          source: { kind: 'model', provider: 'gone', model: 'gone' },
        },
        {
          id: `r${turn}`,
          role: 'user',
          content: [{ type: 'tool-result', toolCallId: id, content: [{ type: 'text', text: 'x'.repeat(200) }] }],
          source: { kind: 'tool', callId: id },
        },
      )
    }
    const [provider, [model]] = ROUTES[protocol][0]
    const read: ToolSchema = { name: 'read', description: 'reads', parameters: { type: 'object' } }
    const before = server.requests.length
    expect(await answer(root, { provider, model, messages, tools: [read] })).toMatchObject({ text: 'ok' })
    const [request, ...more] = server.requests.slice(before)
    expect([request?.problem, more]).toEqual([undefined, []])
    expect(request!.text).toContain('question 0 台')
    expect(request!.text.match(/question \d+/g)).toHaveLength(1_500)
  })
})
