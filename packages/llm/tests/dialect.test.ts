/** How each built-in provider is spoken to, against a server that refuses what the real one refuses. */

import type { JsonObject, LogRecord } from '@cambium/core'
import { createToolResultMessage, type LlmRequest, type Message, newMessageId } from '@cambium/llm'
import * as openai from '@cambium/llm/openai'
import { type ModelServer, type ModelServerOptions, startModelServer } from '@cambium/testkit'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Answer, answer, clearEnvironment, tree, user } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

/** One request after another, to any provider; each at the server's address. */
async function speaking(options: ModelServerOptions = {}, config: Partial<openai.Config> = {}) {
  clearEnvironment()
  server = await startModelServer({ otherwise: 'ok', ...options })
  const root = await tree()
  await root.plugin(openai, config as openai.Config)
  return async (route: string, request: Partial<LlmRequest> = {}): Promise<{ got: Answer; body: JsonObject }> => {
    const at = route.indexOf('/')
    const provider = route.slice(0, at)
    vi.stubEnv(`${provider.toUpperCase().replace('.', '_')}_BASE_URL`, server.url)
    vi.stubEnv('OLLAMA_HOST', server.url)
    const got = await answer(root, { provider, model: route.slice(at + 1), ...request })
    expect(server.requests.at(-1)!.problem).toBeUndefined()
    return { got, body: server.requests.at(-1)!.body as unknown as JsonObject }
  }
}

interface Made {
  readonly by?: string
  readonly thought?: string
  readonly text?: string
  readonly replay?: JsonObject
  readonly signature?: string
}

/** What an answer with a call, and the call's result, leave behind. */
function loop({ by = 'other/one', thought, text, replay, signature }: Made): Message[] {
  const [provider = '', ...model] = by.split('/')
  const sign = signature ? { extra_content: { google: { thought_signature: signature } } } : undefined
  return [
    user('go'),
    {
      id: newMessageId(),
      role: 'assistant',
      content: [
        ...(thought === undefined
          ? []
          : [{ type: 'reasoning' as const, text: thought, ...(replay ? { replay } : {}) }]),
        ...(text ? [{ type: 'text' as const, text }] : []),
        { type: 'tool-call', id: 'c1', name: 'list', arguments: '{}', ...(sign ? { replay: sign } : {}) },
      ],
      source: { kind: 'model', provider, model: model.join('/') },
    },
    createToolResultMessage({ callId: 'c1', content: [{ type: 'text', text: 'ok' }] }),
  ]
}

const said = (body: JsonObject) => (body['messages'] as JsonObject[])[1]!

describe('reasoning goes back', () => {
  it('to DeepSeek on each message with calls, also after another provider or none', async () => {
    const ask = await speaking({
      check: ({ body }) =>
        body.messages.every(message => !message.tool_calls || typeof message.reasoning_content === 'string')
          ? undefined
          : 'The reasoning_content in the thinking mode must be passed back to the API.',
    })
    for (const made of [{ by: 'deepseek/deepseek-flash', thought: 'R1' }, { by: 'anthropic/x' }]) {
      const { got, body } = await ask('deepseek/deepseek-flash', { messages: loop(made) })
      expect(got.failure).toBeUndefined()
      expect(said(body)['reasoning_content']).toBe(made.thought ?? '')
    }
  })

  it('to OpenRouter as the details it gave, else as text, and to the model that made it alone', async () => {
    const ask = await speaking()
    const by = 'openrouter/a/b'
    const details = [{ type: 'reasoning.text', text: 'R1', signature: 's' }]
    const own = await ask(by, { messages: loop({ by, thought: 'R1', replay: { reasoning_details: details } }) })
    expect(said(own.body)).toMatchObject({ reasoning_details: details })
    expect(said(own.body)).not.toHaveProperty('reasoning')
    expect(said((await ask(by, { messages: loop({ by, thought: 'R1' }) })).body)).toMatchObject({ reasoning: 'R1' })
    const other = await ask('openrouter/c/d', {
      messages: loop({ by, thought: 'R1', replay: { reasoning_details: details } }),
    })
    expect(JSON.stringify(other.body)).not.toContain('R1')
  })

  it('to Mistral as thinking parts, to its models that think', async () => {
    const ask = await speaking()
    const by = 'mistral/magistral-medium-latest'
    const { body } = await ask(by, { messages: loop({ by, thought: 'R1', text: 'hm' }) })
    expect(said(body)['content']).toEqual([
      { type: 'thinking', thinking: [{ type: 'text', text: 'R1' }] },
      { type: 'text', text: 'hm' },
    ])
    const plain = await ask('mistral/codestral-latest', { messages: loop({ by, thought: 'R1', text: 'hm' }) })
    expect(said(plain.body)['content']).toBe('hm')
  })

  it.each([
    ['ollama/m', 'reasoning'],
    ['vllm/m', 'reasoning'],
    ['groq/openai/gpt-oss-120b', 'reasoning'],
    ['llama.cpp/m', 'reasoning_content'],
    ['fireworks/m', 'reasoning_content'],
    ['moonshot/kimi-k2.6', 'reasoning_content'],
    ['zai/glm-4.6', 'reasoning_content'],
  ])('to %s in %s', async (by, key) => {
    const ask = await speaking()
    expect(said((await ask(by, { messages: loop({ by, thought: 'R1' }) })).body)[key]).toBe('R1')
  })

  it.each([
    'openai/gpt-5',
    'xai/grok-4.5',
    'gemini/gemini-2.5-pro',
    'groq/llama-3.3-70b',
    'cerebras/gpt-oss-120b',
    'lmstudio/m',
  ])('not to %s, which refuses it or makes nothing of it', async by => {
    const ask = await speaking()
    expect(JSON.stringify((await ask(by, { messages: loop({ by, thought: 'R1' }) })).body)).not.toContain('R1')
  })

  it('to Gemini as the signature of a call, or the word that stands for one where another model made it', async () => {
    const ask = await speaking({
      check: ({ body }) =>
        JSON.stringify(body).includes('thought_signature')
          ? undefined
          : 'Function call is missing a thought_signature in functionCall parts.',
    })
    const by = 'gemini/gemini-3.8-flash'
    const signature = async (route: string, made: Made) =>
      JSON.stringify(said((await ask(route, { messages: loop(made) })).body)['tool_calls'])
    expect(await signature(by, { by, signature: 'sig' })).toContain('"thought_signature":"sig"')
    for (const made of [{ by: 'anthropic/x' }, { by: 'gemini/gemini-3.1-pro-preview', signature: 'sig' }]) {
      expect(await signature(by, made)).toContain('"thought_signature":"skip_thought_signature_validator"')
    }
  })
})

describe('reasoning that comes as text', () => {
  const texts = async (text: string, pieceChars: number, route = 'ollama/qwen') => {
    const ask = await speaking({ replies: [{ text, pieceChars }] })
    const { got } = await ask(route)
    return got.blocks.map(block => [block.type, 'text' in block ? block.text : ''])
  }

  it.each([1, 3, 5, 100])('between <think> and </think> is told apart in pieces of %i', async pieceChars => {
    expect(await texts('<think>\nLet <b> me </ see.\n</think>\n\nIt is <think>.', pieceChars)).toEqual([
      ['reasoning', 'Let <b> me </ see.\n'],
      ['text', 'It is <think>.'],
    ])
  })

  it('may be empty, cut off, or none at all', async () => {
    expect(await texts('<think>\n\n</think>\n\nyes', 2)).toEqual([['text', 'yes']])
    expect(await texts(' <thinner', 2)).toEqual([['text', ' <thinner']])
    expect(await texts('<thin', 2)).toEqual([['text', '<thin']])
  })

  it('ends before a call', async () => {
    const ask = await speaking({ replies: [{ text: '<think>hm</think>', toolCalls: [{ name: 'list' }] }] })
    expect((await ask('vllm/qwen')).got.blocks.map(({ type }) => type)).toEqual(['reasoning', 'tool-call'])
    await server.close()
    const other = await speaking({ replies: [{ text: '<thin', toolCalls: [{ name: 'list' }] }] })
    expect((await other('vllm/qwen')).got.blocks.map(({ type }) => type)).toEqual(['text', 'tool-call'])
  })

  it('is text where the provider has a field for reasoning', async () => {
    expect(await texts('<think>x</think>y', 4, 'openai/gpt-5')).toEqual([['text', '<think>x</think>y']])
  })
})

describe('the settings of a request', () => {
  const settings = { maxTokens: 99, effort: 'low', temperature: 0.5, stop: ['END'], system: 'Be brief.' }

  it("of OpenAI's reasoning models are told by a developer, and leave the sampling alone", async () => {
    const ask = await speaking()
    for (const model of ['gpt-5', 'gpt-5.6', 'o3', 'o4-mini', 'gpt-5-codex']) {
      const { body } = await ask(`openai/${model}`, settings)
      expect((body['messages'] as JsonObject[])[0]).toMatchObject({ role: 'developer' })
      expect(body).toMatchObject({ max_completion_tokens: 99, reasoning_effort: 'low' })
      for (const key of ['temperature', 'stop', 'max_tokens']) expect(body).not.toHaveProperty(key)
    }
    for (const model of ['gpt-4.1', 'gpt-4o-mini', 'gpt-5-chat-latest']) {
      const { body } = await ask(`openai/${model}`, settings)
      expect((body['messages'] as JsonObject[])[0]).toMatchObject({ role: 'system' })
      expect(body).toMatchObject({ temperature: 0.5, stop: ['END'] })
      expect(body).not.toHaveProperty('reasoning_effort')
    }
  })

  it.each<[string, string, JsonObject]>([
    ['deepseek/deepseek-flash', 'high', { thinking: { type: 'enabled' }, reasoning_effort: 'high' }],
    ['deepseek/deepseek-flash', 'none', { thinking: { type: 'disabled' } }],
    ['zai/glm-4.6', 'none', { thinking: { type: 'disabled' } }],
    ['zai/glm-4.6', 'high', { thinking: { type: 'enabled' } }],
    ['moonshot/kimi-k2.6', 'high', { thinking: { type: 'enabled' } }],
    ['moonshot/kimi-k3', 'high', { reasoning_effort: 'high' }],
    ['openrouter/a/b', 'high', { reasoning: { effort: 'high' } }],
    ['groq/openai/gpt-oss-20b', 'low', { reasoning_effort: 'low' }],
    ['groq/llama-3.3-70b-versatile', 'low', {}],
    ['mistral/mistral-medium-latest', 'high', { reasoning_effort: 'high' }],
    ['mistral/codestral-latest', 'high', {}],
    ['xai/grok-4.5', 'low', { reasoning_effort: 'low' }],
    ['xai/grok-3-mini', 'low', { reasoning_effort: 'low' }],
    ['xai/grok-4', 'low', {}],
    ['xai/grok-4-1-fast', 'low', {}],
    ['xai/grok-4.20-0309-reasoning', 'low', {}],
    ['gemini/gemini-2.5-flash', 'low', { reasoning_effort: 'low' }],
    ['gemini/gemini-2.0-flash', 'low', {}],
    ['cerebras/gpt-oss-120b', 'low', { reasoning_effort: 'low' }],
    ['vllm/qwen', 'none', { chat_template_kwargs: { enable_thinking: false } }],
    [
      'vllm/qwen',
      'high',
      { reasoning_effort: 'high', chat_template_kwargs: { enable_thinking: true, reasoning_effort: 'high' } },
    ],
  ])('of %s say the effort %s in its own way', async (route, effort, fields) => {
    const ask = await speaking()
    const { body } = await ask(route, { effort })
    const keys = ['thinking', 'reasoning_effort', 'reasoning', 'chat_template_kwargs']
    expect(Object.fromEntries(keys.filter(key => key in body).map(key => [key, body[key]]))).toEqual(fields)
  })

  it('leave out what a model refuses', async () => {
    const ask = await speaking()
    expect((await ask('xai/grok-4.5', settings)).body).not.toHaveProperty('stop')
    expect((await ask('moonshot/kimi-k2.6', settings)).body).not.toHaveProperty('temperature')
    for (const route of ['mistral/m', 'zai/glm-4.6']) {
      expect((await ask(route)).body).not.toHaveProperty('stream_options')
    }
    expect((await ask('cerebras/m', settings)).body).toMatchObject({ max_completion_tokens: 99 })
  })

  it('have call ids as Mistral wants them: nine letters and digits', async () => {
    const ask = await speaking()
    const { body } = await ask('mistral/m', { messages: loop({}) })
    expect(JSON.stringify(body)).toMatch(/"tool_calls":\[\{"id":"[a-z0-9]{9}"/)
  })
})

describe('a provider of which nothing is known', () => {
  const mine = (more: Partial<openai.ProviderConfig> = {}) => ({ providers: { mine: { baseURL: '', ...more } } })
  async function own(options: ModelServerOptions, more: Partial<openai.ProviderConfig> = {}) {
    clearEnvironment()
    server = await startModelServer({ otherwise: 'ok', ...options })
    const root = await tree()
    await root.plugin(openai, mine({ baseURL: server.url, ...more }) as unknown as openai.Config)
    return (request: Partial<LlmRequest>) => answer(root, { provider: 'mine', model: 'm', ...request })
  }
  const tools = [{ name: 'list', description: '', parameters: { type: 'object', properties: {} } }]

  it.each<[string, (body: JsonObject) => string | undefined, Partial<LlmRequest>]>([
    [
      'a temperature',
      body =>
        'temperature' in body ? "Unsupported parameter: 'temperature' is not supported with this model." : undefined,
      { temperature: 1 },
    ],
    ['a stop', body => ('stop' in body ? 'Argument not supported on this model: stop' : undefined), { stop: ['x'] }],
    [
      'an effort',
      body => ('reasoning_effort' in body ? 'Unrecognized request argument supplied: reasoning_effort' : undefined),
      { effort: 'low' },
    ],
    [
      'max_tokens',
      body =>
        'max_tokens' in body
          ? "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
          : undefined,
      { maxTokens: 5 },
    ],
    [
      'stream_options',
      body => ('stream_options' in body ? 'Extra inputs are not permitted: stream_options' : undefined),
      {},
    ],
    [
      'calls without reasoning_content',
      body =>
        'reasoning_content' in said(body)
          ? undefined
          : 'The reasoning_content in the thinking mode must be passed back.',
      { messages: loop({ by: 'mine/m', thought: 'R1' }) },
    ],
    [
      'a call without a signature',
      body => (JSON.stringify(body).includes('signature') ? undefined : 'Function call is missing a thought_signature'),
      { messages: loop({}) },
    ],
    [
      'a schema',
      body =>
        'parameters' in (body['tools'] as { function: JsonObject }[])[0]!.function
          ? "Invalid schema for function 'list': unsupported keyword"
          : undefined,
      { tools },
    ],
  ])('that refuses %s gets the request without it, this time and from then on', async (_what, refuse, request) => {
    const ask = await own({ check: ({ body }) => refuse(body as unknown as JsonObject) })
    expect(await ask(request)).toMatchObject({ text: 'ok', reason: 'stop' })
    expect(server.requests).toHaveLength(2)
    expect((await ask(request)).text).toBe('ok')
    expect(server.requests).toHaveLength(3)
  })

  it('that refuses for another reason is asked once', async () => {
    const ask = await own({ check: () => 'The temperature of the room is too high' })
    expect((await ask({ temperature: 1 })).failure?.code).toBe('INVALID_REQUEST')
    expect(server.requests).toHaveLength(1)
  })

  it('takes over the quirks of one that it is like, and what else is set', async () => {
    const ask = await own({}, { like: 'deepseek', streamUsage: false })
    await ask({ effort: 'none', messages: loop({}) })
    const body = server.requests[0]!.body as unknown as JsonObject
    expect(body).toMatchObject({ thinking: { type: 'disabled' } })
    expect(said(body)['reasoning_content']).toBe('')
    expect(body).not.toHaveProperty('stream_options')
  })

  it('is spoken to as somebody has set it, whatever is known of the model', async () => {
    const ask = await own({}, { like: 'openai', effort: 'reasoning', maxTokensKey: 'max_tokens' })
    await ask({ model: 'gpt-4.1', effort: 'low', maxTokens: 5 })
    expect(server.requests[0]!.body).toMatchObject({ reasoning: { effort: 'low' }, max_tokens: 5 })
  })

  it('cannot be like one that there is not', async () => {
    expect(() => openai.Config({ providers: { mine: { baseURL: 'http://x', like: 'deepsek' } } } as never)).toThrow()
  })

  it("serves OpenAI's reasoning models as they are", async () => {
    const ask = await own({})
    await ask({ model: 'openai/gpt-5-mini', maxTokens: 5, temperature: 1 })
    expect(server.requests[0]!.body).toMatchObject({ max_completion_tokens: 5 })
    expect(server.requests[0]!.body).not.toHaveProperty('temperature')
  })
})

describe('what an answer cost', () => {
  const usage = async (route: string, counts: object) => {
    const chunk = { choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop' }], usage: counts }
    const ask = await speaking({ replies: [{ raw: `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n` }] })
    return (await ask(route)).got.usage
  }

  it.each([
    [
      'deepseek/m',
      { prompt_tokens: 10, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 6, completion_tokens: 1 },
    ],
    ['moonshot/m', { prompt_tokens: 10, cached_tokens: 4, completion_tokens: 1 }],
    ['mistral/m', { prompt_tokens: 10, num_cached_tokens: 4, completion_tokens: 1 }],
    ['openai/m', { prompt_tokens: 10, prompt_tokens_details: { cached_tokens: 4 }, completion_tokens: 1 }],
  ])('is counted as %s counts it', async (route, counts) => {
    expect(await usage(route, counts)).toMatchObject({ inputTokens: 6, cacheReadTokens: 4, outputTokens: 1 })
  })

  it('is what OpenRouter says that it charges', async () => {
    const counts = { prompt_tokens: 10, completion_tokens: 1, cost: 0.0123 }
    expect((await usage('openrouter/a/b', counts))?.cost).toBe(0.0123)
    expect(await usage('openai/m', counts)).not.toHaveProperty('cost')
  })
})

describe('the end of an answer', () => {
  it.each([
    ['model_context_window_exceeded', 'max-tokens', undefined],
    ['sensitive', 'refusal', undefined],
    ['PROHIBITED_CONTENT', 'refusal', undefined],
    ['function_call_filter: MALFORMED_FUNCTION_CALL', 'error', 'SERVER'],
    ['network_error', 'error', 'SERVER'],
    ['error', 'error', 'SERVER'],
  ])('by %s is %s', async (finish, reason, code) => {
    const ask = await speaking({ replies: [{ text: 'x', finish }] })
    const { got } = await ask('openai/m')
    expect([got.reason, got.failure?.code]).toEqual([reason, code])
  })

  it('may be an error inside a choice', async () => {
    const chunk = { choices: [{ index: 0, delta: {}, error: { code: 502, message: 'upstream is down' } }] }
    const ask = await speaking({ replies: [{ raw: `data: ${JSON.stringify(chunk)}\n\n` }] })
    expect((await ask('openrouter/a/b')).got.failure).toMatchObject({ code: 'SERVER', status: 502 })
  })
})

it('what a model does not take is said once', async () => {
  clearEnvironment()
  server = await startModelServer({ otherwise: 'ok' })
  vi.stubEnv('XAI_BASE_URL', server.url)
  const logs: LogRecord[] = []
  const root = await tree(logs)
  await root.plugin(openai, {} as openai.Config)
  for (const _ of [1, 2]) await answer(root, { provider: 'xai', model: 'grok-4', effort: 'high', stop: ['x'] })
  expect(logs.filter(({ level }) => level === 'warn').map(({ text }) => text)).toEqual([
    expect.stringContaining('xai/grok-4 takes no effort: "high" is left out'),
    expect.stringContaining('xai/grok-4 takes no stop sequences: they are left out'),
  ])
})
