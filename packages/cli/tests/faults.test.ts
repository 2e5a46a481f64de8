import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { type ReplyScript, startModelServer } from '@cambium/testkit'
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { Sink } from './streams.ts'

let bench: Bench
afterEach(() => bench?.close())

/** Retries follow at once; how long they wait is the retry plugin's own affair. */
const FAST = ['--set', 'retry.initialMs=1', '--set', 'retry.maxDelayMs=1']

describe('a fault of the model server has a documented outcome', () => {
  test.each<[string, ReplyScript[], { stdout: string; stderr: RegExp; requests: number }]>([
    [
      'a rate limit is waited out',
      [{ fault: '429', retryAfter: 0.01 }, 'ok'],
      { stdout: 'ok\n', stderr: /limits the rate.*, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'an error of the server is tried again',
      [{ fault: '500' }, 'ok'],
      { stdout: 'ok\n', stderr: /is in trouble \(500\).*, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'a connection that is reset is tried again',
      [{ text: 'some words of an answer', fault: 'reset' }, 'ok'],
      { stdout: 'ok\n', stderr: /reset.*, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'an answer that breaks off is tried again',
      [{ text: 'some words of an answer', fault: 'truncate' }, 'ok'],
      { stdout: 'ok\n', stderr: /, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'a chunk that is no JSON is tried again',
      [{ text: 'some words of an answer', fault: 'malformed' }, 'ok'],
      { stdout: 'ok\n', stderr: /, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'an empty completion is tried again',
      [{ fault: 'empty' }, 'ok'],
      { stdout: 'ok\n', stderr: /, trying again \(2\/\d\)\n$/, requests: 2 },
    ],
    [
      'slow chunks are waited for',
      [{ text: 'slow but sure', delayMs: 20, pieceChars: 4 }],
      { stdout: 'slow but sure\n', stderr: /^$/, requests: 1 },
    ],
    [
      'arguments that are no JSON are told to the model',
      [{ toolCalls: [{ name: 'bash', arguments: { command: 'true' } }], fault: 'invalid-arguments' }, 'ok'],
      { stdout: 'ok\n', stderr: /^$/, requests: 2 },
    ],
    [
      'calls with the same id all run',
      [
        {
          fault: 'duplicate-ids',
          toolCalls: [
            { name: 'bash', arguments: { command: 'echo one' } },
            { name: 'bash', arguments: { command: 'echo two' } },
          ],
        },
        'ok',
      ],
      { stdout: 'ok\n', stderr: /^$/, requests: 2 },
    ],
  ])('%s', async (_, replies, expected) => {
    bench = await openBench({ replies })
    const { code, stdout, stderr } = await bench.run([...FAST, 'go'])
    expect(stderr).toMatch(expected.stderr)
    expect({ code, stdout }).toEqual({ code: 0, stdout: expected.stdout })
    expect(bench.server.requests).toHaveLength(expected.requests)
    bench.server.expectDone()
  })

  test.each<[string, ReplyScript, RegExp, number | undefined]>([
    ['a wrong key is not tried again', { fault: '401' }, /refused the key/, 1],
    ['an unknown model is not tried again', { fault: 'unknown-model' }, /has no model "test-model"/, 1],
    ['a conversation that is too long', { fault: 'overflow' }, /too long/, undefined],
    ['answers that stay empty', { fault: 'empty' }, /./, undefined],
    ['answers that break off again and again', { text: 'some words', fault: 'truncate' }, /./, undefined],
    ['a server that stays in trouble', { fault: '503' }, /in trouble/, undefined],
  ])('%s: a message with exit code 1, and nothing on standard output', async (_, reply, message, requests) => {
    bench = await openBench({ otherwise: reply })
    const { code, stdout, stderr } = await bench.run([...FAST, 'go'])
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    const line = stderr.split('\n').find(text => text.startsWith('cambium: '))
    expect(line).toMatch(message)
    expect(stderr).toMatch(/\n {2}\S/)
    expect(stderr).not.toMatch(/\n\s+at /)
    if (requests) expect(bench.server.requests).toHaveLength(requests)
    else expect(bench.server.requests.length).toBeLessThanOrEqual(10)
  })

  test('a stalled answer is given up and tried again', async () => {
    bench = await openBench({ replies: [{ text: 'some words', fault: 'stall' }, 'ok'] })
    const { code, stdout, stderr } = await bench.run([...FAST, '--set', 'openai.idleMs=100', 'go'])
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'ok\n' })
    expect(stderr).toMatch(/, trying again \(2\/\d\)\n$/)
  })
})

test('a refused connection is said within a second, with the address and the count', async () => {
  bench = await openBench()
  const port = await freePort()
  vi.stubEnv('OPENAI_BASE_URL', `http://127.0.0.1:${port}/v1`)
  const startedAt = Date.now()
  const { host, finished } = bench.start(['go'])
  await host.stderr.contains(/trying again/)
  expect(Date.now() - startedAt).toBeLessThan(2_000)
  expect(host.stderr.text).toMatch(
    new RegExp(`^connection refused at 127\\.0\\.0\\.1:${port}, trying again \\(2/\\d\\)\\n`),
  )
  host.signal('SIGINT')
  expect((await finished).code).toBe(130)
})

describe('a wait that the provider asks for', () => {
  test('is counted down on a terminal, and Ctrl-C answers at once', async () => {
    bench = await openBench({ otherwise: { fault: '429', retryAfter: 20 } })
    const { host, finished } = bench.start(['go'], { stderr: new Sink(true) })
    await host.stderr.contains(/limits the rate.*, trying again in 2\d s \(2\/5\)\n/)
    await host.stderr.contains(/trying again in 2\d s \(2\/5\) .*· \d/)
    const asked = performance.now()
    host.signal('SIGINT')
    expect((await finished).code).toBe(130)
    expect(performance.now() - asked).toBeLessThan(1_000)
    expect(bench.server.requests).toHaveLength(1)
  })

  test('is said and not slept when it is a day', async () => {
    bench = await openBench({ otherwise: { fault: '429', retryAfter: 86_400 } })
    const { code, stderr } = await bench.run(['go'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/^cambium: openai limits the rate.*asks to wait 24 h/)
    expect(bench.server.requests).toHaveLength(1)
  })
})

const events = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as { type: string; data: Record<string, never> })

test('with jsonl, each attempt is an event, and an answer that broke off is there once', async () => {
  bench = await openBench({ replies: [{ text: 'a b c d e f g h', fault: 'error-chunk', after: 5 }, 'a b c d'] })
  const { code, stdout } = await bench.run([...FAST, '-o', 'jsonl', 'go'])
  expect(code).toBe(0)
  const seen = events(stdout)
  const route = { provider: 'openai', model: 'test-model' }
  expect(seen.filter(({ type }) => type.startsWith('request/'))).toMatchObject([
    { type: 'request/header' },
    { type: 'request/failed', data: { attempt: 1 } },
    { type: 'request/retry', data: { turn: 1, step: 1, attempt: 2, maxAttempts: 5, route, next: route } },
  ])
  expect(seen.filter(({ type }) => type === 'assistant/message')).toHaveLength(1)
  expect(seen.at(-1)).toMatchObject({ type: 'headless/result', data: { answer: 'a b c d' } })
})

test('another route takes the place of one that is over quota, in one line', async () => {
  bench = await openBench({ otherwise: { fault: '402' } })
  const spare = await startModelServer({ replies: ['from the spare one'] })
  onTestFinished(() => spare.close())
  bench.home.write(
    'cordis.patch.yml',
    `- { id: openai, config: { providers: { spare: { baseURL: ${spare.url} } } } }
- { id: retry, config: { fallback: [spare/other-model] } }
`,
  )
  const { code, stdout, stderr } = await bench.run(['go'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'from the spare one\n' })
  expect(stderr).toMatch(/quota.*, going on with spare\/other-model; openai\/test-model is left alone for 5 min 0 s\n$/)
  expect(stderr.trim().split('\n')).toHaveLength(1)
})

test('a fallback whose provider is not known is a mistake in the tree', async () => {
  bench = await openBench()
  bench.home.write('cordis.patch.yml', '- { id: retry, config: { fallback: [opnai/gpt-5] } }\n')
  const { code, stderr } = await bench.run(['go'])
  expect(code).not.toBe(0)
  expect(stderr).toMatch(/fallback\[0\]: no provider is called "opnai"[\s\S]*did you mean openai\/gpt-5\?/)
})

test('with json, a failure is in the object and on standard error', async () => {
  bench = await openBench({ otherwise: { fault: '401' } })
  const { code, report, stderr } = await bench.run(['-o', 'json', 'go'])
  expect(code).toBe(1)
  expect(report).toMatchObject({ answer: '', stopReason: 'failed', exitCode: 1, error: { code: 'AUTH' } })
  expect(report.session).toBeTruthy()
  expect(stderr).toMatch(/^cambium: openai refused the key .*\n {2}put a valid key into OPENAI_API_KEY\n/)
})

test('a missing key names the variable, without a request', async () => {
  bench = await openBench()
  vi.stubEnv('OPENAI_API_KEY', undefined)
  vi.stubEnv('OPENAI_BASE_URL', undefined)
  const { code, stderr } = await bench.run(['--model', 'openai/gpt-5', 'go'])
  expect(code).toBe(1)
  expect(stderr).toMatch(/OPENAI_API_KEY/)
  expect(bench.server.requests).toHaveLength(0)
})

test('an unknown provider is a usage error that names the nearest', async () => {
  bench = await openBench()
  const { code, stderr } = await bench.run(['--model', 'opnai/gpt-5', 'go'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/no provider is called "opnai"\n {2}did you mean openai\/gpt-5\?/)
})

test('a home that cannot be written is said once, before any request', async () => {
  bench = await openBench()
  vi.stubEnv('CAMBIUM_HOME', bench.home.write('home', 'a file'))
  const { code, stdout, stderr } = await bench.run(['go'])
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(
    /^cambium: cannot look for sessions: a part of the path is a file \(.*\)\n {2}move .*CAMBIUM_HOME.*\n$/,
  )
  expect(bench.server.requests).toHaveLength(0)
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
