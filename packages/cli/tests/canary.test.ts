/** Wherever a key is kept, a run leaves it nowhere else: not in its output, its files, or what the model reads. */

import { chmodSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { main } from '@cambium/cli'
import { afterEach, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { testHost } from './streams.ts'

const STORED = 'sk-canary-4f9a81c2d7e05b36'
const ODD = 'odd-canary-77c0d1e2f3a4b5c6'
const WRITTEN = 'cfg-canary-0a1b2c3d4e5f6071'

let bench: Bench
afterEach(() => bench.close())

/** The text of every file below a folder, but of the one that is there to hold keys. */
function filesIn(folder: string): string {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter(name => !/credentials\.json$|cordis\.patch\.yml$/.test(name) && statSync(join(folder, name)).isFile())
    .map(name => readFileSync(join(folder, name), 'utf8'))
    .join('\n')
}

async function open(options: Parameters<typeof openBench>[0]) {
  bench = await openBench(options)
  vi.stubEnv('OPENAI_API_KEY', undefined)
  vi.stubEnv('ODD_NAME', ODD)
  bench.home.write('credentials.json', JSON.stringify({ version: 1, keys: { OPENAI_API_KEY: STORED } }))
  chmodSync(`${bench.home.path}/credentials.json`, 0o600)
  const providers = {
    odd: { baseURL: bench.server.url, apiKeyEnv: 'ODD_NAME' },
    mine: { baseURL: bench.server.url, apiKey: WRITTEN },
  }
  bench.home.write('cordis.patch.yml', JSON.stringify([{ id: 'openai', config: { providers } }]))
}

test.each(['text', 'json', 'jsonl'])('with --output %s, a model that looks for keys finds none', async output => {
  const paths = () => `${bench.home.path}/credentials.json ${bench.home.path}/cordis.patch.yml`
  const bash = (command: string) => ({ name: 'bash', arguments: { command } })
  await open({
    replies: [
      () => ({
        toolCalls: [
          bash(`cat ${paths()}; env; sleep 0.3; printenv ODD_NAME; exit 3`),
          { name: 'read', arguments: { file_path: `${bench.home.path}/credentials.json` } },
          { name: 'grep', arguments: { pattern: 'canary', path: bench.home.path, output: 'content' } },
        ],
      }),
      'I have found nothing.',
    ],
  })
  const done = await bench.run(['-o', output, '--model', 'odd/test-model', 'look for keys'])
  expect(done.code).toBe(0)
  expect(bench.server.requests[0]?.headers.authorization).toBe(`Bearer ${ODD}`)
  const results = bench.server.requests[1]!.body.messages.filter(({ role }) => role === 'tool')
  expect(results).toHaveLength(3)
  for (const { content } of results) expect(content).toContain('[redacted]')
  expect(results[0]?.content).not.toMatch(/^ODD_NAME=/m)
  const session = filesIn(join(bench.home.path, 'sessions'))
  expect(session).toContain('[redacted]')
  const all = [done.stdout, done.stderr, bench.server.requests[1]!.text, session, filesIn(bench.home.path)].join('\n')
  for (const key of [STORED, ODD, WRITTEN]) expect(all).not.toContain(key)
})

test.each([
  ['openai', STORED],
  ['odd', ODD],
  ['mine', WRITTEN],
])('a provider %s that repeats its key in a refusal gives it to nobody', async (provider, key) => {
  await open({ otherwise: { raw: JSON.stringify({ error: { message: `no key ${key}` } }), status: 401 } })
  const done = await bench.run(['-o', 'jsonl', '--model', `${provider}/test-model`, 'hello'])
  expect(done.code).toBe(1)
  expect(bench.server.requests[0]?.headers.authorization).toBe(`Bearer ${key}`)
  expect(done.stderr).toContain('refused the key')
  const session = filesIn(join(bench.home.path, 'sessions'))
  expect(session).toContain('request/failed')
  expect(done.stdout + done.stderr + session).not.toContain(key)
})

test('cambium config show has no key, written down or in a variable', async () => {
  await open({})
  for (const json of [[], ['--json']]) {
    const host = testHost({ cwd: bench.folder.path, env: { ODD_NAME: ODD } })
    expect(await main(['config', 'show', ...json], host)).toBe(0)
    expect(host.stdout.text).toContain('ODD_NAME')
    for (const key of [STORED, ODD, WRITTEN]) expect(host.stdout.text).not.toContain(key)
  }
})
