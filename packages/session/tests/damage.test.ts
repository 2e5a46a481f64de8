import { appendFileSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { textOf } from '@cambium/llm'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bootStore, linesOf, logOf, scratch, user } from './boot.ts'
import { answer, call } from './script.ts'

const texts = (session: { deriveMessages(): readonly Parameters<typeof textOf>[0][] }) =>
  session.deriveMessages().map(textOf)

/** A stored session whose messages say m0, m1, …; returns its path. */
async function stored(folder: string, id: string, count: number, text = (i: number) => `m${i}`) {
  const { ctx, stop } = await bootStore(folder)
  const session = ctx.sessions.create(id)
  for (let i = 0; i < count; i++) session.append('user/message', { message: user(text(i), `id${i}`) })
  await stop()
  return logOf(folder, id)
}

it('a log torn at any byte of its last line is repaired before the first append', async () => {
  const folder = scratch()
  const path = await stored(folder, 'torn', 3, i => `m${i} grün \u{1f331}`)
  const whole = readFileSync(path)
  const start = whole.lastIndexOf('\n', whole.length - 2) + 1
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: start, max: whole.length }), fc.boolean(), async (cut, blank) => {
      writeFileSync(path, Buffer.concat([whole.subarray(0, cut), Buffer.from(blank ? '\n' : '')]))
      // Without its line end alone, the last event is still whole.
      const left = cut >= whole.length - 1 ? 3 : 2
      const first = await bootStore(folder)
      const session = await first.ctx.sessions.resume('torn')
      expect(session.deriveMessages()).toHaveLength(left)
      const notices = session.last('session/resumed')?.data['notices']
      if (left === 3 || cut === start) expect(notices).toBeUndefined()
      else expect(notices).toEqual([expect.stringMatching(blank ? /^line 4 of the log/ : /^the last \d+ bytes/)])
      session.append('user/message', { message: user('new') })
      await first.stop()
      const second = await bootStore(folder)
      const again = await second.ctx.sessions.resume('torn')
      expect(texts(again)).toEqual([
        ...['m0 grün \u{1f331}', 'm1 grün \u{1f331}', 'm2 grün \u{1f331}'].slice(0, left),
        'new',
      ])
      await second.stop()
      expect(
        readFileSync(path, 'utf8')
          .split('\n')
          .filter((line, i) => line && !(blank && i === 3)),
      ).toSatisfy((lines: string[]) => lines.every(line => JSON.parse(line)))
    }),
    {
      numRuns: 60,
      examples: [start, start + 1, whole.length - 2, whole.length - 1, whole.length].map(cut => [cut, false]),
    },
  )
})

it('500 good lines and a half one, a blank one, or zeros: the good ones are there and the tail is mentioned', async () => {
  const folder = scratch()
  const path = await stored(folder, 'long', 500)
  const whole = readFileSync(path)
  for (const tail of ['{"type":"message","da', '\n\n', '\0'.repeat(4_096), Buffer.from([0xe2, 0x80])]) {
    writeFileSync(path, whole)
    appendFileSync(path, tail)
    const { ctx, records, stop } = await bootStore(folder)
    const session = await ctx.sessions.resume('long')
    expect(session.deriveMessages()).toHaveLength(500)
    expect(records.map(record => record.text)).toEqual(
      tail === '\n\n' ? [] : [expect.stringMatching(/the last \d+ bytes .* were dropped/)],
    )
    await stop()
    expect(linesOf(path)).toHaveLength(502)
  }
})

it('unreadable lines in the middle are skipped, named, and kept', async () => {
  const folder = scratch()
  const path = await stored(folder, 'holes', 6)
  const lines = readFileSync(path, 'utf8').split('\n')
  lines[2] = 'garbage'
  lines[4] = '[1,2]'
  lines.splice(6, 0, '', '   ')
  writeFileSync(path, lines.join('\r\n'))
  const { ctx, stop } = await bootStore(folder)
  const session = await ctx.sessions.resume('holes')
  expect(texts(session)).toEqual(['m0', 'm2', 'm4', 'm5'])
  expect(session.last('session/resumed')?.data['notices']).toEqual([
    'lines 3, 5 of the log could not be read and were left out',
    expect.stringContaining('numbered anew'),
  ])
  await stop()
  expect(readFileSync(path, 'utf8')).toContain('garbage')
  const again = await bootStore(folder)
  expect(texts(await again.ctx.sessions.resume('holes'))).toEqual(['m0', 'm2', 'm4', 'm5'])
})

it('gapped and repeated numbers load, and references among events follow', async () => {
  const folder = scratch()
  const path = await stored(folder, 'two-writers', 1)
  const line = (seq: number, type: string, data: unknown) => `${JSON.stringify({ seq, time: 1, type, data })}\n`
  appendFileSync(
    path,
    // Two writers, each with a 1 and a 2 of its own; then one goes on at 7 and sums up what it calls 1 to 2.
    line(1, 'user/message', { message: user('a1') }) +
      line(1, 'user/message', { message: user('b1') }) +
      line(2, 'user/message', { message: user('b2') }) +
      line(7, 'context/replaced', { from: 1, to: 2, message: user('sum') }),
  )
  const first = await bootStore(folder)
  const session = await first.ctx.sessions.resume('two-writers')
  expect(texts(session)).toEqual(['m0', 'a1', 'sum'])
  expect(session.events().map(event => event.seq)).toEqual([0, 1, 2, 3, 4, 5])
  // Written after the repair, in the numbers that were given then.
  session.append('context/replaced', { from: 1, to: 4, message: user('all') })
  await first.stop()
  const second = await bootStore(folder)
  expect(texts(await second.ctx.sessions.resume('two-writers'))).toEqual(['m0', 'all'])
})

it('events of unknown types and of broken data are kept as they are, skipped by the views, and mentioned where it matters', async () => {
  const folder = scratch()
  const path = await stored(folder, 'foreign', 1)
  const foreign = [
    '{"seq":1,"time":5,"type":"theirs/thing","data":{"any":[1,{"thing":null}]}}',
    '{"seq":2,"time":5,"type":"theirs/vital","data":7,"ignorable":false}',
    '{"seq":3,"time":5,"type":"user/message","data":{"message":"broken"}}',
    '{"seq":4,"time":5,"type":"turn/start","data":null}',
    '{"seq":5,"time":5,"type":"context/replaced","data":{"from":90,"to":91,"message":{"id":"x","role":"user","content":[],"source":{"kind":"user"}}}}',
  ]
  appendFileSync(path, `${foreign.join('\n')}\n`)
  const { ctx, stop } = await bootStore(folder)
  const session = await ctx.sessions.resume('foreign')
  expect(texts(session)).toEqual(['m0'])
  expect(session.transcript()).toHaveLength(2)
  expect(session.events(1)[0]).toEqual(JSON.parse(foreign[0]!))
  const notices = session.last('session/resumed')?.data['notices'] as string[]
  expect(notices.join('\n')).toMatch(
    /theirs\/vital.*not mounted.*\n.*event 3 \(user\/message\).*\n.*event 4 \(turn\/start\)/,
  )
  expect(notices.join('\n')).not.toContain('theirs/thing')
  expect(ctx.sessions.fork(session).seq).toBe(session.seq)
  await stop()
  expect(readFileSync(path, 'utf8')).toContain(foreign.join('\n'))
})

it('a line that is too long is skipped with a notice and never held in memory', async () => {
  const folder = scratch()
  const path = await stored(folder, 'wide', 2)
  const before = statSync(path).size
  const filler = Buffer.alloc(1 << 20, 'x')
  for (let i = 0; i < 96; i++) appendFileSync(path, filler)
  appendFileSync(
    path,
    `\n${JSON.stringify({ seq: 2, time: 1, type: 'user/message', data: { message: user('after') } })}\n`,
  )
  const { ctx } = await bootStore(folder, { maxLineBytes: 1 << 20 })
  const memory = process.memoryUsage().rss
  const session = await ctx.sessions.resume('wide')
  expect(texts(session)).toEqual(['m0', 'm1', 'after'])
  expect(session.last('session/resumed')?.data['notices']).toEqual([
    `line 4 of the log is longer than ${1 << 20} bytes and was left out`,
  ])
  expect(process.memoryUsage().rss - memory).toBeLessThan(40 << 20)
  expect(before).toBeLessThan(2_000)
})

it('reading takes no lease, changes nothing, and says nothing of a line that is being written', async () => {
  const folder = scratch()
  const { ctx } = await bootStore(folder)
  const session = ctx.sessions.create('one')
  session.append('user/message', { message: user('m0') })
  await ctx.sessions.flush(session)
  const path = logOf(folder, 'one')
  const other = await bootStore(folder)
  appendFileSync(path, '{"seq":1,')
  const bytes = readFileSync(path)
  expect(await other.ctx.sessionPersistence.read('one')).toMatchObject({ events: [{ seq: 0 }], notices: [] })
  expect(readFileSync(path)).toEqual(bytes)
  writeFileSync(path, bytes.subarray(0, bytes.lastIndexOf('\n') + 1))
  expect(dirname(path)).toBe(join(folder, path.split('/').at(-2)!))
})

it('a message whose blocks lack what they must hold is left out, mentioned, and refused at append', async () => {
  const folder = scratch()
  const path = await stored(folder, 'blocks', 1)
  const message = (role: string, block: unknown) => ({ id: 'x', role, content: [block], source: { kind: 'user' } })
  const broken = [
    message('user', { type: 'text' }),
    message('user', { type: 'txet', text: 'x' }),
    message('user', { type: 'image', data: 5, mediaType: 'image/png' }),
    message('user', { type: '__proto__' }),
    message('user', { type: 'tool-result', toolCallId: 'a', content: [{ type: 'text', text: null }] }),
    message('user', { type: 'tool-call', id: 'a', name: 'b', arguments: '' }),
  ]
  const line = (data: unknown) => JSON.stringify({ seq: 0, time: 1, type: 'user/message', data })
  appendFileSync(path, `${broken.map(message => line({ message })).join('\n')}\n`)
  const call = { type: 'tool-call', id: 'a', name: 'b', arguments: {} }
  const answer = { turn: 1, step: 1, message: message('assistant', call), finish: 'stop' }
  appendFileSync(path, `${JSON.stringify({ seq: 0, time: 1, type: 'assistant/message', data: answer })}\n`)
  const { ctx } = await bootStore(folder)
  const session = await ctx.sessions.resume('blocks')
  expect(texts(session)).toEqual(['m0'])
  const notices = session.last('session/resumed')?.data['notices'] as string[]
  expect(notices.filter(text => /^event \d \((user|assistant)\/message\) is left out/.test(text))).toHaveLength(7)
  for (const message of broken) {
    expect(() => session.append('user/message', { message: message as never })).toThrow('SESSION_EVENT_INVALID')
  }
})

it('a line that nests without end or holds an endless number is skipped, and such data is refused at append', async () => {
  const folder = scratch()
  const path = await stored(folder, 'deep', 1)
  const event = (data: string) => `{"seq":1,"time":1,"type":"theirs/thing","data":${data}}\n`
  appendFileSync(path, event(`${'['.repeat(50_000)}${']'.repeat(50_000)}`) + event('{"n":1e999}') + event('[[1]]'))
  const { ctx } = await bootStore(folder)
  const session = await ctx.sessions.resume('deep')
  expect(session.events(1).map(({ type }) => type)).toEqual(['theirs/thing', 'session/resumed'])
  expect(session.last('session/resumed')?.data['notices']).toContain(
    'lines 3, 4 of the log could not be read and were left out',
  )
  let nested: unknown[] = []
  for (let i = 0; i < 20_000; i++) nested = [nested]
  expect(() => session.append('session/resumed', { nested } as never)).toThrow('JSON_UNSUPPORTED')
  session.append('user/message', { message: user('next') })
  await ctx.sessions.flush(session)
  expect(ctx.sessions.fork(session).deriveMessages().map(textOf)).toEqual(['m0', 'next'])
})

it('a journalled answer that was damaged is passed over', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  const session = ctx.sessions.create('half')
  session.append('turn/start', { turn: 1 })
  session.append('step/start', { turn: 1, step: 1 })
  await ctx.sessions.flush(session)
  const path = logOf(folder, 'half')
  const log = readFileSync(path)
  await stop()
  const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
  for (const content of ['[null]', '[{"type":"text"}]', '[{"type":"text","text":5}]', '{}', deep]) {
    writeFileSync(path, log)
    writeFileSync(path.replace(/jsonl$/, 'partial'), `{"turn":1,"step":1,"attempt":1,"content":${content}}`)
    const next = await bootStore(folder)
    const again = await next.ctx.sessions.resume('half')
    expect(again.deriveMessages()).toEqual([])
    expect(again.last('turn/end')?.data.reason).toEqual({ kind: 'interrupted' })
    await next.stop()
  }
})

it('a call that was running is answered also when the line that began its step or its turn is lost', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  const session = ctx.sessions.create('cut')
  session.append('turn/start', { turn: 1 })
  session.append('step/start', { turn: 1, step: 2 })
  session.append('assistant/message', answer(2, 'let me see', 'a', 'b'))
  session.append('tool/call', call(2, 'a'))
  await ctx.sessions.flush(session)
  const path = logOf(folder, 'cut')
  const lines = readFileSync(path, 'utf8').split('\n')
  await stop()
  for (const lost of ['step/start', 'assistant/message', 'turn/start']) {
    writeFileSync(path, lines.filter(line => !line.includes('step/start') && !line.includes(`"${lost}"`)).join('\n'))
    const next = await bootStore(folder)
    const again = await next.ctx.sessions.resume('cut')
    expect(again.last('turn/end')?.data.reason).toEqual({ kind: 'interrupted' })
    expect(again.last('tool/result')?.data).toMatchObject({ turn: 1, step: 2 })
    expect(again.last('step/end')?.data).toEqual({ turn: 1, step: 2 })
    await next.stop()
  }
})
