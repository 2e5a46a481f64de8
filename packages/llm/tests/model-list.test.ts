/** What servers say of their models, and what is known of a model in the end. */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Context } from '@cambium/core'
import type { LlmError, ModelInfo } from '@cambium/llm'
import * as anthropic from '@cambium/llm/anthropic'
import * as openai from '@cambium/llm/openai'
import { startModelServer } from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { answer, clearEnvironment, tree } from './llm.ts'

type Page = { status?: number; type?: string; body: unknown; after?: Promise<unknown> }
let server: Server
let asked: string[]
let keys: (string | undefined)[]
afterEach(() => server?.close())
beforeEach(() => {
  clearEnvironment()
  asked = []
  keys = []
})

/** The address of a server with these pages; any other is a 404. */
async function serve(pages: Readonly<Record<string, Page>>): Promise<string> {
  server = createServer(async (request, response) => {
    asked.push(request.url!)
    keys.push(request.headers.authorization ?? (request.headers['x-api-key'] as string | undefined))
    const { status = 200, type = 'application/json', body, after } = pages[request.url!] ?? { status: 404, body: {} }
    await after
    response.writeHead(status, { 'content-type': type }).end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function mounted(config: Partial<openai.Config> = {}): Promise<Context> {
  const root = await tree()
  await root.plugin(openai, config as openai.Config)
  return root
}

const NOW = () => AbortSignal.timeout(5_000)

/** What a provider of that name is found to have, when its list is this. */
async function listed(list: unknown, provider = 'mine', pages: Readonly<Record<string, Page>> = {}) {
  const address = await serve({ '/v1/models': { body: list }, ...pages })
  vi.stubEnv('OLLAMA_HOST', address)
  vi.stubEnv('LMSTUDIO_BASE_URL', address)
  const own = provider === 'mine' ? { mine: { baseURL: `${address}/v1` } } : {}
  const root = await mounted({ providers: own } as Partial<openai.Config>)
  return root.llm.discover(provider, NOW())
}

describe('the list of', () => {
  it.each<[string, unknown, ModelInfo[]]>([
    ['OpenAI: ids alone', { object: 'list', data: [{ id: 'a', object: 'model', created: 1 }] }, [{ id: 'a' }]],
    [
      'OpenRouter: prices as text for a token, and what the best provider can',
      {
        data: [
          {
            id: 'v/a',
            name: 'V: A',
            context_length: 200_000,
            architecture: { input_modalities: ['text', 'image'], output_modalities: ['text'] },
            pricing: { prompt: '0.000003', completion: '0.000015', input_cache_read: '0.0000003', request: '0' },
            top_provider: { context_length: 131_072, max_completion_tokens: 64_000 },
          },
          {
            id: 'v/free:free',
            architecture: { input_modalities: ['text'], output_modalities: ['text'] },
            pricing: { prompt: '0', completion: '0' },
            top_provider: { context_length: null, max_completion_tokens: null },
          },
          { id: 'v/router', pricing: { prompt: '-1', completion: '-1' }, context_length: 2_000_000 },
          { id: 'v/paints', architecture: { output_modalities: ['image'] } },
        ],
      },
      [
        {
          id: 'v/a',
          name: 'V: A',
          contextWindow: 131_072,
          maxOutputTokens: 64_000,
          input: ['text', 'image'],
          price: { input: 3, output: 15, cacheRead: 0.3 },
        },
        { id: 'v/free:free', input: ['text'], price: { input: 0, output: 0 } },
        { id: 'v/router', contextWindow: 2_000_000 },
      ],
    ],
    [
      'Groq',
      {
        data: [
          { id: 'a', active: true, context_window: 131_072, max_completion_tokens: 32_768 },
          { id: 'gone', active: false, context_window: 8_192 },
          { id: 'whisper-large-v3', active: true, context_window: 448 },
        ],
      },
      [{ id: 'a', contextWindow: 131_072, maxOutputTokens: 32_768 }],
    ],
    [
      'Mistral',
      {
        data: [
          { id: 'a', max_context_length: 262_144, capabilities: { completion_chat: true, vision: true } },
          { id: 'mistral-embed', max_context_length: 8_192, capabilities: { completion_chat: false, vision: false } },
        ],
      },
      [{ id: 'a', contextWindow: 262_144, input: ['text', 'image'] }],
    ],
    [
      'Together: a bare list, prices as numbers for a million',
      [
        { id: 'o/a', type: 'chat', display_name: 'A', context_length: 131_072, pricing: { input: 0.88, output: 0.88 } },
        { id: 'o/mine', type: 'chat', context_length: 4_096, pricing: { input: 0, output: 0 } },
        { id: 'o/e', type: 'embedding' },
        { id: 'o/r', type: 'rerank' },
      ],
      [
        { id: 'o/a', name: 'A', contextWindow: 131_072, price: { input: 0.88, output: 0.88 } },
        { id: 'o/mine', contextWindow: 4_096 },
      ],
    ],
    [
      'Fireworks',
      {
        data: [
          { id: 'accounts/x/models/a', context_length: 163_840, supports_chat: true, supports_image_input: false },
          { id: 'accounts/x/models/flux', supports_chat: false, kind: 'FLUMINA_BASE_MODEL' },
        ],
      },
      [{ id: 'accounts/x/models/a', contextWindow: 163_840, input: ['text'] }],
    ],
    ['vLLM', { data: [{ id: 'q', max_model_len: 40_960 }] }, [{ id: 'q', contextWindow: 40_960 }]],
    ['Gemini', { data: [{ id: 'models/g-1' }, { id: 'models/g-2-flash-image' }] }, [{ id: 'g-1' }]],
    ['a server without models', { data: null }, []],
    [
      'one that names each twice',
      { data: [{ id: 'a' }, { id: 'a' }, { id: '' }, null, 'b'] },
      [{ id: 'a' }, { id: 'b' }],
    ],
  ])('%s', async (_whose, list, models) => {
    expect(await listed(list)).toEqual(models)
  })

  it.each([
    'text-embedding-3-small',
    'nomic-embed-text',
    'bge-m3',
    'tts-1-hd',
    'gpt-4o-mini-tts',
    'whisper-1',
    'gpt-4o-transcribe',
    'gpt-realtime',
    'gpt-4o-audio-preview',
    'dall-e-3',
    'gpt-image-1',
    'gemini-2.5-flash-image',
    'imagen-4.0-generate-001',
    'veo-3.0-generate-001',
    'sora-2',
    'omni-moderation-latest',
    'llama-guard-4-12b',
    'mistral-ocr-latest',
    'babbage-002',
  ])('ids alone leaves %s out', async id => {
    expect(await listed({ data: [{ id }, { id: 'chat' }] })).toEqual([{ id: 'chat' }])
  })

  it.each(['gpt-5', 'imagine-7b', 'reimagined', 'devstral-small', 'sorani-chat', 'qwen3-vl-8b'])(
    'ids alone keeps %s',
    async id => {
      expect(await listed({ data: [{ id }] })).toMatchObject([{ id }])
    },
  )

  it('LM Studio says beside what is loaded, and how much it holds', async () => {
    const v0 = {
      data: [
        { id: 'a', type: 'llm', state: 'not-loaded', max_context_length: 32_768 },
        { id: 'b', type: 'vlm', state: 'loaded', max_context_length: 131_072, loaded_context_length: 8_192 },
        { id: 'c', type: 'embeddings', state: 'loaded', max_context_length: 2_048 },
      ],
    }
    const pages = { '/api/v0/models': { body: v0 } }
    expect(await listed({ data: [{ id: 'a' }, { id: 'b' }, { id: 'c' }] }, 'lmstudio', pages)).toEqual([
      { id: 'b', contextWindow: 8_192, input: ['text', 'image'] },
      { id: 'a', contextWindow: 32_768, input: ['text'] },
    ])
  })

  it('Ollama says beside what runs, and with what window', async () => {
    const ps = { models: [{ name: 'b:1', model: 'b:1', context_length: 4_096, expires_at: '2030-01-01T00:00:00Z' }] }
    const list = { data: [{ id: 'a:1' }, { id: 'b:1' }, { id: 'gpt-oss:20b' }] }
    expect(await listed(list, 'ollama', { '/api/ps': { body: ps } })).toEqual([
      { id: 'b:1', contextWindow: 4_096 },
      { id: 'a:1' },
      // The table's window is that of the model, not of this server.
      { id: 'gpt-oss:20b', input: ['text'], efforts: ['low', 'medium', 'high'] },
    ])
  })

  it('a server that has only the usual list is no failure', async () => {
    expect(await listed({ data: [{ id: 'a' }] }, 'lmstudio')).toEqual([{ id: 'a' }])
    expect(asked.sort()).toEqual(['/api/v0/models', '/v1/models'])
  })

  it('Anthropic comes in pages, with names', async () => {
    const page = (id: string, more: object) => ({
      body: { data: [{ type: 'model', id, display_name: id.toUpperCase() }], ...more },
    })
    const pages: Record<string, Page> = {}
    const address = await serve(pages)
    vi.stubEnv('ANTHROPIC_API_KEY', 'k')
    vi.stubEnv('ANTHROPIC_BASE_URL', address)
    const root = await tree()
    await root.plugin(anthropic, {} as anthropic.Config)
    const first = page('m-1', { has_more: true, last_id: 'm-1' })
    const last = page('m-2', { has_more: false, last_id: 'm-2' })
    server.removeAllListeners('request')
    server.on('request', (request, response) => {
      asked.push(request.url!)
      keys.push(request.headers['x-api-key'] as string)
      response.end(JSON.stringify((request.url!.includes('after_id=m-1') ? last : first).body))
    })
    expect(await root.llm.discover('anthropic', NOW())).toEqual([
      { id: 'm-1', name: 'M-1' },
      { id: 'm-2', name: 'M-2' },
    ])
    expect([asked.length, ...keys]).toEqual([2, 'k', 'k'])
  })
})

describe('a list that fails', () => {
  const failing = async (page: Page, more: Partial<openai.ProviderConfig> = {}) => {
    const address = await serve({ '/v1/models': page })
    const root = await mounted({
      providers: { mine: { baseURL: `${address}/v1`, apiKey: 'secret-key-1', ...more } },
    } as Partial<openai.Config>)
    return (root.llm.discover('mine', NOW()) as Promise<unknown>).then(
      () => undefined,
      (error: LlmError) => error.failure,
    )
  }

  it('because the key is wrong says so, without the key', async () => {
    const body = { error: { message: 'Incorrect API key provided: secret-key-1', code: 'invalid_api_key' } }
    const failure = await failing({ status: 401, body })
    expect(failure).toMatchObject({ code: 'AUTH', status: 401, message: expect.stringContaining('refused the key') })
    expect(JSON.stringify(failure)).not.toContain('secret-key')
    expect(failure?.fix).toBeTruthy()
    expect(keys).toEqual(['Bearer secret-key-1'])
  })

  it.each<[string, Page, object]>([
    [
      'there is nothing',
      { status: 404, body: 'Not found', type: 'text/plain' },
      { message: expect.stringMatching(/has nothing at .*\/v1\/models/), fix: expect.stringMatching(/base address/) },
    ],
    [
      'it is a web page',
      { body: '<!doctype html><title>Welcome</title>', type: 'text/html' },
      { code: 'MALFORMED_RESPONSE', fix: expect.stringMatching(/base address.*\/v1/) },
    ],
    ['it is something else', { body: { status: 'ok' } }, { code: 'MALFORMED_RESPONSE' }],
    ['the server is in trouble', { status: 503, body: {} }, { code: 'SERVER' }],
    ['of a limit', { status: 429, body: { error: { message: 'slow down' } } }, { code: 'RATE_LIMIT' }],
  ])('because %s is a coded failure with what to do', async (_why, page, failure) => {
    expect(await failing(page)).toMatchObject(failure)
  })

  it('because nobody listens, or nobody answers in time', async () => {
    const root = await mounted({ providers: { mine: { baseURL: 'http://127.0.0.1:1/v1' } } } as Partial<openai.Config>)
    await expect(root.llm.discover('mine', NOW())).rejects.toMatchObject({
      failure: { code: 'TRANSPORT', message: 'connection refused at 127.0.0.1:1' },
    })
    let answered = () => {}
    const after = new Promise<void>(resolve => {
      answered = resolve
    })
    const address = await serve({ '/v1/models': { body: {}, after } })
    const slow = await mounted({ providers: { mine: { baseURL: `${address}/v1` } } } as Partial<openai.Config>)
    await expect(slow.llm.discover('mine', AbortSignal.timeout(50))).rejects.toMatchObject({
      failure: { code: 'TIMEOUT', message: 'mine gave no answer in time' },
    })
    answered()
  })

  it('because there is no key asks nobody', async () => {
    const root = await mounted()
    await expect(root.llm.discover('groq', NOW())).rejects.toMatchObject({
      failure: { code: 'MISSING_CREDENTIAL', fix: expect.stringContaining('GROQ_API_KEY') },
    })
    await expect(root.llm.discover('nobody', NOW())).rejects.toMatchObject({ failure: { code: 'NO_ADAPTER' } })
  })

  it('leaves what was known, and a provider named alone says why', async () => {
    const root = await mounted({ providers: { mine: { baseURL: 'http://127.0.0.1:1/v1' } } } as Partial<openai.Config>)
    await expect(root.llm.resolve('mine')).rejects.toMatchObject({
      code: 'LLM_UNKNOWN_ROUTE',
      problem: 'mine does not say which models it has: connection refused at 127.0.0.1:1',
      fix: expect.stringMatching(/^start the server .*, or say which one: mine\/<model>$/),
    })
    vi.stubEnv('OLLAMA_HOST', '127.0.0.1:1')
    await expect(root.llm.resolve('ollama')).rejects.toMatchObject({
      problem: expect.stringMatching(/^ollama does not/),
    })
    vi.stubEnv('OPENAI_API_KEY', 'k')
    vi.stubEnv('OPENAI_BASE_URL', 'http://127.0.0.1:1/v1')
    expect((await root.llm.resolve('openai')).route.model).toBe('gpt-5')
  })
})

describe('what is known of a model', () => {
  it('is what the configuration says, else what the server said, else the table', async () => {
    const list = { data: [{ id: 'gpt-5', context_length: 1_000, max_completion_tokens: 500 }, { id: 'other' }] }
    const address = await serve({ '/v1/models': { body: list } })
    const root = await mounted({
      providers: {
        mine: { baseURL: `${address}/v1`, models: [{ id: 'gpt-5', contextWindow: 9, price: { input: 1, output: 2 } }] },
        theirs: { baseURL: `${address}/v1` },
      },
    } as Partial<openai.Config>)
    const { llm } = root
    expect(llm.modelInfo({ provider: 'theirs', model: 'gpt-5' })).not.toHaveProperty('contextWindow')
    await llm.discover('mine', NOW())
    await llm.discover('theirs', NOW())
    expect(llm.modelInfo({ provider: 'mine', model: 'gpt-5' })).toMatchObject({
      contextWindow: 9,
      maxOutputTokens: 500,
      input: ['text', 'image'],
      price: { input: 1, output: 2 },
    })
    expect(llm.modelInfo({ provider: 'theirs', model: 'gpt-5' })).toMatchObject({ contextWindow: 1_000 })
    expect(
      llm
        .list()
        .find(({ provider }) => provider === 'mine')
        ?.models.map(({ id }) => id),
    ).toEqual(['gpt-5'])
    expect(llm.modelInfo({ provider: 'mine', model: 'other' })).toEqual({ id: 'other' })
  })

  it('has a price at the own address of its provider alone', async () => {
    const root = await mounted({
      providers: { mine: { baseURL: 'https://gateway.invalid/v1' } },
    } as Partial<openai.Config>)
    const price = (provider: string, model: string) => root.llm.modelInfo({ provider, model })?.price?.input
    expect(price('openai', 'gpt-5-2025-08-07')).toBe(1.25)
    expect(price('deepseek', 'deepseek-flash')).toBe(0.3)
    expect(price('mine', 'gpt-5')).toBeUndefined()
    expect(price('openrouter', 'openai/gpt-5')).toBeUndefined()
    vi.stubEnv('OPENAI_BASE_URL', 'https://gateway.invalid/v1')
    expect(price('openai', 'gpt-5')).toBeUndefined()
    const moved = await mounted({
      providers: { deepseek: { baseURL: 'https://gateway.invalid/v1' } },
    } as Partial<openai.Config>)
    expect(moved.llm.modelInfo({ provider: 'deepseek', model: 'deepseek-flash' })).not.toHaveProperty('price')
    expect(root.llm.modelInfo({ provider: 'openai', model: 'gpt-5' })?.contextWindow).toBe(400_000)
  })

  it('is nothing for one that nobody knows, and it works', async () => {
    const model = await startModelServer({ otherwise: 'ok' })
    const root = await mounted({ providers: { mine: { baseURL: model.url } } } as Partial<openai.Config>)
    expect(root.llm.modelInfo({ provider: 'mine', model: 'my-own' })).toBeUndefined()
    expect((await answer(root, { provider: 'mine', model: 'my-own' })).text).toBe('ok')
    await model.close()
  })

  it('says whether it reads pictures: one that does not is told of them, one of which nobody knows gets them', async () => {
    const model = await startModelServer({ otherwise: 'ok' })
    const root = await mounted({ providers: { mine: { baseURL: model.url } } } as Partial<openai.Config>)
    // A whole PNG of one pixel.
    const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    const picture = { type: 'image' as const, mediaType: 'image/png', data }
    const messages = [
      {
        id: 'm',
        role: 'user' as const,
        content: [{ type: 'text' as const, text: 'see' }, picture],
        source: { kind: 'user' as const },
      },
    ]
    for (const name of ['deepseek-chat', 'gpt-5', 'my-own'])
      await answer(root, { provider: 'mine', model: name, messages })
    expect(model.requests.map(({ text }) => text.includes('image_url'))).toEqual([false, true, true])
    await model.close()
  })
})
