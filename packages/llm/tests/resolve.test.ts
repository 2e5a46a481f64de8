import type { Context } from '@cambium/core'
import { LlmAdapter, type ModelInfo, type StreamChunk } from '@cambium/llm'
import * as anthropic from '@cambium/llm/anthropic'
import * as openai from '@cambium/llm/openai'
import * as scripted from '@cambium/llm/scripted'
import { type ModelServer, startModelServer } from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { answer, clearEnvironment, tree } from './llm.ts'

const servers: ModelServer[] = []
afterEach(async () => void (await Promise.all(servers.splice(0).map(server => server.close()))))
async function serve(models: readonly string[]): Promise<ModelServer> {
  const server = await startModelServer({ models, otherwise: 'ok' })
  servers.push(server)
  return server
}

beforeEach(() => {
  clearEnvironment()
  // Whatever runs on the usual ports of this machine is not meant.
  vi.stubEnv('OLLAMA_HOST', '127.0.0.1:1')
  vi.stubEnv('LMSTUDIO_BASE_URL', 'http://127.0.0.1:1')
})

async function mounted(config: Partial<openai.Config> = {}): Promise<Context> {
  const root = await tree()
  await root.plugin(anthropic, {} as anthropic.Config)
  await root.plugin(openai, config as openai.Config)
  return root
}

class Plain extends LlmAdapter {
  private readonly list: readonly ModelInfo[]
  constructor(...ids: string[]) {
    super()
    this.list = ids.map(id => ({ id }))
  }
  override models = () => this.list
  async *stream(): AsyncGenerator<StreamChunk> {}
}

describe('what a person says', () => {
  it('names provider and model; the model may hold slashes and need not be listed', async () => {
    const { llm } = await mounted()
    const route = async (selection: string) => (await llm.resolve(selection)).route
    expect(await route('openai/gpt-99')).toEqual({ provider: 'openai', model: 'gpt-99' })
    expect(await route('openrouter/meta/llama-3:free')).toEqual({ provider: 'openrouter', model: 'meta/llama-3:free' })
  })

  it('names a provider alone: its first model, without asking it', async () => {
    const { llm } = await mounted()
    expect(await llm.resolve('deepseek')).toEqual({ route: { provider: 'deepseek', model: 'deepseek-flash' } })
    expect((await llm.resolve('deepseek/')).route.model).toBe('deepseek-flash')
  })

  it('names a provider at another address: what that one has', async () => {
    const server = await serve(['text-embedding-1', 'local-model'])
    const { llm } = await mounted({ providers: { mine: { baseURL: server.url } } })
    expect((await llm.resolve('mine')).route).toEqual({ provider: 'mine', model: 'local-model' })
    vi.stubEnv('OPENAI_BASE_URL', (await serve(['gpt-5-mini', 'gpt-5'])).url)
    expect((await llm.resolve('openai')).route.model).toBe('gpt-5')
  })

  it('names a model alone: the provider that has it, one with a key before the others', async () => {
    const { llm } = await mounted({
      providers: {
        first: { baseURL: 'https://a.invalid', models: ['shared'] },
        second: { baseURL: 'https://b.invalid', models: ['shared'], apiKey: 'k' },
      },
    })
    expect(await llm.resolve('shared')).toEqual({
      route: { provider: 'second', model: 'shared' },
      notice: 'shared is used through second',
    })
    expect((await llm.resolve('claude-sonnet-4-5')).route.provider).toBe('anthropic')
  })

  it.each([
    ['opnai/gpt-5', 'no provider is called "opnai"', /did you mean openai\/gpt-5\? known providers: anthropic, openai/],
    ['antropic', 'no provider is called "antropic"', /did you mean anthropic\?/],
    ['gtp-5', 'no provider is called "gtp-5"', /did you mean openai\/gpt-5\?/],
    [
      'zzzzzzzzzz',
      'no provider is called "zzzzzzzzzz", nor a model that is known without asking',
      /^write <provider>\/<model>; known providers: anthropic, openai/,
    ],
  ])('is %s, which is near to something else', async (selection, problem, fix) => {
    const { llm } = await mounted()
    await expect(llm.resolve(selection)).rejects.toMatchObject({
      code: 'LLM_UNKNOWN_ROUTE',
      problem,
      fix: expect.stringMatching(fix),
    })
  })

  it('is a provider that has no model of its own', async () => {
    const root = await tree()
    root.llm.registerAdapter('empty', new Plain())
    await expect(root.llm.resolve('empty')).rejects.toMatchObject({
      code: 'LLM_UNKNOWN_ROUTE',
      fix: 'say which one: empty/<model>',
    })
  })
})

describe('auto', () => {
  it('takes the first provider whose key is there: configured ones, then those of the table', async () => {
    vi.stubEnv('DEEPSEEK_API_KEY', 'k')
    vi.stubEnv('GROQ_API_KEY', 'k')
    expect(await (await mounted()).llm.resolve('auto')).toEqual({
      route: { provider: 'deepseek', model: 'deepseek-flash' },
    })
    const own = await mounted({ providers: { mine: { baseURL: 'https://a.invalid', apiKey: 'k', models: ['m'] } } })
    expect((await own.llm.resolve('auto')).route.provider).toBe('mine')
  })

  it('takes an address on this machine that somebody gave, without a key', async () => {
    vi.stubEnv('OPENAI_BASE_URL', (await serve(['qwen'])).url)
    expect((await (await mounted()).llm.resolve('auto')).route).toEqual({ provider: 'openai', model: 'qwen' })
  })

  it('then takes a local server that answers, and says so', async () => {
    const server = await serve(['llama'])
    vi.stubEnv('OLLAMA_HOST', server.url.replace('http://', '').replace('/v1', ''))
    const root = await mounted()
    expect(await root.llm.resolve('auto')).toEqual({
      route: { provider: 'ollama', model: 'llama' },
      notice: 'no key is set, so ollama/llama on this machine is used',
    })
    expect((await answer(root, { provider: 'ollama', model: 'llama' })).text).toBe('ok')
  })

  it('then takes the demo model, and says how to get a real one', async () => {
    const root = await mounted()
    await root.plugin(scripted, {} as scripted.Config)
    expect(await root.llm.resolve('')).toEqual({
      route: { provider: 'scripted', model: 'demo' },
      notice: 'no key is set, so the scripted demo model answers; for a real one set ANTHROPIC_API_KEY',
    })
  })

  it('then says what is missing', async () => {
    await expect((await mounted()).llm.resolve('auto')).rejects.toMatchObject({
      code: 'LLM_MISSING_CREDENTIAL',
      problem: 'no model can be used: no key is set and no local model server answers',
      fix: 'set ANTHROPIC_API_KEY (or the key of another provider), start Ollama or LM Studio, or name a model with provider/model',
    })
  })

  it('never asks servers on ports that many others use', async () => {
    const server = await serve(['m'])
    for (const name of ['VLLM', 'LLAMA_CPP']) vi.stubEnv(`${name}_BASE_URL`, server.url)
    const { llm } = await mounted()
    await expect(llm.resolve('auto')).rejects.toThrow(/LLM_MISSING_CREDENTIAL/)
    expect(server.others).toEqual([])
    expect(await llm.resolve('llama.cpp')).toEqual({ route: { provider: 'llama.cpp', model: 'm' } })
  })

  it('does not wait long for a local server that hangs', async () => {
    const server = await startModelServer({})
    servers.push(server)
    const root = await tree()
    class Hanging extends Plain {
      override readonly kind = 'local'
      override discover(signal: AbortSignal): Promise<never> {
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      }
    }
    root.llm.registerAdapter('hung', new Hanging('m'))
    const asked = performance.now()
    await expect(root.llm.resolve('auto')).rejects.toThrow(/LLM_MISSING_CREDENTIAL/)
    expect(performance.now() - asked).toBeLessThan(1_000)
  })
})

describe('the built-in providers', () => {
  it('are all there without a key, and say what they need', async () => {
    const root = await mounted()
    const names = root.llm.list().map(({ provider }) => provider)
    expect(names).toEqual([
      'anthropic',
      'openai',
      'deepseek',
      'gemini',
      'openrouter',
      'groq',
      'mistral',
      'xai',
      'together',
      'fireworks',
      'moonshot',
      'zai',
      'cerebras',
      'nvidia',
      'ollama',
      'lmstudio',
      'vllm',
      'llama.cpp',
    ])
    expect(
      root.llm
        .list()
        .filter(({ ready }) => ready)
        .map(({ provider }) => provider),
    ).toEqual(['ollama', 'lmstudio', 'vllm', 'llama.cpp'])
    for (const [provider, fix] of [
      ['groq', 'set GROQ_API_KEY'],
      ['gemini', 'set GEMINI_API_KEY or GOOGLE_API_KEY'],
    ] as const) {
      expect((await answer(root, { provider })).failure).toMatchObject({ code: 'MISSING_CREDENTIAL', fix })
    }
  })

  it('take key and address from the environment, in the forms that people write', async () => {
    const server = await serve(['m'])
    const root = await mounted()
    vi.stubEnv('OPENAI_API_KEY', 'x')
    for (const base of [
      server.url,
      `${server.url}/`,
      `${server.url}/chat/completions`,
      server.url.replace('http://', ''),
    ]) {
      vi.stubEnv('OPENAI_BASE_URL', base)
      expect((await answer(root, { provider: 'openai', model: 'm' })).text).toBe('ok')
    }
    vi.stubEnv('ANTHROPIC_API_KEY', 'y')
    vi.stubEnv('ANTHROPIC_BASE_URL', server.url.replace('/v1', ''))
    expect((await answer(root, { provider: 'anthropic', model: 'm' })).text).toBe('ok')
    expect(server.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ...Array.from({ length: 4 }, () => ['/v1/chat/completions', 'Bearer x']),
      ['/v1/messages', undefined],
    ])
    expect(server.requests[4]?.headers['x-api-key']).toBe('y')
  })

  it('can be changed by the configuration, or left to others', async () => {
    const server = await serve(['m'])
    const root = await mounted({
      exclude: ['xai'],
      providers: {
        groq: {
          baseURL: server.url,
          headers: { 'X-Team': 'a' },
          models: [{ id: 'm', contextWindow: 9, price: { input: 1, output: 2 } }, { id: 'n' }],
        },
      },
    })
    expect(root.llm.list().map(({ provider }) => provider)).not.toContain('xai')
    expect(root.llm.modelInfo({ provider: 'groq', model: 'm' })).toEqual({
      id: 'm',
      contextWindow: 9,
      price: { input: 1, output: 2 },
    })
    expect(root.llm.modelInfo({ provider: 'groq', model: 'n' })).toEqual({ id: 'n' })
    expect((await answer(root, { provider: 'groq', model: 'm' })).text).toBe('ok')
    expect(server.requests[0]?.headers['x-team']).toBe('a')
  })

  it('write the request each in its own dialect', async () => {
    const server = await serve(['m'])
    const root = await mounted()
    const body = async (provider: string, more: object) => {
      vi.stubEnv(`${provider.toUpperCase()}_BASE_URL`, server.url)
      await answer(root, { provider, model: 'm', ...more })
      return server.requests.at(-1)!.body
    }
    const settings = {
      maxTokens: 99,
      effort: 'low',
      temperature: 0.5,
      stop: ['END'],
      sessionId: 's1',
      providerOptions: { seed: 7 },
    }
    expect(await body('openai', settings)).toMatchObject({
      max_completion_tokens: 99,
      reasoning_effort: 'low',
      temperature: 0.5,
      stop: ['END'],
      prompt_cache_key: 's1',
      seed: 7,
      stream_options: { include_usage: true },
    })
    const router = await body('openrouter', settings)
    expect(router).toMatchObject({ max_tokens: 99, reasoning: { effort: 'low' } })
    expect(router).not.toHaveProperty('prompt_cache_key')
    expect(await body('mistral', settings)).not.toHaveProperty('stream_options')
  })
})
