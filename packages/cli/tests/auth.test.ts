/** `cambium auth`, in this process. */

import { chmodSync, readFileSync, statSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { main } from '@cambium/cli'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Bench, openBench } from './run-command.ts'
import { Sink, type TestHostOptions, testHost } from './streams.ts'

const CANARY = 'sk-canary-4f9a81c2d7e05b36'

let bench: Bench
beforeEach(async () => {
  bench = await openBench({ otherwise: 'ok', apiKey: CANARY })
  vi.stubEnv('OPENAI_API_KEY', undefined)
})
afterEach(() => bench.close())

async function auth(argv: readonly string[], options: TestHostOptions = {}) {
  const host = testHost({ cwd: bench.folder.path, ...options })
  const code = await main(['auth', ...argv], host)
  const { text: stdout } = host.stdout
  const { text: stderr } = host.stderr
  return { code, stdout, stderr, all: stdout + stderr }
}

const file = () => `${bench.home.path}/credentials.json`
const write = (text: string) => {
  bench.home.write('credentials.json', text)
  chmodSync(file(), 0o600)
}
const keys = (): Record<string, string> => JSON.parse(readFileSync(file(), 'utf8')).keys
const list = async () => JSON.parse((await auth(['list', '--json'])).stdout)

/** A terminal's keyboard that tells what mode it is in. */
function keyboard() {
  const modes: boolean[] = []
  const keys = Object.assign(new PassThrough(), {
    isTTY: true,
    isRaw: false,
    setRawMode(raw: boolean) {
      keys.isRaw = raw
      modes.push(raw)
    },
  })
  return { keys, modes }
}

/** Types at the hidden prompt once it is there. */
async function type(what: string | readonly string[], argv = ['set', 'openai']) {
  const { keys: input, modes } = keyboard()
  const host = testHost({ cwd: bench.folder.path, stderr: new Sink(true) })
  Object.assign(host, { keyboard: input })
  const code = main(['auth', ...argv], host)
  await host.stderr.contains(/not shown/)
  expect(input.isRaw).toBe(true)
  for (const chunk of typeof what === 'string' ? [what] : what) input.write(chunk)
  return { code: await code, modes, all: host.stdout.text + host.stderr.text, stderr: host.stderr.text }
}

describe('cambium auth set', () => {
  test('stores what is piped in, for the owner only, and the next run uses it', async () => {
    const { code, stdout, all } = await auth(['set', 'openai'], { stdin: `${CANARY}\n` })
    expect(code).toBe(0)
    expect(stdout).toMatch(/^stored OPENAI_API_KEY for .*openai\n$/)
    expect(all).not.toContain(CANARY)
    expect(keys()).toEqual({ OPENAI_API_KEY: CANARY })
    expect(statSync(file()).mode & 0o777).toBe(0o600)
    const { code: done, stdout: answer, stderr } = await bench.run(['hello'])
    expect({ done, answer, stderr }).toEqual({ done: 0, answer: 'ok\n', stderr: '' })
    expect(bench.server.requests[0]?.headers.authorization).toBe(`Bearer ${CANARY}`)
  })

  test('takes the name of a variable as well, also one that nobody looks for', async () => {
    expect((await auth(['set', 'OPENAI_API_KEY'], { stdin: CANARY })).all).toMatch(/^stored OPENAI_API_KEY for /)
    const other = await auth(['set', 'SEARCH_API_KEY'], { stdin: CANARY })
    expect(other).toMatchObject({ code: 0, stdout: 'stored SEARCH_API_KEY\n' })
    expect(other.stderr).toBe('warning: no provider here looks for SEARCH_API_KEY\n')
    expect((await auth(['set', 'OPENAI'], { stdin: `${CANARY}2` })).code).toBe(0)
    expect(keys()).toEqual({ OPENAI_API_KEY: `${CANARY}2`, SEARCH_API_KEY: CANARY })
  })

  test.each([
    [['set', 'openai', CANARY], 'not taken from the command line'],
    [['set', `OPENAI_API_KEY=${CANARY}`], 'not taken from the command line'],
    [['set', CANARY], 'no provider, and no name of a key'],
    [['remove', CANARY], 'no provider, and no name of a key'],
    [['login', CANARY], 'no provider, and no name of a key'],
    [[CANARY], 'no such word'],
    [['set', 'opnai'], 'did you mean openai?'],
    [['set', 'scripted'], 'scripted asks for no key'],
    [['set'], 'auth set needs a name'],
    [['sett', 'openai'], 'did you mean cambium auth set?'],
    [['remove', 'openai', 'x'], 'takes one name'],
    [['list', 'openai'], 'takes no names'],
    [['set', 'openai', '--json'], '--json goes with auth list'],
    [[], 'it has set, list, remove, login, logout'],
  ])('%j is refused in words that repeat no key', async (argv, problem) => {
    const { code, stdout, stderr } = await auth(argv, { stdin: CANARY })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(problem)
    expect(stderr).not.toContain(CANARY)
    expect(() => keys()).toThrow('ENOENT')
  })

  test.each([
    [`export OPENAI_API_KEY=${CANARY}`, /begins like an assignment/],
    [`"${CANARY}"`, /stands in quotes/],
    [`${CANARY} ${CANARY}`, /holds blanks/],
    [`Bearer ${CANARY}`, /begins with Bearer/],
    ['abc', /is very short/],
    ['$OPENAI_API_KEY', /name of a variable/],
    [`${CANARY}…`, /characters that no key has/],
  ])('stores %j, and says what looks wrong', async (value, doubt) => {
    const { code, stderr } = await auth(['set', 'openai'], { stdin: ` ${value}\r\n` })
    expect(code).toBe(0)
    expect(stderr).toMatch(doubt)
    expect(stderr).not.toContain(CANARY)
    expect(keys()['OPENAI_API_KEY']).toBe(value)
  })

  test.each([
    ['', 'is empty'],
    [' \n', 'is empty'],
    [`${CANARY}\n${CANARY}`, 'several lines'],
    ['x'.repeat(100_000), 'too long'],
  ])('refuses %j', async (value, problem) => {
    const { code, stderr } = await auth(['set', 'openai'], { stdin: value })
    expect(code).toBeGreaterThan(0)
    expect(stderr).toContain(problem)
    expect(stderr).not.toContain(CANARY)
    expect(() => keys()).toThrow('ENOENT')
  })

  test('says that a variable counts before what it has stored', async () => {
    vi.stubEnv('OPENAI_API_KEY', 'of-the-environment-1')
    const { code, stderr } = await auth(['set', 'openai'], { stdin: CANARY })
    expect(code).toBe(0)
    expect(stderr).toBe(
      'warning: OPENAI_API_KEY is set in the environment too, and that one counts: unset it for the stored one\n',
    )
  })

  test('needs somebody to ask, or something piped in', async () => {
    const { code, stderr } = await auth(['set', 'openai'], { stdin: 'terminal' })
    expect(code).toBe(2)
    expect(stderr).toContain('pipe it in: cambium auth set OPENAI_API_KEY < file')
  })

  test('leaves a file that it cannot use as it is, before anybody has typed anything', async () => {
    write('{ "version": 1,\n "keys": {')
    const { code, stderr } = await auth(['set', 'openai'], { stdin: 'terminal' })
    expect(code).toBe(1)
    expect(stderr).toMatch(/it is no JSON \(.*credentials\.json:\d:\d+\)\n {2}correct the file by hand/)
    expect(readFileSync(file(), 'utf8')).toBe('{ "version": 1,\n "keys": {')
  })
})

describe('the hidden question', () => {
  test('shows nothing of the answer, and the terminal is as before', async () => {
    const { code, modes, all } = await type(`${CANARY}\r`)
    expect(code).toBe(0)
    expect(modes).toEqual([true, false])
    expect(all).not.toContain(CANARY.slice(0, 4))
    expect(keys()).toEqual({ OPENAI_API_KEY: CANARY })
  })

  test('takes keys as a line does: backspace, Ctrl-U, Ctrl-W, arrows, what is pasted, halves of a character', async () => {
    const [first, second] = [Buffer.from('é').subarray(0, 1), Buffer.from('é').subarray(1)]
    const { code } = await type([
      'wrong\x15',
      'xy\x7f\b',
      'word \x17',
      '\x1b[D\x1bOA\x1b',
      '[C',
      `\x1b[200~${CANARY}\x1b[201~`,
      first as never,
      second as never,
      '\x7f\x1ba\t\x1b\r',
      'and what comes behind the line',
    ])
    expect(code).toBe(0)
    expect(keys()).toEqual({ OPENAI_API_KEY: CANARY })
  })

  test.each([
    ['Ctrl-C', `${CANARY}\x03`],
    ['Ctrl-D', '\x04'],
  ])('ends with %s, stores nothing, and the terminal is as before', async (_, typed) => {
    const { code, modes, stderr } = await type(typed)
    expect(code).toBe(130)
    expect(modes).toEqual([true, false])
    expect(stderr).toContain('nothing was stored')
    expect(() => keys()).toThrow('ENOENT')
  })

  test.each(['SIGTERM', 'SIGHUP'] as const)('ends with %s, and the terminal is as before', async name => {
    const { keys: input, modes } = keyboard()
    const host = testHost({ cwd: bench.folder.path, stderr: new Sink(true) })
    Object.assign(host, { keyboard: input })
    const code = main(['auth', 'set', 'openai'], host)
    await host.stderr.contains(/not shown/)
    input.write(CANARY)
    host.signal(name)
    expect(await code).toBe(name === 'SIGTERM' ? 143 : 129)
    expect(modes).toEqual([true, false])
    expect(() => keys()).toThrow('ENOENT')
  })

  test('ends when the terminal goes away', async () => {
    const { keys: input, modes } = keyboard()
    const host = testHost({ cwd: bench.folder.path, stderr: new Sink(true) })
    Object.assign(host, { keyboard: input })
    const code = main(['auth', 'set', 'openai'], host)
    await host.stderr.contains(/not shown/)
    input.end()
    expect(await code).toBe(130)
    expect(modes).toEqual([true, false])
  })
})

describe('cambium auth list', () => {
  test('shows each provider with where its key is from, and what else is stored, and no key', async () => {
    vi.stubEnv('DEEPSEEK_API_KEY', 'ds-of-the-environment-1')
    for (const name of ['openai', 'deepseek', 'SEARCH_API_KEY']) await auth(['set', name], { stdin: CANARY })
    const { code, stdout, stderr } = await auth(['list'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^openai +OPENAI_API_KEY +file +…5b36$/m)
    expect(stdout).toMatch(/^deepseek +DEEPSEEK_API_KEY +environment +…nt-1 \(the stored one does not count\)$/m)
    expect(stdout).toMatch(/^groq +GROQ_API_KEY +–$/m)
    expect(stdout).toMatch(/^– +SEARCH_API_KEY +file +…5b36$/m)
    expect(stdout).not.toContain(CANARY)
    const { providers, others } = await list()
    expect(providers.find(({ provider }: { provider: string }) => provider === 'deepseek')).toEqual({
      provider: 'deepseek',
      from: 'environment',
      names: ['DEEPSEEK_API_KEY'],
      key: { name: 'DEEPSEEK_API_KEY', from: 'environment', hint: 'nt-1', shadowed: true },
    })
    expect(others).toEqual([{ name: 'SEARCH_API_KEY', from: 'file', hint: '5b36', shadowed: false }])
  })

  test('knows a key of the configuration, and says why stored ones are not used', async () => {
    bench.home.write(
      'cordis.patch.yml',
      '- id: openai\n  config: { providers: { mine: { baseURL: https://models.invalid/v1, apiKey: !env MY_ODD_NAME } } }\n',
    )
    write('{ "version": 1, "keys": { "OPENAI_API_KEY": 1 } }')
    const env = { MY_ODD_NAME: CANARY }
    const { code, stdout, stderr } = await auth(['list'], { env })
    expect(code).toBe(1)
    expect(stdout).toMatch(/^mine +configuration$/m)
    expect(stderr).toContain('a key is no text')
    expect(stdout + stderr).not.toContain(CANARY)
    write('{ "version": 1 }')
    expect((await auth(['set', 'mine'], { stdin: CANARY, env })).stderr).toMatch(/given its key by the configuration/)
  })
})

describe('cambium auth remove', () => {
  test('takes a key away, and says what is left', async () => {
    await auth(['set', 'openai'], { stdin: CANARY })
    vi.stubEnv('OPENAI_API_KEY', 'of-the-environment-1')
    const removed = await auth(['remove', 'openai'])
    expect(removed).toMatchObject({
      code: 0,
      stdout: 'removed OPENAI_API_KEY\n',
      stderr: 'warning: OPENAI_API_KEY is still set in the environment\n',
    })
    expect(keys()).toEqual({})
    vi.stubEnv('OPENAI_API_KEY', undefined)
    expect(await auth(['remove', 'openai'])).toMatchObject({
      code: 1,
      stderr: 'cambium: no key is stored for openai\n',
    })
  })
})

describe('cambium auth login', () => {
  const plugin = `
    export const name = 'acme-login'
    export const inject = ['auth']
    export function apply(ctx) {
      ctx.auth.register({
        id: 'openai',
        async login(io) {
          io.say('open https://acme.invalid/device')
          return { data: { token: await io.ask('Code:', { hidden: true }) } }
        },
        headers: ({ data }) => ({ authorization: 'Bearer ' + data.token }),
        async logout() { throw new Error('gone ${CANARY}') },
      })
    }`
  beforeEach(() => {
    bench.home.write('acme.mjs', plugin)
    bench.home.write('cordis.patch.yml', '- insert: [{ id: acme, name: ./acme.mjs }]\n')
  })

  test('asks its person, lets requests in, and is gone after logout', async () => {
    const login = await auth(['login', 'openai'], { keyboard: `${CANARY}\n` })
    expect(login).toMatchObject({ code: 0, stdout: 'logged in to openai\n' })
    expect(login.stderr).toContain('open https://acme.invalid/device')
    expect(login.all).not.toContain(CANARY)
    expect((await bench.run(['hello'])).stdout).toBe('ok\n')
    expect((await auth(['list'])).stdout).toMatch(/^openai +OPENAI_API_KEY +login +logged in$/m)
    const logout = await auth(['logout', 'openai'])
    expect(logout).toMatchObject({ code: 0, stdout: 'logged out of openai\n' })
    expect(logout.stderr).toBe(
      'warning: the login to openai is removed here, but the provider was not told: gone [redacted]\n',
    )
    expect(await auth(['logout', 'openai'])).toMatchObject({
      code: 1,
      stderr: 'cambium: nobody is logged in to openai\n',
    })
    expect((await bench.run(['hello'])).code).toBe(1)
  })

  test('asks one thing after the other, seen and unseen, on one terminal', async () => {
    const questions = `
          const said = []
          for (const hidden of [false, true, true, false]) said.push(await io.ask('Word ' + said.length + ': ', { hidden }))
          return { data: { token: said.join('-') } }`
    bench.home.write('acme.mjs', plugin.replace(/ +return \{ data.*\n/, questions))
    const { keys: input, modes } = keyboard()
    const host = testHost({ cwd: bench.folder.path, stderr: new Sink(true) })
    Object.assign(host, { keyboard: input })
    const code = main(['auth', 'login', 'openai'], host)
    for (const [at, word] of ['a', 'b', 'c', 'd'].entries()) {
      await host.stderr.contains(new RegExp(`Word ${at}: $`))
      input.write(`${word}\n`)
    }
    expect(await code).toBe(0)
    expect(modes).toEqual([true, false, true, false])
    expect(JSON.parse(readFileSync(file(), 'utf8')).grants.openai.data).toEqual({ token: 'a-b-c-d' })
  })

  test('without anybody to ask, or a plugin that offers one, says so', async () => {
    expect((await auth(['login', 'openai'])).stderr).toContain('has to ask something, and there is nobody')
    const { code, stderr } = await auth(['login', 'groq'])
    expect(code).toBe(1)
    expect(stderr).toMatch(/no plugin offers a login to groq\n {2}there is one for openai/)
  })
})
