import { existsSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
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

it.each([
  ['a process that is gone', { pid: 2 ** 22 + 1 }, 0, true],
  ['an earlier process of our own number', { started: '1' }, 0, true],
  ['an earlier process of a number that another one has now', { pid: process.ppid, started: '1' }, 0, true],
  ['a process of this host that lives, however long it was silent', {}, 3_600, false],
  ['another host that was heard of', { host: 'elsewhere' }, 5, false],
  ['another host that fell silent', { host: 'elsewhere' }, 60, true],
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

  const other = JSON.stringify({ ...JSON.parse(content), host: 'elsewhere', token: '0123456789ab' })
  writeFileSync(lock, other)
  vi.advanceTimersByTime(5_000)
  session.append('user/message', { message: user('mine') })
  await expect(ctx.sessions.flush(session)).rejects.toMatchObject({ code: 'SESSION_LEASE_LOST' })
  await expect(ctx.sessions.close(session)).rejects.toMatchObject({ code: 'SESSION_LEASE_LOST' })
  expect(readFileSync(lock, 'utf8')).toBe(other)
  expect(linesOf(logOf(folder, 'one'))).toHaveLength(3)
})
