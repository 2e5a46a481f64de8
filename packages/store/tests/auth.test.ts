import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import type { AuthIo, AuthProvider, Grant } from '@cambium/store/credentials'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { openCredentials } from './bench.ts'

const TOKEN = 'at-canary-90c1f7d35be2a864'
const HOUR = 3_600_000

const io = (signal = new AbortController().signal): AuthIo => ({ say: () => {}, ask: async () => 'typed', signal })
const fresh = { fresh: false }
const refused = { fresh: true }

/** A way in whose tokens are numbered; each renewal makes the one before void. */
function rotating(over: Partial<AuthProvider> = {}) {
  let count = 0
  const grant = (): Grant => ({ data: { token: `${TOKEN}-${++count}` }, expiresAt: Date.now() + HOUR })
  const calls: string[] = []
  const provider: AuthProvider = {
    id: 'acme',
    login: async () => grant(),
    headers: ({ data }) => ({ authorization: `Bearer ${data['token']}` }),
    async refresh({ data }) {
      calls.push(String(data['token']))
      return grant()
    },
    ...over,
  }
  return { provider, calls }
}

const expired = (token = `${TOKEN}-old`): Grant => ({ data: { token }, expiresAt: Date.now() - 1 })
const stored = (file: string) => JSON.parse(readFileSync(file, 'utf8')).grants

async function openAuth(provider: AuthProvider, grant?: Grant) {
  const bench = await openCredentials()
  if (grant) bench.write({ version: 1, grants: { acme: grant } })
  bench.ctx.auth.register(provider)
  return { ...bench, auth: bench.ctx.auth }
}

afterEach(() => {
  vi.useRealTimers()
})

describe('a login', () => {
  it('is stored, gives headers, and is kept when the plugin that offered it goes', async () => {
    const { ctx, file } = await openCredentials()
    const { provider } = rotating({ label: 'Acme account' })
    const offer = (on: typeof ctx) => void on.auth.register(provider)
    const plugin = await ctx.plugin({ name: 'acme', inject: ['auth'], apply: offer })
    expect(ctx.auth.list()).toEqual([{ id: 'acme', label: 'Acme account', offered: true, loggedIn: false }])
    expect(ctx.auth.loggedIn('acme')).toBe(false)
    expect(await ctx.auth.headers('acme', fresh)).toBeUndefined()
    await ctx.auth.login('acme', io())
    expect(ctx.auth.loggedIn('acme')).toBe(true)
    expect(await ctx.auth.headers('acme', fresh)).toEqual({ authorization: `Bearer ${TOKEN}-1` })
    await plugin.dispose()
    expect(ctx.auth.loggedIn('acme')).toBe(false)
    expect(await ctx.auth.headers('acme', fresh)).toBeUndefined()
    expect(ctx.auth.list()).toMatchObject([{ id: 'acme', offered: false, loggedIn: true }])
    expect(stored(file)).toMatchObject({ acme: { data: { token: `${TOKEN}-1` } } })
    await ctx.plugin({ name: 'acme', inject: ['auth'], apply: offer })
    expect(await ctx.auth.headers('acme', fresh)).toEqual({ authorization: `Bearer ${TOKEN}-1` })
  })

  it('of one provider is offered by one plugin only', async () => {
    const { ctx } = await openCredentials()
    const { provider } = rotating()
    await ctx.plugin({ name: 'first', inject: ['auth'], apply: on => void on.auth.register(provider) })
    expect(() => ctx.auth.register(provider)).toThrow(/AUTH_DUPLICATE: login "acme" is already offered by first/)
    await expect(ctx.auth.login('acmee', io())).rejects.toThrow(/AUTH_UNKNOWN[\s\S]*did you mean acme\?/)
    await expect(ctx.auth.login('other', io())).rejects.toThrow(/there is one for acme/)
  })

  it('asks its person, and passes on that nobody is there', async () => {
    const { provider } = rotating({
      login: async talk => ({ data: { token: await talk.ask('Token?', { hidden: true }) } }),
    })
    const { auth, file } = await openAuth(provider)
    const nobody = new Error('nobody can be asked')
    await expect(auth.login('acme', { ...io(), ask: () => Promise.reject(nobody) })).rejects.toBe(nobody)
    await auth.login('acme', io())
    expect(stored(file)).toEqual({ acme: { data: { token: 'typed' } } })
  })

  it('that hangs ends when its person gives up, and stores nothing', async () => {
    const { provider } = rotating({ login: () => new Promise(() => {}) })
    const { auth } = await openAuth(provider)
    const stop = new AbortController()
    const login = auth.login('acme', io(stop.signal))
    stop.abort()
    await expect(login).rejects.toThrow(/AUTH_LOGIN_FAILED: the login to acme failed: it was given up/)
    expect(auth.loggedIn('acme')).toBe(false)
  })

  it.each<[string, AuthProvider['login'], string]>([
    [
      'throws at once',
      () => {
        throw new Error(`bad ${TOKEN}`)
      },
      'bad [redacted]',
    ],
    [
      'rejects with a body',
      async () => {
        throw new Error(`{"access_token":"${TOKEN}"}\nmore`)
      },
      'redacted',
    ],
    ['rejects with nothing', () => Promise.reject(), 'no reason was given'],
    ['gives nothing', async () => undefined as never, 'gave no grant'],
    ['gives a text', async () => TOKEN as never, 'gave no grant'],
    ['gives no data', async () => ({ token: TOKEN }) as never, 'gave no grant'],
    ['gives what JSON cannot hold', async () => ({ data: { a: () => TOKEN } }) as never, 'JSON cannot hold'],
    ['gives seconds', async () => ({ data: {}, expiresAt: 1_900_000_000 }), 'milliseconds'],
  ])('that %s is told without quoting secrets', async (_, login, problem) => {
    const { auth, logs } = await openAuth(rotating({ login }).provider)
    const error = await auth.login('acme', io()).catch(thrown => thrown)
    expect(error.code).toMatch(/^AUTH_(LOGIN_FAILED|PROVIDER_INVALID)$/)
    expect(error.message).toContain(problem)
    expect(error.message + logs()).not.toContain(TOKEN)
    expect(auth.loggedIn('acme')).toBe(false)
  })

  it.each<[string, (grant: Grant) => unknown, string]>([
    [
      'throw',
      () => {
        throw new Error(`no ${TOKEN}`)
      },
      'no [redacted]',
    ],
    ['are none', () => undefined, 'no headers'],
    ['are promised', () => Promise.resolve({}), 'no headers'],
    ['hold a line end', () => ({ authorization: `Bearer ${TOKEN}\r\nx-evil: 1` }), 'header authorization with a value'],
    ['hold a number', () => ({ authorization: 1 }), 'header authorization with a value'],
    ['have names that are none', () => ({ 'a b': TOKEN }), 'name is none'],
  ])('whose headers %s is told without quoting secrets', async (_, headers, problem) => {
    const { auth } = await openAuth(rotating({ headers: headers as never }).provider)
    await auth.login('acme', io())
    const error = await auth.headers('acme', fresh).catch(thrown => thrown)
    expect(error.code).toBe('AUTH_PROVIDER_INVALID')
    expect(error.message).toContain(problem)
    expect(error.message).not.toContain(TOKEN)
  })
})

describe('a grant', () => {
  it('is renewed half a minute before it ends, once for all who ask', async () => {
    const { provider, calls } = rotating()
    const { auth, file } = await openAuth(provider, { data: { token: 'soon-void' }, expiresAt: Date.now() + 29_000 })
    const answers = await Promise.all(Array.from({ length: 5 }, () => auth.headers('acme', fresh)))
    for (const headers of answers) expect(headers).toEqual({ authorization: `Bearer ${TOKEN}-1` })
    expect(calls).toEqual(['soon-void'])
    expect(stored(file)).toMatchObject({ acme: { data: { token: `${TOKEN}-1` } } })
    await auth.headers('acme', fresh)
    expect(calls).toHaveLength(1)
  })

  it('that was refused is renewed although it has not ended, unless there is another one by now', async () => {
    const { provider, calls } = rotating()
    const { auth, write } = await openAuth(provider, { data: { token: 'one' }, expiresAt: Date.now() + HOUR })
    await auth.headers('acme', fresh)
    write({ version: 1, grants: { acme: { data: { token: 'other' }, expiresAt: Date.now() + HOUR } } })
    expect(await auth.headers('acme', refused)).toEqual({ authorization: 'Bearer other' })
    expect(calls).toEqual([])
    expect(await auth.headers('acme', refused)).toEqual({ authorization: `Bearer ${TOKEN}-1` })
    expect(calls).toEqual(['other'])
  })

  it('is renewed by one of many processes only, and the others take what it got', async () => {
    let current = 'first'
    let count = 0
    const server = createServer((request, response) => {
      const valid = request.url === `/${current}`
      if (valid) current = `token-${++count}`
      response.writeHead(valid ? 200 : 400).end(valid ? current : '')
    })
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { home, write } = await openCredentials()
    write({ version: 1, grants: { rotating: expired('first') } })
    const script = fileURLToPath(new URL('fixtures/renewing.ts', import.meta.url))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const ask = () =>
      text(
        spawn(process.execPath, ['--import', 'tsx', script, home, url], { stdio: ['ignore', 'pipe', 'inherit'] })
          .stdout!,
      )
    expect(await Promise.all([ask(), ask(), ask()])).toEqual(Array(3).fill('Bearer token-1\n'))
    expect(readdirSync(home)).toEqual(['credentials.json'])
  })

  it('whose renewal fails is kept, and the way to a new one is said', async () => {
    const { provider } = rotating({
      refresh: async () => {
        throw new Error(`invalid_grant for ${TOKEN}-old`)
      },
    })
    const { auth, file } = await openAuth(provider, expired())
    const error = await auth.headers('acme', fresh).catch(thrown => thrown)
    expect(error.message).toBe(
      'AUTH_REFRESH_FAILED: the login to acme could not be renewed: invalid_grant for [redacted]\n' +
        '  fix:   log in again with: cambium auth login acme',
    )
    expect(stored(file)).toMatchObject({ acme: { data: { token: `${TOKEN}-old` } } })
    expect(auth.loggedIn('acme')).toBe(true)
  })

  it('that cannot be renewed for want of a network is no reason to log in again', async () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' })
    const { provider } = rotating({ refresh: () => Promise.reject(new TypeError('fetch failed', { cause })) })
    const { auth } = await openAuth(provider, expired())
    await expect(auth.headers('acme', fresh)).rejects.toThrow(
      /^AUTH_UNREACHABLE.*fetch failed\n {2}fix: {3}check the network/,
    )
  })

  it('without a way to renew it ends', async () => {
    const { refresh: _, ...provider } = rotating().provider
    const { auth, write } = await openAuth(provider, expired())
    await expect(auth.headers('acme', fresh)).rejects.toThrow(/AUTH_EXPIRED: the login to acme has expired/)
    write({ version: 1, grants: { acme: { data: { token: 'x' } } } })
    await expect(auth.headers('acme', refused)).rejects.toThrow(/AUTH_EXPIRED: acme refused the login/)
  })

  it('whose renewal hangs ends in time; what comes too late is kept', async () => {
    let answer: (grant: Grant) => void = () => {}
    let begun = () => {}
    const started = new Promise<void>(resolve => {
      begun = resolve
    })
    const { provider } = rotating({
      refresh: () => {
        begun()
        return new Promise(resolve => {
          answer = resolve
        })
      },
    })
    const { auth, file, home } = await openAuth(provider, expired())
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
    const failed = auth.headers('acme', fresh).catch(error => error)
    await started
    vi.advanceTimersByTime(30_000)
    expect((await failed).message).toMatch(/AUTH_UNREACHABLE: .*no answer within 30 s/)
    vi.useRealTimers()
    expect(readdirSync(home)).toEqual(['credentials.json'])
    answer({ data: { token: 'late-but-good' }, expiresAt: Date.now() + HOUR })
    await vi.waitFor(() => expect(stored(file)).toMatchObject({ acme: { data: { token: 'late-but-good' } } }))
    expect(await auth.headers('acme', fresh)).toEqual({ authorization: 'Bearer late-but-good' })
  })

  it('goes on being renewed when the request that asked for it is cancelled', async () => {
    let answer: (grant: Grant) => void = () => {}
    const { provider } = rotating({
      refresh: () =>
        new Promise(resolve => {
          answer = resolve
        }),
    })
    const { auth, ctx, file } = await openAuth(provider, expired())
    const stop = new AbortController()
    const cancelled = auth.headers('acme', { fresh: false, signal: stop.signal })
    const other = auth.headers('acme', fresh)
    stop.abort(new Error('cancelled'))
    await expect(cancelled).rejects.toThrow('cancelled')
    answer({ data: { token: 'new' }, expiresAt: Date.now() + HOUR })
    expect(await other).toEqual({ authorization: 'Bearer new' })
    expect(stored(file)).toMatchObject({ acme: { data: { token: 'new' } } })
    await ctx.fiber.dispose()
  })

  it('is removed at logout, also when the provider cannot be told', async () => {
    const told: unknown[] = []
    const { provider } = rotating({
      logout: async grant => {
        told.push(grant.data)
        throw new Error(`no such session ${TOKEN}-old`)
      },
    })
    const { auth, file, logs, ctx } = await openAuth(provider, expired())
    await auth.logout('acme')
    expect(told).toEqual([{ token: `${TOKEN}-old` }])
    expect(stored(file)).toEqual({})
    expect(logs()).toContain(
      'the login to acme is removed here, but the provider was not told: no such session [redacted]',
    )
    await auth.logout('acme')
    expect(told).toHaveLength(1)
    await ctx.credentials.set('TEST_API_KEY', 'stays-as-it-is-1')
    expect(auth.list()).toEqual([{ id: 'acme', offered: true, loggedIn: false }])
  })

  it('is kept out of sight with its tokens, and not its address', async () => {
    const { provider } = rotating()
    const data = { access: TOKEN, account: 'me@example.com', url: 'https://example.com/login/0123456789' }
    const { ctx, auth } = await openAuth(
      { ...provider, headers: () => ({ 'x-token': 'made-of-it-5d1c77a0' }) },
      { data },
    )
    await auth.headers('acme', fresh)
    const text = `${TOKEN} made-of-it-5d1c77a0 me@example.com https://example.com/login/0123456789`
    expect(ctx.credentials.redact(text)).toBe(
      '[redacted] [redacted] me@example.com https://example.com/login/0123456789',
    )
  })
})
