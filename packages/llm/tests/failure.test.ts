import { createServer } from 'node:http'
import { type AddressInfo, createServer as createMute, type Socket } from 'node:net'
import type { LlmFailureCode } from '@cambium/llm'
import { type ModelServer, OVERFLOW_WORDINGS, type Reply, startModelServer } from '@cambium/testkit'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { answer, connected } from './llm.ts'

let server: ModelServer | undefined
afterEach(() => server?.close())

async function failure(reply: Reply, settings = {}) {
  server = await startModelServer({ replies: [reply] })
  const root = await connected(server.url, { models: ['known-a', 'known-b'], ...settings })
  const got = await answer(root)
  expect(got.reason).toBe('error')
  await server.close()
  return got.failure!
}

describe('an answer that refuses', () => {
  const cases: [string, Reply, LlmFailureCode, RegExp][] = [
    ['400', { fault: '400' }, 'INVALID_REQUEST', /test refused the request \(400\): The request was not understood/],
    ['401', { fault: '401' }, 'AUTH', /test refused the key \(401\)/],
    ['402', { fault: '402' }, 'QUOTA', /quota is used up \(402\): Insufficient balance/],
    ['403', { fault: '403' }, 'AUTH', /may not use the model/],
    ['404 for the model', { fault: 'unknown-model' }, 'UNKNOWN_MODEL', /test has no model "test-model" \(404\)/],
    ['400 for the model', { fault: 'unknown-model', status: 400 }, 'UNKNOWN_MODEL', /no model/],
    [
      '404 for the path',
      { fault: '404', message: 'Not Found', type: 'x' },
      'INVALID_REQUEST',
      /nothing at http.*completions \(404\)/,
    ],
    ['408', { fault: '408' }, 'TIMEOUT', /in trouble/],
    ['422', { fault: '422', message: 'bad field' }, 'INVALID_REQUEST', /bad field/],
    ['429', { fault: '429' }, 'RATE_LIMIT', /limits the rate \(429\)/],
    ['429 for the quota', { fault: '429', code: 'insufficient_quota' }, 'QUOTA', /quota/],
    [
      '429 for the quota, in words',
      { fault: '429', code: null, message: 'You exceeded your current quota, check your plan and billing.' },
      'QUOTA',
      /billing/,
    ],
    [
      '429 for a quota a minute',
      { fault: '429', code: null, message: 'Quota exceeded for tokens per minute' },
      'RATE_LIMIT',
      /per minute/,
    ],
    [
      '429 for too many tokens',
      { fault: '429', code: null, message: 'Too many tokens, please wait before trying again.' },
      'RATE_LIMIT',
      /please wait/,
    ],
    [
      '429 without a code',
      { fault: '429', code: null, type: 'error', message: 'Slow down' },
      'RATE_LIMIT',
      /Slow down/,
    ],
    ['500', { fault: '500' }, 'SERVER', /test is in trouble \(500\)/],
    ['501', { fault: '501', message: 'no streaming here' }, 'INVALID_REQUEST', /no streaming/],
    ['503', { fault: '503' }, 'SERVER', /overloaded/],
    ['529', { fault: '529' }, 'SERVER', /Overloaded/],
    [
      'a bad key in words',
      { fault: '400', message: 'API key not valid. Please pass a valid API key.' },
      'AUTH',
      /not valid/,
    ],
    [
      'an output limit',
      { fault: '400', message: 'max_tokens is too large: 99999. This model supports at most 16384 completion tokens.' },
      'INVALID_REQUEST',
      /max_tokens/,
    ],
    [
      'a parameter',
      { fault: '400', message: "Unsupported parameter: 'temperature' is not supported with this model." },
      'INVALID_REQUEST',
      /temperature/,
    ],
  ]
  it.each(cases)('with %s', async (_what, reply, code, message) => {
    const found = await failure(reply)
    expect(found.code).toBe(code)
    expect(found.message).toMatch(message)
  })

  it.each(Object.keys(OVERFLOW_WORDINGS) as (keyof typeof OVERFLOW_WORDINGS)[])(
    'since the conversation is too long, in the words %s',
    async wording => {
      expect((await failure({ fault: 'overflow', wording })).code).toBe('CONTEXT_WINDOW_EXCEEDED')
    },
  )

  it.each([
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    'Input is too long for requested model.',
    'Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
    'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length',
    'Your input exceeds the context window of this model. Please adjust your input and try again.',
  ])('since the conversation is too long: %s', async message => {
    expect((await failure({ fault: '400', message })).code).toBe('CONTEXT_WINDOW_EXCEEDED')
  })

  it('is judged by its code rather than by its wording', async () => {
    const worded = { message: 'prompt is too long', type: 'error' }
    expect((await failure({ fault: '400', ...worded, code: 'rate_limit_exceeded' })).code).toBe('RATE_LIMIT')
    expect((await failure({ fault: '400', message: 'wait', code: 'context_length_exceeded' })).code).toBe(
      'CONTEXT_WINDOW_EXCEEDED',
    )
  })

  it('names what to do: the variable of the key, models that exist, the address', async () => {
    const settings = { apiKeyEnv: 'SOME_KEY' }
    expect((await failure({ fault: '401' }, settings)).fix).toBe('put a valid key into SOME_KEY')
    expect((await failure({ fault: 'unknown-model' })).fix).toBe('use one of its models, such as known-a, known-b')
    expect((await failure({ fault: 'unknown-model' }, { models: ['test-model', 'other'] })).fix).toBe(
      'use one of its models, such as other',
    )
    expect((await failure({ fault: '404', message: 'Not Found', type: 'x' })).fix).toMatch(/address.*most end in \/v1/)
  })

  it('does not advise models of the usual address to those who have another', async () => {
    server = await startModelServer({ replies: [{ fault: 'unknown-model' }] })
    const root = await connected(server.url)
    vi.stubEnv('OPENAI_BASE_URL', server.url)
    const { failure } = await answer(root, { provider: 'openai', model: 'gpt-5' })
    expect(failure?.fix).toBe('check the name of the model; cambium models openai lists what there is')
  })

  it('gives its wish to wait: in seconds, in milliseconds, as a date', async () => {
    const soon = await failure({ fault: '429', retryAfter: 2 })
    expect(soon.retryAfterMs).toBe(2000)
    expect(soon.message).toMatch(/asks to wait 2 s$/)
    expect((await failure({ fault: '429', headers: { 'retry-after-ms': '1500' } })).retryAfterMs).toBe(1500)
    const dated = (await failure({ fault: '503', retryAfter: new Date(Date.now() + 60_000) })).retryAfterMs!
    expect(dated).toBeGreaterThan(50_000)
    expect(dated).toBeLessThanOrEqual(60_000)
    expect((await failure({ fault: '429', retryAfter: 86_400 })).message).toMatch(/asks to wait 24 hours$/)
    expect((await failure({ fault: '429', retryAfter: 'nonsense' })).retryAfterMs).toBeUndefined()
  })

  it('never shows the key, and keeps a page or a novel short', async () => {
    const apiKey = 'sk-verysecret'
    expect((await failure({ fault: '401', message: `Incorrect key ${apiKey} given` }, { apiKey })).message).toMatch(
      /Incorrect key \*\*\* given/,
    )
    const page = await failure({ status: 502, raw: `<html><title>502 Bad Gateway</title>${'x'.repeat(9000)}</html>` })
    expect(page).toMatchObject({ code: 'SERVER', message: 'test is in trouble (502): 502 Bad Gateway' })
    expect((await failure({ fault: '400', message: 'long '.repeat(5000) })).message.length).toBeLessThan(600)
  })

  it('gives the id of the request', async () => {
    expect((await failure({ fault: '500', headers: { 'x-request-id': 'req_7' } })).requestId).toBe('req_7')
  })
})

describe('a server that cannot be reached', () => {
  const at = async (url: string, config = {}) =>
    (await answer(await connected(url, { apiKey: 'k-abcdef' }, config))).failure!

  it('refuses the connection', async () => {
    const gone = createServer()
    await new Promise<void>(resolve => gone.listen(0, '127.0.0.1', resolve))
    const { port } = gone.address() as AddressInfo
    await new Promise(resolve => gone.close(resolve))
    const found = await at(`http://127.0.0.1:${port}/v1`)
    expect(found).toMatchObject({ code: 'TRANSPORT', message: `connection refused at 127.0.0.1:${port}` })
    expect(found.fix).toMatch(/start the server/)
    expect((await at(`http://localhost:${port}/v1`)).message).toBe(`connection refused at localhost:${port}`)
  })

  it('has a name that leads nowhere', async () => {
    const found = await at('https://no-such-host.invalid/v1')
    expect(found.code).toBe('TRANSPORT')
    expect(found.message).toMatch(/no-such-host\.invalid.* cannot be (found|looked up)/)
  })

  it('does not speak TLS', async () => {
    server = await startModelServer()
    const found = await at(server.url.replace('http:', 'https:'))
    expect(found.code).toBe('TRANSPORT')
    expect(found.message).toMatch(/no trusted TLS connection to 127\.0\.0\.1/)
    expect(found.fix).toMatch(/http:\/\//)
  })

  it('does not take the connection in time', async () => {
    // A handshake that is never answered: without TLS the kernel itself would take the connection.
    const sockets: Socket[] = []
    const mute = createMute(socket => void sockets.push(socket))
    await new Promise<void>(resolve => mute.listen(0, '127.0.0.1', resolve))
    const { port } = mute.address() as AddressInfo
    const found = await at(`https://127.0.0.1:${port}/v1`, { connectMs: 50 })
    expect(found).toMatchObject({ code: 'TRANSPORT', message: `no connection to 127.0.0.1:${port} in time` })
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => mute.close(resolve))
  })

  it('has no address at all', async () => {
    await expect(at('not an address')).rejects.toThrow(
      /LLM_ADDRESS_INVALID: .*test cannot be used: "not an address" is no web address/,
    )
    await expect(at('file:///etc/passwd')).rejects.toThrow('"file:///etc/passwd" is no web address')
    await expect(at('')).rejects.toThrow(/it has no address(.|\n)*give providers\.test\.baseURL/)
    const root = await connected('https://models.invalid')
    vi.stubEnv('OPENAI_API_KEY', 'k-abcdef')
    for (const address of ['http://', 'http://a b']) {
      vi.stubEnv('OPENAI_BASE_URL', address)
      expect((await answer(root, { provider: 'openai' })).failure).toMatchObject({
        code: 'INVALID_REQUEST',
        message: `"${address}" is no web address`,
        fix: 'correct the base address in OPENAI_BASE_URL',
      })
    }
  })
})

describe('a credential', () => {
  it('that is missing is named, and nothing is sent', async () => {
    const root = await connected('https://models.invalid/v1', { apiKeyEnv: 'SOME_KEY' })
    expect((await answer(root)).failure).toMatchObject({
      code: 'MISSING_CREDENTIAL',
      message: 'no key for test is set',
      fix: 'set SOME_KEY',
    })
  })

  it('is read with each request', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: 'second' })
    const root = await connected(server.url, { apiKeyEnv: 'SOME_KEY' })
    vi.stubEnv('SOME_KEY', 'first')
    expect((await answer(root)).failure?.code).toBe('AUTH')
    vi.stubEnv('SOME_KEY', ' second\n')
    expect((await answer(root)).text).toBe('ok')
  })

  it('is not needed on this machine', async () => {
    server = await startModelServer({ replies: ['ok'] })
    expect((await answer(await connected(server.url))).text).toBe('ok')
    expect(server.requests[0]?.headers.authorization).toBeUndefined()
  })

  it('with characters that no header can hold is refused in words', async () => {
    const root = await connected('https://models.invalid/v1', { apiKey: 'kéy with blanks' })
    expect((await answer(root)).failure).toMatchObject({ code: 'AUTH', fix: 'correct its apiKey' })
  })
})

describe('a proxy', () => {
  it('from the environment is used, except for this machine', async () => {
    server = await startModelServer({ otherwise: 'ok', strict: false })
    const seen: string[] = []
    const proxy = createServer((request, response) => {
      seen.push(`${request.url} ${request.headers['proxy-authorization'] ?? ''}`)
      response.writeHead(502).end('no')
    })
    proxy.on('connect', (request, socket) => {
      seen.push(`CONNECT ${request.url}`)
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n')
    })
    await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
    const url = `http://user:p%40ss@127.0.0.1:${(proxy.address() as AddressInfo).port}`
    for (const name of ['no_proxy', 'NO_PROXY']) vi.stubEnv(name, '')
    vi.stubEnv('http_proxy', url)
    vi.stubEnv('https_proxy', url)
    const via = async (base: string) => {
      const root = await connected(base, { apiKey: 'k-abcdef' })
      for (const name of ['http_proxy', 'https_proxy']) vi.stubEnv(name, url)
      return answer(root)
    }
    expect((await via('http://models.invalid/v1')).failure?.code).toBe('SERVER')
    expect((await via('https://models.invalid/v1')).failure?.status).toBe(502)
    expect((await via(server.url)).text).toBe('ok')
    expect(seen).toEqual([
      `http://models.invalid/v1/chat/completions Basic ${Buffer.from('user:p@ss').toString('base64')}`,
      'CONNECT models.invalid:443',
    ])
    vi.stubEnv('no_proxy', 'models.invalid')
    await via('http://models.invalid/v1')
    expect(seen).toHaveLength(2)
    await new Promise(resolve => proxy.close(resolve))
  })
})
