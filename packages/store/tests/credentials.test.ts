import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as credentials from '@cambium/store/credentials'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { openCredentials } from './bench.ts'

const CANARY = 'sk-canary-4f9a81c2d7e05b36'
const ofOwner = process.platform === 'win32' ? it.skip : it
const asRoot = process.getuid?.() === 0 ? it : it.skip

afterEach(() => vi.unstubAllEnvs())

const start = (script: string, ...args: string[]) =>
  spawn(process.execPath, ['--import', 'tsx', fileURLToPath(new URL(`fixtures/${script}`, import.meta.url)), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })

describe('a stored key', () => {
  ofOwner('is in a file for the owner only, in a folder for the owner only, and nothing else is left', async () => {
    const { ctx, home, file } = await openCredentials()
    expect(existsSync(home)).toBe(false)
    await ctx.credentials.set('TEST_API_KEY', `  ${CANARY}\n`)
    expect(ctx.credentials.get('TEST_API_KEY')).toBe(CANARY)
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ version: 1, keys: { TEST_API_KEY: CANARY }, grants: {} })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(statSync(home).mode & 0o777).toBe(0o700)
    expect(readdirSync(home)).toEqual(['credentials.json'])
  })

  it('is seen at the next look by others that run, and gone at once when it is removed', async () => {
    const one = await openCredentials()
    const other = await openCredentials(one.home)
    expect(other.ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    // Many within one tick of the disk's clock.
    for (let i = 0; i < 20; i++) {
      await one.ctx.credentials.set('TEST_API_KEY', `value-${i}`)
      expect(other.ctx.credentials.get('TEST_API_KEY')).toBe(`value-${i}`)
    }
    expect(await one.ctx.credentials.remove('TEST_API_KEY')).toBe(true)
    expect(other.ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(await one.ctx.credentials.remove('TEST_API_KEY')).toBe(false)
  })

  it('that is written over in place, at the same size and time, is seen as well', async () => {
    const { ctx, file, write } = await openCredentials()
    write({ version: 1, keys: { TEST_API_KEY: 'no-99x' } })
    expect(ctx.credentials.get('TEST_API_KEY')).toBe('no-99x')
    // Hundreds: several of them fall into one tick of the clock that the disk's times come from.
    for (let i = 100; i < 400; i++) {
      writeFileSync(file, JSON.stringify({ version: 1, keys: { TEST_API_KEY: `no-${i}` } }))
      expect(ctx.credentials.get('TEST_API_KEY')).toBe(`no-${i}`)
    }
  })

  it('counts after the environment, where an empty value is none', async () => {
    const { ctx, write } = await openCredentials()
    write({ version: 1, keys: { TEST_API_KEY: 'stored-value-of-it', OTHER_API_KEY: ' ' } })
    vi.stubEnv('TEST_API_KEY', ' ')
    vi.stubEnv('SHORT_API_KEY', 'abc')
    expect(ctx.credentials.get('TEST_API_KEY')).toBe('stored-value-of-it')
    expect(ctx.credentials.get('OTHER_API_KEY')).toBeUndefined()
    vi.stubEnv('TEST_API_KEY', 'value-of-the-environment')
    expect(ctx.credentials.get('TEST_API_KEY')).toBe('value-of-the-environment')
    expect(ctx.credentials.get('SHORT_API_KEY')).toBe('abc')
    await ctx.credentials.remove('OTHER_API_KEY')
    expect(ctx.credentials.list()).toEqual([
      { name: 'SHORT_API_KEY', from: 'environment', stored: false, hint: '' },
      { name: 'TEST_API_KEY', from: 'environment', stored: true, hint: 'ment' },
    ])
    vi.stubEnv('TEST_API_KEY', undefined)
    expect(ctx.credentials.list()[1]).toEqual({ name: 'TEST_API_KEY', from: 'file', stored: true, hint: 'f-it' })
  })

  it.each([
    ['TEST_API_KEY', ' \n'],
    ['TEST_API_KEY', 'one\ntwo'],
    ['TEST_API_KEY', 'x'.repeat(20_000)],
    ['test api key', CANARY],
    ['', CANARY],
  ])('under the name %j is refused when it can be none, without being quoted', async (key, value) => {
    const { ctx, home } = await openCredentials()
    const refused = await ctx.credentials.set(key, value).catch(error => error)
    expect(refused.code).toBe('STORE_CREDENTIAL_INVALID')
    expect(refused.message).not.toContain(CANARY)
    expect(existsSync(home)).toBe(false)
  })

  it('may be called like a member of every object', async () => {
    const { ctx, home } = await openCredentials()
    await ctx.credentials.set('__proto__', CANARY)
    await ctx.credentials.set('constructor', 'another-one-1')
    expect(ctx.credentials.get('toString')).toBeUndefined()
    const other = await openCredentials(home)
    expect(other.ctx.credentials.get('__proto__')).toBe(CANARY)
    expect(other.ctx.credentials.list().map(({ name }) => name)).toEqual(['__proto__', 'constructor'])
  })

  it('of many writers at once is lost by none', async () => {
    const { ctx, home } = await openCredentials()
    const children = ['A', 'B'].map(name => start('storing.ts', home, name, '15'))
    const own = Array.from({ length: 15 }, (_, i) => ctx.credentials.set(`C_${i}`, `value-C-${i}`))
    await Promise.all([...children.map(child => once(child, 'close')), ...own])
    expect(ctx.credentials.list()).toHaveLength(45)
    expect(ctx.credentials.get('A_14')).toBe('value-A-14')
    expect(readdirSync(home)).toEqual(['credentials.json'])
  })

  it('is there or not when its writer is killed, and the next writer tidies up', async () => {
    const { ctx, home, file } = await openCredentials()
    for (const name of ['A', 'B']) {
      const child = start('storing.ts', home, name, '100000')
      await once(child.stdout, 'data')
      child.kill('SIGKILL')
      await once(child, 'close')
      const { version, keys } = JSON.parse(readFileSync(file, 'utf8'))
      expect(version).toBe(1)
      expect(keys[`${name}_0`]).toBe(`value-${name}-0`)
    }
    writeFileSync(`${file}.4711.0.tmp`, CANARY, { mode: 0o600 })
    await ctx.credentials.set('LAST', 'last-value')
    // Who is killed while it takes the lock may leave what says so; it holds no key.
    const left = readdirSync(home).filter(name => !name.startsWith('credentials.json.lock.'))
    expect(left).toEqual(['credentials.json'])
    expect(ctx.credentials.get('A_0')).toBe('value-A-0')
  })
})

describe('a file of keys', () => {
  ofOwner('that others can read is not used, and says how to mend it', async () => {
    const { ctx, file, write, logs } = await openCredentials()
    write({ version: 1, keys: { TEST_API_KEY: CANARY } })
    chmodSync(file, 0o640)
    expect(ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(ctx.credentials.problem()?.message).toBe(
      `STORE_CREDENTIALS_UNSAFE: the stored credentials cannot be used: others can read or change it\n` +
        `  where: ${file}\n  fix:   take that from them: chmod 600 ${file}`,
    )
    expect(logs().match(/STORE_CREDENTIALS_UNSAFE/g)).toHaveLength(1)
    vi.stubEnv('TEST_API_KEY', 'of-the-environment-1')
    expect(ctx.credentials.get('TEST_API_KEY')).toBe('of-the-environment-1')
    await expect(ctx.credentials.set('OTHER', 'other-value')).rejects.toThrow('chmod 600')
    expect(statSync(file).mode & 0o777).toBe(0o640)
    // It is no less secret for that.
    expect(ctx.credentials.redact(`<${CANARY}>`)).toBe('<[redacted]>')
    vi.unstubAllEnvs()
    chmodSync(file, 0o600)
    expect(ctx.credentials.get('TEST_API_KEY')).toBe(CANARY)
  })

  asRoot("that is another user's is not used", async () => {
    const { ctx, file, write } = await openCredentials()
    write({ version: 1, keys: { TEST_API_KEY: CANARY } })
    chownSync(file, 65_534, 65_534)
    expect(ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(ctx.credentials.problem()?.message).toMatch(/belongs to another user[\s\S]*chown 0 /)
  })

  ofOwner('that is a link, a folder or a pipe is not used, and what a link leads to is not written', async () => {
    const { ctx, home, file, write } = await openCredentials()
    write({ version: 1, keys: { TEST_API_KEY: CANARY } })
    renameSync(file, join(home, 'real.json'))
    symlinkSync('real.json', file)
    expect(ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(ctx.credentials.problem()?.message).toContain('it is a link')
    await expect(ctx.credentials.set('OTHER', 'other-value')).rejects.toThrow('it is a link')
    expect(lstatSync(file).isSymbolicLink()).toBe(true)
    expect(readFileSync(join(home, 'real.json'), 'utf8')).not.toContain('OTHER')

    const dangling = await openCredentials()
    mkdirSync(dangling.home, { mode: 0o700 })
    symlinkSync(join(dangling.home, 'nowhere'), dangling.file)
    await expect(dangling.ctx.credentials.set('OTHER', 'other-value')).rejects.toThrow('it is a link')
    expect(existsSync(join(dangling.home, 'nowhere'))).toBe(false)

    const folder = await openCredentials()
    mkdirSync(folder.file, { recursive: true, mode: 0o700 })
    expect(folder.ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(folder.ctx.credentials.problem()?.message).toContain('no regular file')
  })

  ofOwner('is not written to a folder that others can write to', async () => {
    const { ctx, home, file } = await openCredentials()
    mkdirSync(home)
    chmodSync(home, 0o777)
    await expect(ctx.credentials.set('TEST_API_KEY', CANARY)).rejects.toThrow(`chmod go-w ${home}`)
    expect(existsSync(file)).toBe(false)
  })

  it.each([
    ['{\n  "version": 1,\n  "keys": {\n    "TEST_API_KEY": "CANARY"\n    "B": 1 } }', ':5:5', 'no JSON'],
    ['{ "version": 1, "keys": { "TEST_API_KEY": "CANARY', ':1:43', 'no JSON'],
    ['{ "version": 1, "keys": { "TEST_API_KEY": CANARY } }', ':1:43', 'no JSON'],
    ["{ 'version': 1 }", ':1:3', 'no JSON'],
    ['{ "version": 1 }\n"CANARY"', ':2:1', 'no JSON'],
    ['{ "version": 1, "keys": {}, }', ':1:29', 'no JSON'],
    ['TEST_API_KEY=CANARY', ':1:1', 'no JSON'],
    ['["CANARY"]', ':1:1', 'no JSON object'],
    ['{ "keys": { "TEST_API_KEY": "CANARY" } }', ':1:1', 'version is not 1'],
    ['{\n "version": 2, "keys": { "TEST_API_KEY": "CANARY" } }', ':2:2', 'newer version'],
    ['{ "version": 1, "keys": ["CANARY"] }', ':1:17', 'no map'],
    ['{ "version": 1, "keys": {\n"A": "x", "TEST_API_KEY": ["CANARY"] } }', ':2:11', 'no text'],
    ['{ "version": 1, "TEST_API_KEY": "CANARY" }', ':1:17', 'holds more'],
    ['{ "version": 1, "grants": { "CANARY": "x" } }', ':1:29', 'no data'],
  ])('%j is told with its place, not used, not quoted and not overwritten', async (text, place, problem) => {
    const { ctx, file, write, logs } = await openCredentials()
    const written = text.replaceAll('CANARY', CANARY)
    write(written)
    expect(ctx.credentials.get('TEST_API_KEY')).toBeUndefined()
    expect(ctx.credentials.problem()?.where).toBe(file + place)
    expect(ctx.credentials.problem()?.problem).toContain(problem)
    await expect(ctx.credentials.set('OTHER', 'other-value')).rejects.toThrow('STORE_CREDENTIALS_INVALID')
    await expect(ctx.credentials.remove('OTHER')).rejects.toThrow('STORE_CREDENTIALS_INVALID')
    expect(readFileSync(file, 'utf8')).toBe(written)
    expect(logs()).toContain('STORE_CREDENTIALS_INVALID')
    expect(logs()).not.toContain(CANARY)
    vi.stubEnv('TEST_API_KEY', 'of-the-environment-1')
    expect(ctx.credentials.get('TEST_API_KEY')).toBe('of-the-environment-1')
  })

  it('is not touched before the first look', async () => {
    const { ctx, logs, write } = await openCredentials()
    write('{')
    vi.stubEnv('TEST_API_KEY', 'of-the-environment-1')
    ctx.credentials.get('TEST_API_KEY')
    expect(logs()).toBe('')
    ctx.credentials.get('OTHER_API_KEY')
    expect(logs()).toContain('STORE_CREDENTIALS_INVALID')
  })

  it('leaves with the plugin: nothing is kept secret any more, and both services are gone', async () => {
    const { ctx, home } = await openCredentials()
    await ctx.credentials.set('TEST_API_KEY', CANARY)
    const { credentials: service } = ctx
    expect(service.redact(CANARY)).toBe('[redacted]')
    await ctx.fiber.dispose()
    expect(service.redact(CANARY)).toBe(CANARY)
    expect(readdirSync(home)).toEqual(['credentials.json'])
    const next = await openCredentials(home)
    expect(next.ctx.get('credentials')?.get('TEST_API_KEY')).toBe(CANARY)
    expect(credentials.provide).toEqual(['credentials', 'auth'])
  })
})
