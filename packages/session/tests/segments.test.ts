import { appendFileSync, existsSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { textOf } from '@cambium/llm'
import type { Session } from '@cambium/session'
import { FORMAT_VERSION, migrations } from '@cambium/session/jsonl'
import { expect, it, onTestFinished } from 'vitest'
import { bootStore, filesIn, linesOf, logOf, scratch, user } from './boot.ts'
import { failure, snapshot, watchDisk } from './disk.ts'

const ROTATE = { rotateBytes: 600 }
const texts = (session: Session) => session.deriveMessages().map(textOf)
const names = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `m${i + from}`)
const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })

/** Says m0, m1, … with a flush after each, so that the log is divided every few messages. */
async function talk(session: Session, flush: () => Promise<void>, count: number, from = 0) {
  for (const text of names(count, from)) {
    say(session, text)
    await flush()
  }
}

/** A stored session of 20 messages in several segments. */
async function divided(folder: string, id = 'one') {
  const { ctx, stop } = await bootStore(folder, ROTATE)
  const session = ctx.sessions.create(id)
  await talk(session, () => ctx.sessions.flush(session), 20)
  await stop()
  const path = logOf(folder, id)
  const segments = filesIn(join(dirname(path), `${id}.segments`))
  return { path, segments, segment: (number: number) => join(dirname(path), `${id}.segments`, `${number}.jsonl`) }
}

async function reopened(folder: string, id = 'one') {
  const { ctx, records, stop } = await bootStore(folder, ROTATE)
  const session = await ctx.sessions.resume(id)
  return { ctx, records, session, stop, notices: (session.last('session/resumed')?.data['notices'] ?? []) as string[] }
}

it('a log that grows is closed in segments, each readable alone, and the newest events stand under its own name', async () => {
  const folder = scratch()
  const { path, segments, segment } = await divided(folder)
  expect(segments.length).toBeGreaterThan(2)
  const parts = [...segments.map((_, index) => linesOf(segment(index + 1))), linesOf(path)]
  let next = 0
  for (const [index, [header, ...events]] of parts.entries()) {
    expect(header).toMatchObject({ type: 'session', version: FORMAT_VERSION, id: 'one', cwd: process.cwd() })
    if (index) expect(header).toMatchObject({ segment: index + 1, from: next, title: 'm0' })
    for (const event of events) expect(event['seq']).toBe(next++)
  }
  expect(next).toBe(20)
  expect(readFileSync(path, 'utf8')).toContain('m19')
  const again = await reopened(folder)
  expect(texts(again.session)).toEqual(names(20))
  expect(again.notices).toEqual([])
  expect(await again.ctx.sessionPersistence.list()).toMatchObject([{ id: 'one', title: 'm0', path }])
  await talk(again.session, () => again.ctx.sessions.flush(again.session), 5, 20)
  await again.stop()
  const fork = await reopened(folder)
  expect(texts(fork.session)).toEqual(names(25))
  expect(fork.ctx.sessions.fork(fork.session).seq).toBe(fork.session.seq)
})

it('with rotateBytes 0 a log is never divided', async () => {
  const folder = scratch()
  const { ctx } = await bootStore(folder, { rotateBytes: 0 })
  const session = ctx.sessions.create('one')
  await talk(session, () => ctx.sessions.flush(session), 50)
  expect(filesIn(folder).map(path => path.split('.').pop())).toEqual(['jsonl', 'lock'])
})

it.each([true, false])(
  'a crash at any step of a rotation loses nothing and doubles nothing (links kept: %s)',
  async links => {
    const folder = scratch()
    const { ctx } = await bootStore(folder, ROTATE)
    const session = ctx.sessions.create('one')
    // The next write is due to divide the log, which has been divided once before.
    for (let i = 0; !existsSync(join(dirname(logOr(folder)), 'one.segments', '1.jsonl')) || i % 5; i++) {
      say(session, `m${i}`)
      await ctx.sessions.flush(session)
    }
    const known = texts(session)
    const crashes: { at: string; copy: string; from: number }[] = []
    let waited = 0
    for (let done = false; !done && waited < 10; waited++) {
      say(session, `last-${waited}`)
      await watchDisk(
        folder,
        (call, path) =>
          crashes.push({
            at: `${call} ${path.slice(folder.length)}`,
            copy: snapshot(folder, links),
            from: session.seq - 1,
          }),
        () => ctx.sessions.flush(session),
      )
      done = existsSync(join(dirname(logOr(folder)), 'one.segments', '2.jsonl'))
    }
    expect(crashes.filter(({ at }) => /linkSync|renameSync/.test(at)).length).toBeGreaterThanOrEqual(2)
    for (const { at, copy, from } of crashes) {
      rmSync(join(copy, dirname(logOr(folder)).slice(folder.length), 'one.lock'), { force: true })
      const { session: back, stop, notices } = await reopened(copy)
      // All that an earlier flush had stored; of the one under way, what was written.
      expect([at, texts(back).slice(0, from)]).toEqual([at, texts(session).slice(0, from)])
      expect([at, texts(back).length - from]).toEqual([
        at,
        expect.toSatisfy((more: number) => more === 0 || more === 1),
      ])
      expect([at, notices]).toEqual([at, []])
      say(back, 'after')
      await stop()
      const once = await reopened(copy)
      expect([at, texts(once.session).at(-1), once.notices]).toEqual([at, 'after', []])
      await once.stop()
    }
    expect(texts(session).slice(0, known.length)).toEqual(known)
  },
)

it.each(['ENOSPC', 'EIO', 'EPERM', 'EACCES'])(
  '%s at any step of a rotation puts it off, and all is stored',
  async code => {
    for (let failing = 0, happened = true; happened; failing++) {
      const folder = scratch()
      const { ctx, stop } = await bootStore(folder, ROTATE)
      const session = ctx.sessions.create('one')
      say(session, 'x'.repeat(1_000))
      await ctx.sessions.flush(session)
      say(session, 'second')
      happened = false
      let calls = 0
      await watchDisk(
        folder,
        call => {
          if (call === 'writeSync' || calls++ !== failing) return
          happened = true
          throw failure(code)
        },
        () => ctx.sessions.flush(session).catch(() => {}),
      )
      await ctx.sessions.flush(session)
      say(session, 'third')
      await stop()
      const { session: back, stop: end, notices } = await reopened(folder)
      expect([failing, texts(back).slice(1), notices]).toEqual([failing, ['second', 'third'], []])
      await end()
      expect(filesIn(folder).filter(path => /tmp$/.test(path))).toEqual([])
    }
  },
)

it('a missing, a damaged and a headless segment are said, and the others are there', async () => {
  const folder = scratch()
  const { segment } = await divided(folder)
  const per = linesOf(segment(1)).length - 1
  rmSync(segment(2))
  writeFileSync(segment(3), 'garbage\n')
  const headless = readFileSync(segment(4), 'utf8')
  writeFileSync(segment(4), headless.slice(headless.indexOf('\n') + 1))
  const { ctx } = await bootStore(folder, ROTATE)
  const { events, notices } = await ctx.sessionPersistence.read('one')
  const after = 20 - 3 * per
  expect(notices).toEqual([
    'segment 3 of the log has no header',
    'line 1 of segment 3 of the log could not be read and was left out',
    'segment 4 of the log has no header',
    'segment 2 of the log is missing',
    `${after} events had gapped or repeated numbers and were numbered anew`,
  ])
  expect(events).toHaveLength(20 - 2 * per)
  expect(await ctx.sessionPersistence.list()).toMatchObject([{ id: 'one', title: 'm0' }])
})

it('when the newest file is lost or damaged the segments are still there, and the session goes on', async () => {
  for (const harm of [
    rmSync,
    (path: string) => truncateSync(path, 0),
    (path: string) => writeFileSync(path, '\0\0\0'),
  ]) {
    const folder = scratch()
    const { path, segments } = await divided(folder)
    const lost = linesOf(path).length - 1
    harm(path)
    const first = await reopened(folder)
    expect(texts(first.session)).toEqual(names(20 - lost))
    expect(first.notices.length).toBeGreaterThan(0)
    expect(await first.ctx.sessionPersistence.list()).toMatchObject([{ id: 'one', title: 'm0' }])
    say(first.session, 'after')
    await first.stop()
    const second = await reopened(folder)
    expect(texts(second.session)).toEqual([...names(20 - lost), 'after'])
    expect(filesIn(dirname(path)).length).toBeGreaterThan(segments.length)
    await second.ctx.sessions.close(second.session)
    await second.ctx.sessionPersistence.delete('one')
    expect(filesIn(folder)).toEqual([])
  }
})

it('compressed logs and segments are read, listed, forked and resumed, and searched by zgrep', async () => {
  const folder = scratch()
  const { path, segments, segment } = await divided(folder)
  for (const file of [path, ...segments.map((_, index) => segment(index + 1))]) {
    writeFileSync(`${file}.gz`, gzipSync(readFileSync(file)))
    rmSync(file)
  }
  const first = await bootStore(folder, ROTATE)
  const [summary] = await first.ctx.sessionPersistence.list()
  expect(summary).toMatchObject({ id: 'one', title: 'm0', path: `${path}.gz` })
  const child = first.ctx.sessions.fork(await first.ctx.sessionPersistence.read('one'))
  expect(texts(child)).toEqual(names(20))
  await first.stop()
  const second = await reopened(folder)
  expect([texts(second.session), second.notices]).toEqual([names(20), []])
  say(second.session, 'after')
  await second.stop()
  // The bytes that were there stay; the new ones are plain.
  expect(linesOf(path).map(line => line['type'])).toEqual(['session', 'session/resumed', 'user/message'])
  expect(existsSync(`${segment(segments.length + 1)}.gz`)).toBe(true)
  const third = await reopened(folder)
  expect([texts(third.session), third.notices]).toEqual([[...names(20), 'after'], []])
  await third.ctx.sessions.close(third.session)
  await third.ctx.sessionPersistence.delete('one')
  expect(filesIn(folder).filter(name => name.includes('/one.'))).toEqual([])
})

it('of a plain and a compressed copy the whole one counts, and it is said', async () => {
  for (const whole of ['plain', 'compressed'] as const) {
    const folder = scratch()
    const { ctx, stop } = await bootStore(folder)
    const session = ctx.sessions.create('one')
    await talk(session, () => ctx.sessions.flush(session), 10)
    await stop()
    const path = logOf(folder, 'one')
    const bytes = readFileSync(path)
    const half = bytes.subarray(0, bytes.length / 2)
    writeFileSync(`${path}.gz`, gzipSync(whole === 'plain' ? half : bytes))
    if (whole === 'compressed') writeFileSync(path, half)
    const first = await reopened(folder)
    expect([whole, texts(first.session)]).toEqual([whole, names(10)])
    expect(first.notices).toEqual([expect.stringContaining(`the ${whole} one counts`)])
    expect(await first.ctx.sessionPersistence.list()).toHaveLength(1)
    say(first.session, 'after')
    await first.stop()
    const second = await reopened(folder)
    expect([whole, texts(second.session)]).toEqual([whole, [...names(10), 'after']])
  }
})

it('a compressed log that was cut off gives what it holds', async () => {
  const folder = scratch()
  const { path } = await divided(folder)
  const packed = gzipSync(readFileSync(path))
  rmSync(path)
  writeFileSync(`${path}.gz`, packed.subarray(0, packed.length - 20))
  const { session, notices } = await reopened(folder)
  expect(notices.join('\n')).toMatch(/is damaged: it could be read up to its line/)
  expect(texts(session).length).toBeGreaterThanOrEqual(15)
})

it('a log of an older format is read through the steps that lead from it, and goes on in a new segment', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  say(ctx.sessions.create('one'), 'of today')
  await stop()
  const path = logOf(folder, 'one')
  // Made up: format 0 wrote `kind` for `type`, seconds for milliseconds, and a note that says nothing any more.
  const old = [
    '{"type":"session","version":0,"id":"one","made":7,"cwd":"/old"}',
    '{"seq":0,"time":1,"kind":"user/message","data":{"message":{"id":"a","role":"user","content":[{"type":"text","text":"of old"}],"source":{"kind":"user"}}}}',
    '{"seq":1,"time":2,"kind":"note"}',
    '{"seq":1,"time":3,"kind":"theirs/thing","data":{"b":1,"a":[2]}}',
    'garbage',
  ]
  writeFileSync(path, `${old.join('\n')}\n`)
  const none = await bootStore(folder)
  await expect(none.ctx.sessions.resume('one')).rejects.toMatchObject({ code: 'SESSION_VERSION' })
  expect((await none.ctx.sessionPersistence.list())[0]?.damaged).toContain('format 0')
  await none.stop()

  migrations.set(0, ({ type, kind, made, time, ...line }) => {
    if (type === 'session') return [{ type, ...line, createdAt: Number(made) * 1_000 }]
    return kind === 'note' ? [] : [{ ...line, type: String(kind), time: Number(time) * 1_000 }]
  })
  onTestFinished(() => void migrations.delete(0))
  const first = await reopened(folder)
  expect(first.session.header).toMatchObject({ version: FORMAT_VERSION, cwd: '/old', createdAt: 7_000 })
  expect(first.session.events().map(({ seq, time, type }) => [seq, time, type])).toEqual([
    [0, 1_000, 'user/message'],
    [1, 3_000, 'theirs/thing'],
    [2, expect.any(Number), 'session/resumed'],
  ])
  expect(first.notices).toEqual(['line 5 of the log could not be read and was left out'])
  say(first.session, 'of today')
  await first.stop()
  const folderOfOld = join(dirname(path), 'one.segments')
  expect(readFileSync(join(folderOfOld, '1.jsonl'), 'utf8')).toBe(`${old.join('\n')}\n`)
  expect(linesOf(path)[0]).toMatchObject({ version: FORMAT_VERSION, segment: 2, from: 2 })
  const second = await reopened(folder)
  expect(texts(second.session)).toEqual(['of old', 'of today'])
})

it('events of plugins that nobody knows keep their bytes through resuming and rotation, and their data through a fork', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  say(ctx.sessions.create('one'), 'hello')
  await stop()
  const path = logOf(folder, 'one')
  const foreign = '{ "seq":1, "time":5, "type":"theirs/thing", "data":{"n":1.0,"e":1e3,"k":"\\u00e9"}, "more":true }'
  writeFileSync(path, `${readFileSync(path, 'utf8')}${foreign}\n`)
  const { session, ctx: next, stop: end } = await reopened(folder)
  await talk(session, () => next.sessions.flush(session), 20)
  const child = next.sessions.fork(session)
  expect(child.events()[1]).toMatchObject({ type: 'theirs/thing', data: { n: 1, e: 1_000, k: 'é' } })
  await end()
  expect(readFileSync(join(dirname(path), 'one.segments', '1.jsonl'), 'utf8')).toContain(`\n${foreign}\n`)
})

it('a reference follows to the last event that was written by its number, a repeated one that stands in its place too', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  say(ctx.sessions.create('one'), 'm0')
  await stop()
  const path = logOf(folder, 'one')
  const line = (seq: number, type: string, data: unknown) => `${JSON.stringify({ seq, time: 1, type, data })}\n`
  appendFileSync(
    path,
    line(2, 'user/message', { message: user('moved') }) +
      line(2, 'user/message', { message: user('in its place') }) +
      line(9, 'context/replaced', { from: 2, to: 2, message: user('sum') }),
  )
  expect(texts((await reopened(folder)).session)).toEqual(['m0', 'moved', 'sum'])
})

it('a session whose files were moved to another home is whole there', async () => {
  const folder = scratch()
  const { path } = await divided(folder)
  const there = scratch()
  renameSync(dirname(path), join(there, 'anything'))
  const { session } = await reopened(there)
  expect(texts(session)).toEqual(names(20))
})

const logOr = (folder: string) => {
  try {
    return logOf(folder, 'one')
  } catch {
    return join(folder, 'x', 'one.jsonl')
  }
}
