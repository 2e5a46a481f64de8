import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Context } from '@cambium/core'
import { LlmAdapter, type StreamChunk } from '@cambium/llm'
import * as openai from '@cambium/llm/openai'
import * as credentials from '@cambium/store/credentials'
import { type ModelServer, startModelServer } from '@cambium/testkit'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { adapted, answer, clearEnvironment, tree } from './llm.ts'

const CANARY = 'sk-canary-4f9a81c2d7e05b36'

let home: string
let server: ModelServer | undefined
const plain: Server[] = []
beforeEach(() => {
  home = join(mkdtempSync(join(tmpdir(), 'cambium-llm-keys-')), 'home')
  mkdirSync(home, { mode: 0o700 })
})
afterEach(async () => {
  rmSync(join(home, '..'), { recursive: true })
  await server?.close()
  server = undefined
  for (const one of plain.splice(0)) one.close()
})

/** A provider `test` with stored credentials beside it. */
async function stored(baseURL: string, settings: Partial<openai.ProviderConfig> = {}): Promise<Context> {
  clearEnvironment()
  const root = await tree()
  await root.plugin(credentials, { home })
  await root.plugin(openai, { providers: { test: { baseURL, ...settings } } } as unknown as openai.Config)
  return root
}

async function respond(listener: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const one = createServer(listener)
  plain.push(one)
  await new Promise<void>(resolve => one.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(one.address() as AddressInfo).port}/v1`
}

describe('a stored key', () => {
  it('is used from the next request on, until it is removed', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: CANARY })
    const root = await stored(server.url)
    expect((await answer(root)).failure).toMatchObject({
      code: 'AUTH',
      fix: 'put a valid key into TEST_API_KEY, or store it with: cambium auth set test',
    })
    await root.credentials.set('TEST_API_KEY', CANARY)
    expect((await answer(root)).text).toBe('ok')
    await root.credentials.remove('TEST_API_KEY')
    expect((await answer(root)).failure?.code).toBe('AUTH')
  })

  it('that is refused is told as the stored one, one of the environment as that', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: 'another-one-77aa' })
    const root = await stored(server.url)
    await root.credentials.set('TEST_API_KEY', CANARY)
    expect((await answer(root)).failure?.fix).toBe('store a valid key with: cambium auth set test')
    vi.stubEnv('TEST_API_KEY', 'of-the-environment-1')
    expect((await answer(root)).failure?.fix).toBe('put a valid key into TEST_API_KEY')
    vi.stubEnv('TEST_API_KEY', 'another-one-77aa')
    expect((await answer(root)).text).toBe('ok')
  })

  it.each(['"sk-0123456789"', "'sk-0123456789'", 'sk-01234 56789', 'Bearer sk-0123456789', 'sk-0123…'])(
    'that was pasted with more than itself, as %s, is told without being sent',
    async key => {
      server = await startModelServer({ otherwise: 'ok' })
      const root = await stored(server.url)
      vi.stubEnv('TEST_API_KEY', key)
      expect((await answer(root)).failure).toMatchObject({
        code: 'AUTH',
        message: 'the key of test holds blanks, quotes or other characters that no key has',
        fix: 'put a valid key into TEST_API_KEY',
      })
      expect(server.requests).toEqual([])
    },
  )

  it('makes a provider ready, and the way to one is said where there is none', async () => {
    const root = await stored('https://models.invalid/v1')
    const [test] = root.llm.list()
    expect(test).toMatchObject({ provider: 'test', ready: false })
    expect((await answer(root)).failure).toMatchObject({
      code: 'MISSING_CREDENTIAL',
      fix: 'set TEST_API_KEY, or store it with: cambium auth set test',
    })
    await expect(root.llm.resolve('auto')).rejects.toMatchObject({
      code: 'LLM_MISSING_CREDENTIAL',
      fix: expect.stringMatching(/^set TEST_API_KEY, or store it with: cambium auth set test \(or the key/),
    })
    await root.credentials.set('TEST_API_KEY', CANARY)
    expect(root.llm.list()[0]).toMatchObject({ ready: true })
  })

  it('is found again after the credentials are reloaded, and the environment counts while they are gone', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: CANARY })
    clearEnvironment()
    const root = await tree()
    const first = await root.plugin(credentials, { home })
    await root.plugin(openai, { providers: { test: { baseURL: server.url } } } as unknown as openai.Config)
    await root.credentials.set('TEST_API_KEY', CANARY)
    expect((await answer(root)).text).toBe('ok')
    await first.dispose()
    expect((await answer(root)).failure?.code).toBe('AUTH')
    vi.stubEnv('TEST_API_KEY', CANARY)
    expect((await answer(root)).text).toBe('ok')
    vi.stubEnv('TEST_API_KEY', '')
    await root.plugin(credentials, { home })
    expect((await answer(root)).text).toBe('ok')
  })
})

describe('a login', () => {
  const io = { say: () => {}, ask: async () => '', signal: new AbortController().signal }
  const way = (over: Partial<credentials.AuthProvider> = {}): credentials.AuthProvider => ({
    id: 'test',
    login: async () => ({ data: { token: 'stale-token-0f13' } }),
    refresh: async () => ({ data: { token: CANARY } }),
    headers: ({ data }) => ({ authorization: `Bearer ${data['token']}` }),
    ...over,
  })

  it('lets in where there is no key, and is renewed once when it is refused', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: CANARY })
    const root = await stored(server.url)
    root.auth.register(way())
    await root.auth.login('test', io)
    expect((await answer(root)).text).toBe('ok')
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer stale-token-0f13',
      `Bearer ${CANARY}`,
    ])
    await root.credentials.set('TEST_API_KEY', 'a-key-goes-first-1')
    expect((await answer(root)).failure?.code).toBe('AUTH')
  })

  it.each([
    ['AUTH', new Error('invalid_grant'), 'log in again with: cambium auth login test'],
    ['TRANSPORT', Object.assign(new Error('no'), { code: 'ECONNREFUSED' }), 'check the network, and try again'],
  ])('that cannot be renewed is a failure %s', async (code, thrown, fix) => {
    server = await startModelServer({ otherwise: 'ok', apiKey: CANARY })
    const root = await stored(server.url)
    root.auth.register(way({ refresh: () => Promise.reject(thrown) }))
    await root.auth.login('test', io)
    expect((await answer(root)).failure).toMatchObject({ code, fix })
  })

  it('that is offered is what somebody without a key is told of', async () => {
    const root = await stored('https://models.invalid/v1')
    const leave = root.auth.register(way())
    const fix = async () => (await answer(root)).failure?.fix
    expect(await fix()).toBe('set TEST_API_KEY, or log in with: cambium auth login test')
    leave()
    expect(await fix()).toBe('set TEST_API_KEY, or store it with: cambium auth set test')
  })

  it('that is refused although it is new says how to get another one', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: 'something-else-1' })
    const root = await stored(server.url)
    root.auth.register(way())
    await root.auth.login('test', io)
    const { failure } = await answer(root)
    expect(failure).toMatchObject({ code: 'AUTH', fix: 'log in again with: cambium auth login test' })
    expect(server.requests).toHaveLength(2)
  })
})

describe('no failure tells a key', () => {
  const echoes: [string, (key: string, response: ServerResponse) => void][] = [
    ['a refusal', (key, response) => response.writeHead(401).end(JSON.stringify({ error: { message: `no ${key}` } }))],
    ['plain text', (key, response) => response.writeHead(500).end(`authorization: Bearer ${key}`)],
    ['a title', (key, response) => response.writeHead(502).end(`<html><title>${key}</title></html>`)],
    ['another shape', (key, response) => response.writeHead(400).end(JSON.stringify({ error: { detail: [key] } }))],
    ['a header', (key, response) => response.writeHead(400, { 'x-request-id': `id-${key}` }).end('{}')],
    ['an address', (key, response) => response.writeHead(404).end(`?key=${encodeURIComponent(key)}`)],
    ['a page', (key, response) => response.writeHead(200).end(`<p>${'x'.repeat(190)}${key}`)],
    [
      'an event',
      (key, response) =>
        response
          .writeHead(200, { 'content-type': 'text/event-stream' })
          .end(`data: {"error":{"message":"${key}"}}\n\n`),
    ],
    [
      'a broken event, where it is cut',
      (key, response) =>
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${'x'.repeat(190)}${key}\n\n`),
    ],
  ]
  const places: [string, (root: Context) => Promise<unknown> | unknown, Partial<openai.ProviderConfig>][] = [
    ['the environment', () => vi.stubEnv('TEST_API_KEY', CANARY), {}],
    ['the file', root => root.credentials.set('TEST_API_KEY', CANARY), {}],
    ['the configuration', () => {}, { apiKey: CANARY }],
    ['a configured header', () => {}, { headers: { 'X-Auth': `Token ${CANARY}` } }],
  ]
  for (const [how, echo] of echoes) {
    it.each(places)(`when ${how} repeats the one of %s`, async (_, place, settings) => {
      const url = await respond((request, response) => {
        const { authorization, 'x-auth': own } = request.headers
        echo(String(authorization ?? own).replace(/^\w+ /, ''), response)
      })
      const root = await stored(url, settings)
      await place(root)
      const { failure } = await answer(root)
      expect(failure).toBeDefined()
      const text = JSON.stringify(failure)
      expect(text).not.toContain(CANARY)
      expect(text).not.toContain(CANARY.slice(0, 8))
    })
  }

  it('that stands in the address', async () => {
    const url = await respond((_, response) => response.writeHead(404).end('{}'))
    const root = await stored(`${url.replace('//', `//user:${CANARY}@`)}/x?key=${CANARY}`)
    const { failure } = await answer(root)
    expect(failure?.code).toBe('INVALID_REQUEST')
    expect(JSON.stringify(failure)).not.toContain(CANARY)
  })

  it('whatever an adapter of somebody else throws or says', async () => {
    class Telling extends LlmAdapter {
      thrown = true
      async *stream(): AsyncGenerator<StreamChunk> {
        if (this.thrown) throw new Error(`401 for ${CANARY}`)
        yield { type: 'finish', reason: 'error', failure: { code: 'AUTH', message: CANARY, requestId: CANARY } }
      }
    }
    const adapter = new Telling()
    const root = await adapted(adapter)
    await root.plugin(credentials, { home })
    vi.stubEnv('TEST_API_KEY', CANARY)
    expect((await answer(root)).failure).toEqual({ code: 'UNKNOWN', message: '401 for [redacted]' })
    adapter.thrown = false
    expect((await answer(root)).failure).toEqual({ code: 'AUTH', message: '[redacted]', requestId: '[redacted]' })
  })

  it('and an answer that happens to hold it is the model’s own', async () => {
    server = await startModelServer({ replies: [`<${CANARY}>`] })
    const root = await stored(server.url, { apiKey: CANARY })
    expect((await answer(root)).text).toBe(`<${CANARY}>`)
  })
})
