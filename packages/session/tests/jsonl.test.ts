import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { textOf } from '@cambium/llm'
import type { Session } from '@cambium/session'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, filesIn, linesOf, logOf, scratch, user } from './boot.ts'
import { answer, call } from './script.ts'

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })
const texts = (session: Session) => session.deriveMessages().map(textOf)

function useFakeTimers() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

function turn(session: Session, number: number, text: string) {
  session.append('turn/start', { turn: number })
  say(session, text)
  session.append('turn/end', { turn: number, reason: { kind: 'completed' } })
}

describe('writing', () => {
  it('nothing is written before the first event', async () => {
    const folder = scratch()
    const { ctx, stop } = await bootStore(join(folder, 'sessions'))
    const session = ctx.sessions.create()
    await ctx.sessions.flush(session)
    await ctx.sessions.close(session)
    await stop()
    expect(filesIn(folder)).toEqual([])
  })

  it('a log is a header and one event a line, for the owner only', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    const session = ctx.sessions.create('one', { cwd: '/work/my shop' })
    say(session, 'hello')
    await ctx.sessions.flush(session)
    const path = logOf(folder, 'one')
    expect(path).toMatch(/work-my-shop-[0-9a-f]{8}\/one\.jsonl$/)
    expect(linesOf(path)).toEqual([
      { type: 'session', ...session.header },
      JSON.parse(JSON.stringify(session.events()[0])),
    ])
    if (process.platform !== 'win32') expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  it('without a flush, events reach the file together within the bounded delay', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder, { batchMs: 5 })
    useFakeTimers()
    const session = ctx.sessions.create('one')
    turn(session, 1, 'hello')
    vi.advanceTimersByTime(4)
    expect(filesIn(folder)).toEqual([])
    vi.advanceTimersByTime(1)
    expect(linesOf(logOf(folder, 'one'))).toHaveLength(4)
  })

  it('characters that break weak readers stay on one line and come back', async () => {
    const folder = scratch()
    const { ctx, stop } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    const text = 'a\u2028b\u2029c\u0000\u001b[31m\ud800 d\r\n\u{1f600}'
    say(session, text)
    await stop()
    const bytes = readFileSync(logOf(folder, 'one'))
    expect(bytes.toString('utf8').split(/[\n\u2028\u2029]/)).toHaveLength(3)
    expect(Buffer.from(bytes.toString('utf8')).equals(bytes)).toBe(true)
    const again = await bootStore(folder)
    expect(texts(await again.ctx.sessions.resume('one'))).toEqual([text])
  })

  it('a failed write keeps everything in order, tells the flush what to do, and leaves no half line', async () => {
    const folder = scratch()
    const { ctx, records } = await bootStore(join(folder, 'sessions'))
    const session = ctx.sessions.create('one')
    say(session, 'first')
    writeFileSync(join(folder, 'sessions'), 'in the way')
    await expect(ctx.sessions.flush(session)).rejects.toMatchObject({
      code: 'STORE_PATH',
      message: expect.stringMatching(/in the way|is a file/),
    })
    say(session, 'second')
    rmSync(join(folder, 'sessions'))
    await ctx.sessions.flush(session)
    expect(linesOf(logOf(folder, 'one')).map(line => line['seq'])).toEqual([undefined, 0, 1])
    expect(records).toEqual([])
  })

  it.skipIf(process.platform === 'win32')('a folder that cannot be written is named', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(join(folder, 'sessions'))
    const session = ctx.sessions.create()
    say(session, 'x')
    chmodSync(folder, 0o555)
    // The administrator may write anywhere, so the test steps down for a moment.
    const root = process.getuid?.() === 0
    if (root) process.seteuid?.(65_534)
    try {
      await expect(ctx.sessions.flush(session)).rejects.toMatchObject({
        code: 'STORE_READ_ONLY',
        where: expect.stringContaining(folder),
      })
    } finally {
      if (root) process.seteuid?.(0)
      chmodSync(folder, 0o755)
    }
  })

  it('another program that wrote to the log is noticed, and its bytes stay', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    say(session, 'mine')
    await ctx.sessions.flush(session)
    const path = logOf(folder, 'one')
    appendFileSync(path, '{"type":"test/foreign","data":1}\n')
    say(session, 'mine too')
    await expect(ctx.sessions.flush(session)).rejects.toMatchObject({ code: 'SESSION_CONFLICT', where: path })
    expect(linesOf(path)).toHaveLength(3)
    // The conflict is answered: nothing of ours may be pending when the root ends.
    writeFileSync(path, readFileSync(path, 'utf8').replace(/.*foreign.*\n/, ''))
    await ctx.sessions.flush(session)
    expect(linesOf(path)).toHaveLength(3)
  })

  it('a log of the same name is never overwritten', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    say(first.ctx.sessions.create('same'), 'first')
    await first.stop()
    const second = await bootStore(folder)
    const session = second.ctx.sessions.create('same', { cwd: '/elsewhere' })
    say(session, 'second')
    await expect(second.ctx.sessions.flush(session)).rejects.toMatchObject({ code: 'SESSION_EXISTS' })
    await expect(second.ctx.sessions.close(session)).rejects.toMatchObject({ code: 'SESSION_EXISTS' })
    expect(texts(await second.ctx.sessions.resume('same'))).toEqual(['first'])
  })

  it('an answer that is being streamed is journalled beside the log and gone once it is logged', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    useFakeTimers()
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    const at = { turn: 1, step: 1, attempt: 1 }
    session.publish('assistant/chunk', { ...at, chunk: { type: 'block-start', index: 0, blockType: 'text' } })
    session.publish('assistant/chunk', { ...at, chunk: { type: 'text-delta', index: 0, text: 'So far' } })
    const journal = () => logOf(folder, 'one').replace(/jsonl$/, 'partial')
    vi.advanceTimersByTime(1_000)
    expect(JSON.parse(readFileSync(journal(), 'utf8'))).toEqual({ ...at, content: [{ type: 'text', text: 'So far' }] })
    // However much is streamed, it is journalled once a second.
    const versions = new Set<number>()
    for (let tick = 0; tick < 300; tick++) {
      session.publish('assistant/chunk', { ...at, chunk: { type: 'text-delta', index: 0, text: '.' } })
      vi.advanceTimersByTime(10)
      versions.add(statSync(journal()).ino)
    }
    expect(versions.size).toBeGreaterThan(1)
    expect(versions.size).toBeLessThanOrEqual(4)
    expect(JSON.parse(readFileSync(journal(), 'utf8')).content[0].text.length).toBeGreaterThan(200)
    session.append('assistant/message', answer(1, 'So far so good'))
    await ctx.sessions.flush(session)
    expect(existsSync(journal())).toBe(false)
  })
})

describe('resuming', () => {
  it('a session comes back with its header, numbers and views, and goes on', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const before = first.ctx.sessions.create('one', { cwd: '/work', header: { origin: 'subagent', depth: 2 } })
    turn(before, 1, 'hello')
    before.append('user/message', { message: user('sum me up') })
    before.append('context/replaced', { from: 1, to: 3, message: user('summed up') })
    await first.stop()

    const { ctx } = await bootStore(folder)
    const told: unknown[] = []
    ctx.on('session/event', (_session, event) => told.push(event.type))
    const session = await ctx.sessions.resume('one')
    expect(session.header).toEqual(before.header)
    expect(session.events().slice(0, 5)).toEqual(before.events())
    expect(texts(session)).toEqual(['summed up'])
    expect(session.lastTurn).toBe(1)
    expect(told).toEqual(['session/resumed'])
    expect(() => Object.assign(session.events()[0]!, { seq: 9 })).toThrow(TypeError)
    turn(session, 2, 'again')
    await ctx.sessions.flush(session)
    expect(
      linesOf(logOf(folder, 'one'))
        .slice(1)
        .map(line => line['seq']),
    ).toEqual([...Array(9).keys()])
  })

  it('what was open is closed in the log, and a second resume finds nothing to close', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const session = first.ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, '', 'a', 'b'))
    session.append('tool/call', call(1, 'a'))
    await first.stop()
    const second = await bootStore(folder)
    const resumed = await second.ctx.sessions.resume('one')
    const types = ['tool/result', 'tool/result', 'step/end', 'turn/end', 'session/resumed']
    expect(resumed.events(4).map(event => event.type)).toEqual(types)
    expect(resumed.open).toEqual({ turn: 0, step: 0 })
    await second.stop()
    const third = await bootStore(folder)
    expect((await third.ctx.sessions.resume('one')).events(9).map(event => event.type)).toEqual(['session/resumed'])
  })

  it('an unknown id, an id that is no name, and a missing store say so', async () => {
    const folder = scratch()
    const { ctx, store } = await bootStore(folder)
    await expect(ctx.sessions.resume('nobody')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
    await expect(ctx.sessions.resume('../../etc/passwd')).rejects.toMatchObject({ code: 'SESSION_ID_INVALID' })
    await store.dispose()
    await expect(ctx.sessions.resume('nobody')).rejects.toMatchObject({ fix: expect.stringContaining('jsonl') })
  })

  it('a live session cannot be resumed; one on its way out is waited for', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    say(session, 'hello')
    await ctx.sessions.flush(session)
    await expect(ctx.sessions.resume('one')).rejects.toMatchObject({ code: 'SESSION_DUPLICATE' })
    void ctx.sessions.close(session)
    const [a, b] = await Promise.allSettled([ctx.sessions.resume('one'), ctx.sessions.resume('one')])
    expect([a.status, b.status].sort()).toEqual(['fulfilled', 'rejected'])
    expect(ctx.sessions.list()).toHaveLength(1)
  })

  it('two that resume one session at once: one gets it, the other is told why, and nothing is repaired twice', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const session = first.ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    await first.stop()
    const { ctx } = await bootStore(folder)
    const both = await Promise.allSettled([ctx.sessions.resume('one'), ctx.sessions.resume('one')])
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    const refused = both.find(result => result.status === 'rejected')
    expect(['SESSION_BUSY', 'SESSION_DUPLICATE']).toContain(refused?.reason.code)
    await ctx.sessions.flush(ctx.sessions.get('one')!)
    expect(linesOf(logOf(folder, 'one')).filter(line => line['type'] === 'turn/end')).toHaveLength(1)
  })

  it('a veto of a resumed session gives the lease back', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    say(first.ctx.sessions.create('one'), 'hello')
    await first.stop()
    const { ctx } = await bootStore(folder)
    const allow = ctx.on('session/created', () => {
      throw new Error('no')
    })
    await expect(ctx.sessions.resume('one')).rejects.toThrow('no')
    expect(filesIn(folder).filter(path => path.endsWith('.lock'))).toEqual([])
    allow()
    expect(texts(await ctx.sessions.resume('one'))).toEqual(['hello'])
  })

  it('another process’s session is forked from what it has stored', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const parent = first.ctx.sessions.create('parent')
    turn(parent, 1, 'one')
    parent.append('turn/start', { turn: 2 })
    await first.ctx.sessions.flush(parent)
    const second = await bootStore(folder)
    await expect(second.ctx.sessions.resume('parent')).rejects.toMatchObject({
      code: 'SESSION_BUSY',
      fix: expect.stringContaining('fork'),
    })
    const child = second.ctx.sessions.fork(await second.ctx.sessionPersistence.read('parent'))
    expect(child.header.parent).toEqual({ id: 'parent', events: 3 })
    turn(child, 2, 'other')
    await second.ctx.sessions.flush(child)
    expect(linesOf(logOf(folder, child.id))).toHaveLength(7)
  })
})

describe('the plugin', () => {
  it('leaves nothing but the logs: no lock, no timer, no listener', async () => {
    const folder = scratch()
    const before = process.listenerCount('exit')
    const { ctx, store } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    say(session, 'hello')
    await ctx.sessions.flush(session)
    expect(filesIn(folder).map(path => path.split('.').pop())).toEqual(['jsonl', 'lock'])
    expect(process.listenerCount('exit')).toBe(before + 1)
    await store.dispose()
    expect(filesIn(folder).map(path => path.split('.').pop())).toEqual(['jsonl'])
    expect(process.listenerCount('exit')).toBe(before)
    await ctx.sessions.flush(session)
  })

  it('a reloaded store goes on with the sessions that are live, losing nothing in between', async () => {
    const folder = scratch()
    const { ctx, store } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    const fresh = ctx.sessions.create('fresh')
    say(session, 'before')
    await store.dispose()
    say(session, 'between')
    say(fresh, 'between')
    const jsonl = await import('@cambium/session/jsonl')
    const again = ctx.plugin(jsonl, jsonl.Config({ folder } as never))
    say(session, 'meanwhile')
    await again
    say(session, 'after')
    await ctx.sessions.flush(session)
    await ctx.sessions.flush(fresh)
    expect(linesOf(logOf(folder, 'one')).map(line => line['seq'])).toEqual([undefined, 0, 1, 2, 3])
    expect(linesOf(logOf(folder, 'fresh'))).toHaveLength(2)
  })

  it('deletes a session with all its files, but never one that is being written', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    say(session, 'hello')
    await ctx.sessions.flush(session)
    const own = ctx.sessions.folder(session)
    expect(own.startsWith(dirname(logOf(folder, 'one')))).toBe(true)
    mkdirSync(join(own, 'deep'), { recursive: true })
    writeFileSync(join(own, 'deep', 'output.txt'), 'too long for a log')
    const deleted: string[] = []
    ctx.on('session/deleted', id => void deleted.push(id))
    await expect(ctx.sessionPersistence.delete('one')).rejects.toMatchObject({ code: 'SESSION_BUSY' })
    await ctx.sessions.close(session)
    expect(filesIn(folder)).toHaveLength(2)
    expect(deleted).toEqual([])
    await ctx.sessionPersistence.delete('one')
    expect(filesIn(folder)).toEqual([])
    expect(deleted).toEqual(['one'])
    await expect(ctx.sessionPersistence.delete('one')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })
})

describe('the list', () => {
  it('shows the last written first, by directory or all, with first words and holder', async () => {
    const folder = scratch()
    const { ctx } = await bootStore(folder)
    const make = async (id: string, cwd: string, text: string) => {
      const session = ctx.sessions.create(id, { cwd })
      session.append('inbox/changed', { inserted: [{ target: 'next-turn', message: user(text) }] })
      await ctx.sessions.flush(session)
      return session
    }
    await ctx.sessions.close(await make('a', '/one', 'fix the\n  \u001b[31mtests\u001b[0m'))
    await make('b', '/two', 'x'.repeat(300_000))
    utimesSync(logOf(folder, 'a'), new Date(), new Date(Date.now() - 60_000))
    const list = await ctx.sessionPersistence.list()
    expect(list.map(({ id, cwd }) => [id, cwd])).toEqual([
      ['b', '/two'],
      ['a', '/one'],
    ])
    expect(list[0]).toMatchObject({ title: `${'x'.repeat(79)}…`, holder: expect.stringContaining(`${process.pid}`) })
    expect(list[1]?.title).toBe('fix the [31mtests [0m')
    expect(list[1]?.holder).toBeUndefined()
    expect((await ctx.sessionPersistence.list({ cwd: '/one' })).map(({ id }) => id)).toEqual(['a'])
    expect((await ctx.sessionPersistence.list({ limit: 1 })).map(({ id }) => id)).toEqual(['b'])
  })

  it('bad files are shown as damaged with their path, and hide nothing', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    for (let i = 0; i < 20; i++) say(first.ctx.sessions.create(`good-${i}`), `prompt ${i}`)
    await first.stop()
    const workspace = dirname(logOf(folder, 'good-0'))
    writeFileSync(join(workspace, 'empty.jsonl'), '')
    writeFileSync(join(workspace, 'random.jsonl'), Buffer.from([0xff, 0, 0x80, 10, 200, 10]))
    writeFileSync(join(workspace, 'headless.jsonl'), '{"seq":0,"time":1,"type":"turn/start","data":{"turn":1}}\n')
    writeFileSync(
      join(workspace, 'newer.jsonl'),
      '{"type":"session","version":9,"id":"newer","cwd":"/","createdAt":1}\n',
    )
    writeFileSync(join(workspace, 'good-1.jsonl.zst'), 'copy')
    writeFileSync(join(workspace, 'notes.txt'), 'foreign')
    mkdirSync(join(workspace, 'folder.jsonl'))
    const { ctx } = await bootStore(folder)
    const list = await ctx.sessionPersistence.list()
    expect(
      list
        .filter(({ damaged }) => !damaged)
        .map(({ id }) => id)
        .sort(),
    ).toEqual(Array.from({ length: 20 }, (_, i) => `good-${i}`).sort())
    expect(Object.fromEntries(list.filter(({ damaged }) => damaged).map(({ id, damaged }) => [id, damaged]))).toEqual({
      empty: expect.stringContaining('empty'),
      random: expect.stringContaining('header'),
      headless: expect.stringContaining('header'),
      newer: expect.stringContaining('format 9'),
      folder: expect.stringContaining('not a file'),
    })
    for (const [id, code] of [
      ['empty', 'SESSION_DAMAGED'],
      ['random', 'SESSION_DAMAGED'],
      ['headless', 'SESSION_DAMAGED'],
      ['folder', 'SESSION_DAMAGED'],
      ['newer', 'SESSION_VERSION'],
    ]) {
      await expect(ctx.sessions.resume(id!)).rejects.toMatchObject({ code, where: join(workspace, `${id}.jsonl`) })
    }
    expect(filesIn(folder).filter(path => path.endsWith('.lock'))).toEqual([])
    expect(existsSync(join(workspace, 'random.jsonl'))).toBe(true)
  })

  it.skipIf(process.platform === 'win32')(
    'a file that nobody may read is shown as such, and hides nothing',
    async () => {
      const folder = scratch()
      const first = await bootStore(folder)
      for (const id of ['open', 'closed']) say(first.ctx.sessions.create(id), 'x')
      await first.stop()
      const closed = logOf(folder, 'closed')
      for (const path of [folder, dirname(closed)]) chmodSync(path, 0o755)
      chmodSync(logOf(folder, 'open'), 0o644)
      chmodSync(closed, 0o000)
      const { ctx } = await bootStore(folder)
      const root = process.getuid?.() === 0
      if (root) process.seteuid?.(65_534)
      try {
        const list = await ctx.sessionPersistence.list()
        expect(list.map(({ id, damaged }) => [id, damaged]).sort()).toEqual([
          ['closed', expect.stringMatching(/may not be|permission|read/)],
          ['open', undefined],
        ])
        await expect(ctx.sessionPersistence.read('closed')).rejects.toMatchObject({ where: closed })
      } finally {
        if (root) process.seteuid?.(0)
      }
      expect(existsSync(closed)).toBe(true)
    },
  )

  it('many sessions and a huge one are listed without reading them', async () => {
    const folder = scratch()
    const workspace = join(folder, 'shop-00000000')
    mkdirSync(workspace)
    const header = (id: string) => `{"type":"session","version":1,"id":"${id}","createdAt":1,"cwd":"/shop"}\n`
    const prompt = `${JSON.stringify({ seq: 0, time: 1, type: 'user/message', data: { message: user('hello there') } })}\n`
    for (let i = 0; i < 400; i++) writeFileSync(join(workspace, `s${i}.jsonl`), header(`s${i}`) + prompt)
    const huge = join(workspace, 'huge.jsonl')
    writeFileSync(huge, header('huge') + prompt)
    // A hole: the size of a real one, without its bytes.
    truncateSync(huge, 200 << 20)
    const { ctx } = await bootStore(folder)
    const memory = process.memoryUsage().rss
    const list = await ctx.sessionPersistence.list()
    expect(list).toHaveLength(401)
    expect(list.every(({ title }) => title === 'hello there')).toBe(true)
    expect(process.memoryUsage().rss - memory).toBeLessThan(100 << 20)
  })
})
