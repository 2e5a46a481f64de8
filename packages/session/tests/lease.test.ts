import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { textOf } from '@cambium/llm'
import { expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, linesOf, logOf, scratch, user } from './boot.ts'

/** A stored session and the path of its lock, which nobody holds. */
async function stored(folder: string) {
  const { ctx, stop } = await bootStore(folder)
  const session = ctx.sessions.create('one')
  session.append('user/message', { message: user('hello') })
  await ctx.sessions.flush(session)
  const lock = logOf(folder, 'one').replace(/jsonl$/, 'lock')
  const mine = JSON.parse(readFileSync(lock, 'utf8'))
  await stop()
  expect(existsSync(lock)).toBe(false)
  return { lock, mine }
}

const seconds = (ago: number) => new Date(Date.now() - ago * 1_000)

it.each<[who: string, change: object, silentS: number, free: boolean]>([
  ['a process that is gone', { pid: 2 ** 22 + 1 }, 0, true],
  ['an earlier process of our own number', { started: '1' }, 0, true],
  ['an earlier process of a number that another one has now', { pid: process.ppid, started: '1' }, 0, true],
  ['a process of this host that lives, however long it was silent', {}, 3_600, false],
  ['another host that was heard of', { host: 'elsewhere', boot: 'other' }, 5, false],
  ['another host that fell silent', { host: 'elsewhere', boot: 'other' }, 60, true],
  ['another host whose heartbeat lies ahead, since a clock was set back', { boot: 'other' }, -3_600, false],
  ['another host whose heartbeat lies years ahead', { boot: 'other' }, -1e8, true],
  ['an older version, from another host that fell silent', { host: 'elsewhere', boot: undefined }, 60, true],
  ['this host before it was started anew', { boot: 'other' }, 60, true],
  ...(process.platform === 'linux'
    ? ([
        [
          'this host by the name it had before, of a process that is gone',
          { host: 'former', pid: 2 ** 22 + 1 },
          0,
          true,
        ],
        ['this host by the name it had before, of a process that lives', { host: 'former' }, 3_600, false],
      ] satisfies [string, object, number, boolean][])
    : []),
  ['another container that was heard of', { space: 'pid:[1]', pid: 2 ** 22 + 1 }, 5, false],
  ['another container that fell silent', { space: 'pid:[1]' }, 60, true],
])('the lock of %s', async (_who, change, silent, free) => {
  const folder = scratch()
  const { lock, mine } = await stored(folder)
  writeFileSync(lock, JSON.stringify({ ...mine, ...change }))
  utimesSync(lock, seconds(silent), seconds(silent))
  const { ctx } = await bootStore(folder)
  const resumed = ctx.sessions.resume('one')
  if (free) expect((await resumed).seq).toBe(2)
  else await expect(resumed).rejects.toMatchObject({ code: 'SESSION_BUSY', where: lock })
})

it('a lock that cannot be read counts as held until it is old', async () => {
  const folder = scratch()
  const { lock } = await stored(folder)
  writeFileSync(lock, '')
  const { ctx } = await bootStore(folder)
  await expect(ctx.sessions.resume('one')).rejects.toMatchObject({ code: 'SESSION_BUSY' })
  expect((await ctx.sessionPersistence.list())[0]?.holder).toBe('another process')
  utimesSync(lock, seconds(60), seconds(60))
  expect((await ctx.sessions.resume('one')).seq).toBe(2)
})

it('a heartbeat keeps the lock fresh, puts back one that was tidied away, and notices a takeover', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const folder = scratch()
  const { lock } = await stored(folder)
  const { ctx } = await bootStore(folder)
  const session = await ctx.sessions.resume('one')
  const content = readFileSync(lock, 'utf8')
  rmSync(lock)
  vi.advanceTimersByTime(5_000)
  expect(readFileSync(lock, 'utf8')).toBe(content)

  const other = JSON.stringify({ ...JSON.parse(content), boot: 'other', host: 'elsewhere', token: '0123456789ab' })
  writeFileSync(lock, other)
  vi.advanceTimersByTime(5_000)
  session.append('user/message', { message: user('mine') })
  await expect(ctx.sessions.flush(session)).rejects.toMatchObject({ code: 'SESSION_LEASE_LOST' })
  await expect(ctx.sessions.close(session)).rejects.toMatchObject({ code: 'SESSION_LEASE_LOST' })
  expect(readFileSync(lock, 'utf8')).toBe(other)
  expect(linesOf(logOf(folder, 'one'))).toHaveLength(3)
})

it('a takeover between two heartbeats is noticed before the next byte is written', async () => {
  const folder = scratch()
  const { lock, mine } = await stored(folder)
  const { ctx } = await bootStore(folder)
  const session = await ctx.sessions.resume('one')
  await ctx.sessions.flush(session)
  const log = readFileSync(logOf(folder, 'one'))
  // As after a night's sleep of this machine: another one believed us dead, and has not written yet.
  writeFileSync(lock, JSON.stringify({ ...mine, boot: 'other', host: 'elsewhere', token: '0123456789ab' }))
  session.append('user/message', { message: user('mine') })
  await expect(ctx.sessions.flush(session)).rejects.toMatchObject({
    code: 'SESSION_LEASE_LOST',
    where: lock,
    fix: expect.stringContaining('fork'),
  })
  expect(readFileSync(logOf(folder, 'one'))).toEqual(log)
  // What was not stored is not lost: the fork has it.
  const child = ctx.sessions.fork(session)
  await ctx.sessions.flush(child)
  expect(linesOf(logOf(folder, child.id)).at(-1)).toMatchObject({ data: { message: { content: [{ text: 'mine' }] } } })
})

it('a clock that is set back takes nothing from a session: its order is that of its numbers', async () => {
  const folder = scratch()
  const { lock } = await stored(folder)
  vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { ctx, stop } = await bootStore(folder)
  const session = await ctx.sessions.resume('one')
  session.append('user/message', { message: user('before') })
  const before = Date.now()
  vi.setSystemTime(before - 3_600_000)
  vi.advanceTimersByTime(5_000)
  session.append('user/message', { message: user('after') })
  await ctx.sessions.flush(session)
  // The lease is held, and heard of by the clock as it is now.
  const other = await bootStore(folder)
  await expect(other.ctx.sessions.resume('one')).rejects.toMatchObject({ code: 'SESSION_BUSY' })
  expect(statSync(lock).mtimeMs).toBeLessThan(before - 3_000_000)
  await stop()
  const again = await other.ctx.sessions.resume('one')
  expect(again.last('session/resumed')?.data).toEqual({ closed: 0 })
  expect(again.deriveMessages().map(textOf)).toEqual(['hello', 'before', 'after'])
  const times = again.events().map(({ time }) => time)
  expect(times[3]).toBeLessThan(times[2]!)
  expect(again.events().map(({ seq }) => seq)).toEqual(times.map((_, index) => index))
})

it('a session that another process writes is refused by its name, read and forked', async () => {
  const folder = scratch()
  const { lock, mine } = await stored(folder)
  writeFileSync(lock, JSON.stringify({ ...mine, boot: 'other', host: 'build-7', pid: 4_711 }))
  const { ctx } = await bootStore(folder)
  const refusal = await ctx.sessions.resume('one').catch(error => error)
  expect(refusal.message).toMatch(
    /SESSION_BUSY: session one is being written by process 4711 on build-7, since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n.*\n.*fork/,
  )
  expect((await ctx.sessionPersistence.list())[0]?.holder).toBe('process 4711 on build-7')
  const view = await ctx.sessionPersistence.read('one')
  expect(ctx.sessions.fork(view).deriveMessages().map(textOf)).toEqual(['hello'])
})
