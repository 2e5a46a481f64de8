import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { textOf } from '@cambium/llm'
import type { Session, SessionSummary } from '@cambium/session'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, filesIn, linesOf, logOf, scratch, user } from './boot.ts'

const DAY = 86_400_000
const texts = (session: Session) => session.deriveMessages().map(textOf)
const ids = (list: readonly SessionSummary[]) => list.map(({ id }) => id)

/** Sessions s0, s1, … of which the last is the newest, `daysApart` between two; each has a file of its own. */
async function stored(folder: string, count: number, daysApart = 1) {
  const { ctx, stop } = await bootStore(folder)
  for (let i = 0; i < count; i++) {
    const session = ctx.sessions.create(`s${i}`, { cwd: i % 2 ? '/odd' : '/even' })
    session.append('user/message', { message: user(`prompt ${i}`) })
    await ctx.sessions.flush(session)
    mkdirSync(ctx.sessions.folder(session))
    writeFileSync(join(ctx.sessions.folder(session), 'result.txt'), 'x'.repeat(1_000))
  }
  await stop()
  for (let i = 0; i < count; i++) age(logOf(folder, `s${i}`), (count - 1 - i) * daysApart)
}

/** Makes a log look as if nothing had happened in it for so long. */
function age(path: string, days: number) {
  const time = Date.now() - days * DAY - 1_000
  writeFileSync(path, readFileSync(path, 'utf8').replace(/"time":\d+/g, `"time":${time}`))
  utimesSync(path, time / 1_000, time / 1_000)
}

describe('pruning', () => {
  it('removes what is beyond the limits, the oldest first, with all that belongs to it', async () => {
    const folder = scratch()
    await stored(folder, 10)
    const { ctx } = await bootStore(folder)
    const deleted: string[] = []
    ctx.on('session/deleted', id => void deleted.push(id))
    const { sessionPersistence: store } = ctx
    expect(await store.prune?.()).toEqual({ removed: [], kept: 10, freedBytes: 0, unlimited: true, skipped: [] })
    const all = await store.list()
    const dry = await store.prune?.({ olderThanMs: 6 * DAY, dryRun: true })
    expect(ids(dry!.removed)).toEqual(['s3', 's2', 's1', 's0'])
    expect(dry?.freedBytes).toBe(dry!.removed.reduce((sum, { bytes }) => sum + bytes + 1_000, 0))
    expect(await store.list()).toEqual(all)
    // Beside another limit, keep protects; alone, it is the limit.
    expect(ids((await store.prune!({ olderThanMs: 6 * DAY, keep: 9 })).removed)).toEqual(['s0'])
    expect(ids((await store.prune!({ keep: 7 })).removed)).toEqual(['s2', 's1'])
    expect(ids((await store.prune!({ keep: 2, cwd: '/odd' })).removed)).toEqual(['s5', 's3'])
    const [newest, next] = await store.list()
    expect(await store.prune!({ maxTotalBytes: newest!.bytes + next!.bytes })).toMatchObject({ kept: 2 })
    expect(ids(await store.list())).toEqual(['s9', 's8'])
    expect(deleted).toEqual(['s0', 's2', 's1', 's5', 's3', 's7', 's6', 's4'])
    expect(filesIn(folder).map(path => path.split('/').pop())).toHaveLength(4)
  })

  it('never takes a live, a leased or a damaged one, and says why', async () => {
    const folder = scratch()
    await stored(folder, 5)
    const { ctx } = await bootStore(folder)
    await ctx.sessions.resume('s0')
    const other = await bootStore(folder)
    await other.ctx.sessions.resume('s1')
    writeFileSync(logOf(folder, 's2'), 'garbage')
    const report = await ctx.sessionPersistence.prune!({ olderThanMs: 0 })
    expect(ids(report.removed).sort()).toEqual(['s3', 's4'])
    expect(report.kept).toBe(3)
    expect(Object.fromEntries(report.skipped.map(({ id, why }) => [id, why]))).toEqual({
      s0: expect.stringContaining(`process ${process.pid}`),
      s1: expect.stringContaining(`process ${process.pid}`),
      s2: expect.stringContaining('damaged'),
    })
    // A person may still delete the damaged one.
    await ctx.sessionPersistence.delete('s2')
    expect(ids(await ctx.sessionPersistence.list()).sort()).toEqual(['s0', 's1'])
  })

  it.skipIf(process.platform === 'win32')('deletes what nobody can read or a dead process has locked', async () => {
    const folder = scratch()
    await stored(folder, 3)
    const at = (id: string) => logOf(folder, id)
    writeFileSync(at('s0'), '')
    chmodSync(at('s1'), 0)
    const lock = at('s2').replace(/jsonl$/, 'lock')
    writeFileSync(lock, JSON.stringify({ pid: 2 ** 22 + 1, host: 'x', token: '0123456789ab', since: 0 }))
    utimesSync(lock, 0, 0)
    const { ctx } = await bootStore(folder)
    for (const id of ['s0', 's1', 's2']) await ctx.sessionPersistence.delete(id)
    expect(filesIn(folder)).toEqual([])
  })

  it('a copy in another folder is neither taken for the session nor kept by it', async () => {
    const folder = scratch()
    await stored(folder, 2)
    const old = join(folder, 'copy', 's1.jsonl')
    mkdirSync(dirname(old))
    writeFileSync(old, readFileSync(logOf(folder, 's1')))
    age(old, 30)
    const { ctx } = await bootStore(folder)
    const deleted: string[] = []
    ctx.on('session/deleted', id => void deleted.push(id))
    const { removed } = await ctx.sessionPersistence.prune!({ olderThanMs: 20 * DAY })
    expect(removed.map(({ path }) => path)).toEqual([old])
    expect(deleted).toEqual([])
    expect((await ctx.sessionPersistence.read('s1')).events).toHaveLength(1)
  })
})

describe('in the background', () => {
  function useFakeTimers() {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
  }

  /** Ends the store, which waits for what it has begun. */
  async function afterStart(folder: string, config: Parameters<typeof bootStore>[1], until: () => boolean) {
    useFakeTimers()
    const { stop, records } = await bootStore(folder, config)
    vi.advanceTimersByTime(9_000)
    const early = filesIn(folder)
    vi.advanceTimersByTime(2_000)
    while (!until()) await new Promise(resolve => setImmediate(resolve))
    await stop()
    vi.useRealTimers()
    expect(records).toEqual([])
    return early
  }
  const stamped = (folder: string) => () => existsSync(join(folder, '.upkeep'))

  it('retention runs some time after the start, once a day', async () => {
    const folder = scratch()
    await stored(folder, 6)
    const before = filesIn(folder)
    const early = await afterStart(folder, { retention: { maxSessions: 4 } }, stamped(folder))
    expect(early).toEqual(before)
    const { ctx, stop } = await bootStore(folder)
    expect(ids(await ctx.sessionPersistence.list())).toEqual(['s5', 's4', 's3', 's2'])
    await stop()
    // The same day nothing happens; the next day it does.
    const stamp = join(folder, '.upkeep')
    const { mtimeMs } = statSync(stamp)
    useFakeTimers()
    const again = await bootStore(folder, { retention: { maxSessions: 1 } })
    await vi.advanceTimersByTimeAsync(11_000)
    await again.stop()
    vi.useRealTimers()
    expect(statSync(stamp).mtimeMs).toBe(mtimeMs)
    const yesterday = Date.now() - DAY - 1_000
    utimesSync(stamp, yesterday / 1_000, yesterday / 1_000)
    await afterStart(folder, { retention: { maxSessions: 1 } }, () => statSync(stamp).mtimeMs > yesterday + 5_000)
    expect(filesIn(folder).filter(path => path.endsWith('.jsonl'))).toHaveLength(1)
  })

  it('sessions that rest are compressed, whole and verified; they are listed, read, and go on', async () => {
    const folder = scratch()
    await stored(folder, 4, 5)
    const plain = readFileSync(logOf(folder, 's0'), 'utf8')
    const path = logOf(folder, 's0')
    await afterStart(folder, { compress: true }, stamped(folder))
    expect(filesIn(folder).filter(name => name.endsWith('.gz'))).toHaveLength(2)
    expect(filesIn(folder).filter(name => /tmp$|lock$/.test(name))).toEqual([])
    const [head, ...lines] = gunzipSync(readFileSync(`${path}.gz`))
      .toString()
      .split('\n')
    expect(JSON.parse(head!)).toEqual({ ...JSON.parse(plain.split('\n')[0]!), title: 'prompt 0' })
    expect(lines.join('\n')).toBe(plain.slice(plain.indexOf('\n') + 1))
    if (process.platform !== 'win32') {
      expect(
        execFileSync('zgrep', ['-c', 'prompt 0', `${path}.gz`])
          .toString()
          .trim(),
      ).toBe('2')
    }
    const { ctx } = await bootStore(folder)
    const list = await ctx.sessionPersistence.list()
    expect(list.map(({ id, title }) => [id, title])).toEqual([3, 2, 1, 0].map(i => [`s${i}`, `prompt ${i}`]))
    const session = await ctx.sessions.resume('s0')
    session.append('user/message', { message: user('more') })
    await ctx.sessions.flush(session)
    expect(texts(session)).toEqual(['prompt 0', 'more'])
    expect(linesOf(path)[0]).toMatchObject({ segment: 2, from: 1, title: 'prompt 0' })
  })

  it('closed segments are compressed at once, while the session goes on', async () => {
    const folder = scratch()
    const { ctx, stop } = await bootStore(folder, { compress: true, rotateBytes: 600 })
    const session = ctx.sessions.create('one')
    for (let i = 0; i < 20; i++) {
      session.append('user/message', { message: user(`m${i}`) })
      await ctx.sessions.flush(session)
    }
    const packed = () => filesIn(folder).filter(path => /segments\/\d+\.jsonl\.gz$/.test(path))
    while (packed().length < 3) await new Promise(resolve => setImmediate(resolve))
    expect((await ctx.sessionPersistence.read('one')).events).toHaveLength(20)
    await stop()
    const again = await bootStore(folder)
    const resumed = await again.ctx.sessions.resume('one')
    expect(texts(resumed)).toEqual(Array.from({ length: 20 }, (_, i) => `m${i}`))
    expect(resumed.last('session/resumed')?.data).toEqual({ closed: 0 })
  })

  it('what a crash between the two copies left is finished; a copy that differs stays', async () => {
    const folder = scratch()
    await stored(folder, 2, 10)
    const path = logOf(folder, 's0')
    const content = readFileSync(path, 'utf8')
    const header = { ...JSON.parse(content.split('\n')[0]!), title: 'prompt 0' }
    const same = gzipSync(`${JSON.stringify(header)}\n${content.slice(content.indexOf('\n') + 1)}`)
    writeFileSync(`${path}.gz`, same)
    writeFileSync(`${path}.gz.tmp`, 'of one that was killed')
    await afterStart(folder, { compress: true }, stamped(folder))
    expect([existsSync(path), readFileSync(`${path}.gz`).equals(same)]).toEqual([false, true])
    expect(filesIn(folder).filter(name => name.endsWith('.tmp'))).toEqual([])

    writeFileSync(path, content)
    age(path, 10)
    writeFileSync(`${path}.gz`, gzipSync('something else'))
    utimesSync(join(folder, '.upkeep'), 0, 0)
    await afterStart(folder, { compress: true }, () => statSync(join(folder, '.upkeep')).mtimeMs > 0)
    expect(existsSync(path)).toBe(true)
    expect(gunzipSync(readFileSync(`${path}.gz`)).toString()).toBe('something else')
  })
})

it('a session that is needed while it is compressed is left at once, whole', async () => {
  const folder = scratch()
  await stored(folder, 1)
  const path = logOf(folder, 's0')
  const filler = JSON.stringify({ seq: 1, time: 1, type: 'user/message', data: { message: user('y'.repeat(1 << 20)) } })
  writeFileSync(path, `${readFileSync(path, 'utf8')}${`${filler}\n`.repeat(24)}`)
  age(path, 30)
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const { ctx, records } = await bootStore(folder, { compress: true })
  vi.advanceTimersByTime(10_000)
  const lock = path.replace(/jsonl$/, 'lock')
  while (!existsSync(lock)) await new Promise(resolve => setImmediate(resolve))
  const session = await ctx.sessions.resume('s0')
  expect(session.seq).toBe(26)
  expect(existsSync(`${path}.gz`)).toBe(false)
  expect(filesIn(folder).filter(name => name.endsWith('.tmp'))).toEqual([])
  expect(records.filter(({ text }) => !text.includes('numbered anew'))).toEqual([])
})
