/** `cambium models`, in this process, against model servers of this machine. */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { main } from '@cambium/cli'
import { createRoot } from '@cambium/core'
import * as credentials from '@cambium/store/credentials'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { Sink, type TestHostOptions, testHost } from './streams.ts'

let bench: Bench
const lists: Server[] = []
beforeEach(async () => {
  bench = await openBench({ models: ['gpt-5', 'test-model', 'text-embedding-1'] })
  // Whatever runs on the usual ports of this machine is not meant.
  for (const name of ['OLLAMA_HOST', 'LMSTUDIO_BASE_URL', 'VLLM_BASE_URL']) vi.stubEnv(name, 'http://127.0.0.1:1')
})
afterEach(async () => {
  await bench.close()
  for (const server of lists.splice(0)) server.close()
})

async function models(argv: readonly string[] = [], options: TestHostOptions = {}) {
  const host = testHost({ cwd: bench.folder.path, ...options })
  const code = await main(['models', ...argv], host)
  const { text: stdout } = host.stdout
  return { code, stdout, stderr: host.stderr.text, lines: stdout.split('\n') }
}

interface Shown {
  provider: string
  ready: boolean
  asked: boolean
  key: object
  fix?: string
  failure?: { code: string; message: string }
  models: { id: string; auto?: true }[]
}
async function json(...argv: string[]): Promise<{ auto: object | null; providers: Shown[] }> {
  return JSON.parse((await models(['--json', ...argv])).stdout)
}
const of = (shown: { providers: Shown[] }, provider: string) =>
  shown.providers.find(item => item.provider === provider)!

/** A server whose list is this; the address that OLLAMA_HOST and the like take. */
async function listing(body: unknown, status = 200): Promise<string> {
  const server = createServer((_, response) => void response.writeHead(status).end(JSON.stringify(body)))
  lists.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const user = (text: string) => bench.home.write('cordis.patch.yml', text)

describe('cambium models', () => {
  test('asks those that are ready, and says of the others what to set', async () => {
    const { code, stdout, stderr } = await models()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^openai +OPENAI_API_KEY from the environment · 2 models$/m)
    expect(stdout).toMatch(/^\* {2}gpt-5 +text, images$/m)
    expect(stdout).toMatch(/^ {3}test-model$/m)
    expect(stdout).not.toContain('text-embedding-1')
    expect(stdout).toMatch(/^groq +no key · set GROQ_API_KEY/m)
    expect(stdout).toMatch(/^ollama +needs no key · not running$/m)
    expect(stdout).toMatch(/^vllm +needs no key · asked only when it is named$/m)
    expect(stdout).toContain('* is what --model auto takes')
    expect(bench.server.others).toEqual(['GET /v1/models'])
  })

  test('shows no key, wherever it is', async () => {
    user(
      '- { id: openai, config: { providers: { mine: { baseURL: "http://127.0.0.1:1/v1", apiKey: s3cret-of-mine } } } }\n',
    )
    for (const argv of [[], ['--json']]) {
      const { stdout } = await models(argv)
      expect(stdout).not.toMatch(/test-key|s3cret/)
    }
    const shown = await json()
    expect(of(shown, 'openai').key).toEqual({ state: 'present', from: 'environment', name: 'OPENAI_API_KEY' })
    expect(of(shown, 'mine').key).toEqual({ state: 'present', from: 'configuration' })
    expect(of(shown, 'groq').key).toMatchObject({ state: 'missing', name: 'GROQ_API_KEY' })
    expect(of(shown, 'groq').fix).toMatch(/^set GROQ_API_KEY/)
    expect(of(shown, 'ollama').key).toEqual({ state: 'not needed' })
  })

  test('knows a stored key', async () => {
    const root = createRoot()
    await root.plugin(credentials, { home: bench.home.path })
    await root.credentials.set('GROQ_API_KEY', 'gsk-stored-0123456789')
    await root.fiber.dispose()
    const shown = await json('--offline')
    expect(of(shown, 'groq')).toMatchObject({
      ready: true,
      key: { state: 'present', from: 'file', name: 'GROQ_API_KEY' },
    })
    expect(JSON.stringify(shown)).not.toContain('gsk-stored')
    expect((await models(['--offline'])).stdout).toMatch(/^groq +GROQ_API_KEY from the stored keys$/m)
  })

  test('offline asks nobody, and knows what is shipped and configured', async () => {
    user(`- id: openai
  config:
    providers:
      mine: { baseURL: https://models.invalid/v1, apiKey: k, models: [{ id: big, contextWindow: 131072, maxOutputTokens: 8192, price: { input: 0.25, output: 0 } }] }
`)
    vi.stubEnv('DEEPSEEK_API_KEY', 'k')
    const { stdout, lines } = await models(['--offline'])
    expect(bench.server.others).toEqual([])
    expect(stdout).toMatch(/^\* {2}big +131k +8k +\$0\.25 +free$/m)
    expect(stdout).toMatch(/^ {3}deepseek-flash +1M +384k +\$0\.3 +\$1\.2 +text, images$/m)
    // One column under the other.
    const at = (pattern: RegExp) => lines.find(line => pattern.test(line))!.search(/\$/)
    expect(at(/big/) + '$0.25'.length).toBe(at(/deepseek-flash/) + '$0.3'.length)
    expect(await json('--offline')).toMatchObject({ auto: { provider: 'mine', model: 'big' } })
  })

  test('a provider and words leave what has them all', async () => {
    const one = await json('--offline', 'GROQ')
    expect(one.providers.map(({ provider }) => provider)).toEqual(['groq'])
    expect(one.providers[0]!.models.length).toBeGreaterThan(1)
    const ids = (shown: { providers: Shown[] }) =>
      shown.providers.flatMap(({ provider, models }) => models.map(({ id }) => `${provider}/${id}`))
    expect(ids(await json('--offline', 'groq', 'oss-20b'))).toEqual(['groq/openai/gpt-oss-20b'])
    expect(ids(await json('--offline', 'GPT-oss', 'groq', 'oss-20b'))).toEqual(['groq/openai/gpt-oss-20b'])
    const { stdout } = await models(['--offline', 'grok'])
    expect(stdout).toMatch(/^xai +no key/m)
    expect(stdout).toMatch(/^ {3}grok-4\.5 +500k/m)
  })

  test.each([
    [['gorq'], 'no provider or model is called "gorq"', 'did you mean cambium models groq?'],
    [['zzzzzzzzzzz'], 'no provider or model is called "zzzzzzzzzzz"', 'the providers are '],
  ])('%j is a mistake that says what there is', async (argv, problem, fix) => {
    const { code, stdout, stderr } = await models(['--offline', ...argv])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(problem)
    expect(stderr).toContain(fix)
  })

  test('an unknown flag is a mistake', async () => {
    expect(await models(['--jsno'])).toMatchObject({ code: 2, stderr: expect.stringContaining('did you mean --json?') })
  })

  test('one that does not answer is said in its row; where it was named, that is a failure', async () => {
    const refused = await listing({ error: { message: 'Incorrect API key', code: 'invalid_api_key' } }, 401)
    vi.stubEnv('GROQ_API_KEY', 'gsk-wrong-0123')
    vi.stubEnv('GROQ_BASE_URL', `${refused}/v1`)
    const all = await models()
    expect(all.code).toBe(0)
    expect(all.stdout).toMatch(
      /^groq +GROQ_API_KEY from the environment · groq refused the key \(401\).* · .*GROQ_API_KEY/m,
    )
    expect(all.stdout).toMatch(/^ {3}openai\/gpt-oss-120b/m)
    const named = await models(['groq', '--json'])
    expect(named.code).toBe(1)
    expect(of(JSON.parse(named.stdout), 'groq')).toMatchObject({ asked: true, failure: { code: 'AUTH', status: 401 } })
    expect((await models(['vllm'])).stdout).toMatch(
      /^vllm +needs no key · connection refused at 127\.0\.0\.1:1 · start/m,
    )
  })

  test('what a server says of its models is shown, what is long is cut', async () => {
    const data = Array.from({ length: 30 }, (_, at) => ({ id: `m-${at}`, context_length: 40_960 + at }))
    vi.stubEnv('OLLAMA_HOST', await listing({ data }))
    const { stdout } = await models()
    expect(stdout).toMatch(/^ollama +needs no key · 30 models$/m)
    expect(stdout).toMatch(/^ {3}m-0 +40k$/m)
    expect(stdout).toContain('… 18 more: cambium models ollama')
    expect(stdout).not.toContain('m-29')
    expect((await models(['ollama'])).stdout).toContain('m-29')
  })

  test('without any key it is the local server or the demo model that auto takes, with the reason', async () => {
    for (const name of ['OPENAI_API_KEY', 'OPENAI_BASE_URL']) vi.stubEnv(name, undefined)
    const demo = await models()
    expect(demo.stdout).toMatch(/^\* {2}demo /m)
    expect(demo.stdout).toContain('no key is set, so the scripted demo model answers')
    vi.stubEnv('OLLAMA_HOST', await listing({ data: [{ id: 'qwen3:8b' }] }))
    expect((await models()).stdout).toMatch(/^\* {2}qwen3:8b /m)
    expect((await json()).auto).toMatchObject({ provider: 'ollama', model: 'qwen3:8b' })
  })

  test('a terminal gets colours and lines that fit, and sees who is asked', async () => {
    const stdout = Object.assign(new Sink(true), { columns: 60 })
    const stderr = new Sink(true)
    await models([], { stdout, stderr, env: { TERM: 'xterm' } })
    expect(stdout.text).toContain('\x1b[')
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours
    const plain = stdout.text.replace(/\x1b\[\d+m/g, '').split('\n')
    expect(Math.max(...plain.map(line => line.length))).toBeLessThanOrEqual(60)
    expect(stderr.text).toContain('asking 3 providers for their models')
    expect(stderr.text.endsWith('\r\x1b[2K')).toBe(true)
    const without = new Sink(true)
    await models([], { stdout: without, env: { NO_COLOR: '1' } })
    expect(without.text).not.toContain('\x1b[')
  })

  test('what is wrong with a provider is told whole, however narrow the terminal', async () => {
    vi.stubEnv('OLLAMA_HOST', 'http://127.0.0.1:9')
    const told = async (argv: string[]) => {
      const stdout = Object.assign(new Sink(true), { columns: 40 })
      const stderr = new Sink(true)
      await models(argv, { stdout, stderr, env: { NO_COLOR: '1' } })
      return stdout.text + stderr.text
    }
    expect(await told(['ollama'])).toContain('connection refused at 127.0.0.1:9 · start the server')
    expect(await told(['ollama'])).toContain('asking 1 provider for')
    expect(await told(['groq'])).toContain('or store it with: cambium auth set groq')
    expect(await told(['--offline'])).not.toContain('cambium auth set groq')
    vi.stubEnv('OPENAI_API_KEY', 'k')
    vi.stubEnv('OPENAI_BASE_URL', 'http://127.0.0.1:9/v1')
    expect(await told([])).toContain('or correct OPENAI_BASE_URL')
  })

  test('what a server calls its models does not reach the terminal as it is', async () => {
    vi.stubEnv('OLLAMA_HOST', await listing({ data: [{ id: 'a\u001b[31m\u202eb' }] }))
    const { stdout } = await models(['ollama'])
    expect(stdout).toContain('a\\x1b[31m\\u{202e}b')
    expect(stdout).not.toContain('\u001b')
  })

  test('a layer that does not fit is told as a run tells it', async () => {
    user('- { id: lop, disabled: true }\n')
    expect(await models()).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('no row has the id "lop"'),
    })
  })

  test('its help fits a screen', async () => {
    const { code, stdout } = await models(['--help'])
    expect(code).toBe(0)
    expect(Math.max(...stdout.split('\n').map(line => line.length))).toBeLessThanOrEqual(110)
  })
})
