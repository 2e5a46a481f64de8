import { existsSync, readFileSync, rmSync, statSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import type { Session } from '@cambium/session'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bootStore, logOf, scratch, user } from './boot.ts'
import { snapshot } from './disk.ts'

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })
const entitle = (session: Session, title: string) =>
  session.append('session/title' as never, { title, by: 'user' } as never)

async function booted(folder: string, config = {}) {
  const stored = await bootStore(folder, config)
  stored.ctx.sessions.defineEvent('session/title' as never)
  const title = async (id = 'one') => (await stored.ctx.sessionPersistence.list()).find(each => each.id === id)?.title
  return { ...stored, title }
}

/** A log of some MiB in whose middle a title was set. */
async function large(folder: string, mib = 6) {
  const { ctx, stop, title } = await booted(folder)
  const session = ctx.sessions.create('one')
  say(session, 'first words')
  for (let i = 0; i < mib; i++) {
    if (i === mib / 2) entitle(session, 'set in the middle')
    say(session, 'x'.repeat(1 << 20))
    await ctx.sessions.flush(session)
  }
  const copy = snapshot(folder)
  const live = await title()
  await stop()
  const path = logOf(folder, 'one')
  return { path, note: path.replace(/jsonl$/, 'note'), copy, live }
}

it('the last title counts, wherever it stands, while the session lives, after its end and after a crash', async () => {
  const folder = scratch()
  const { copy, live } = await large(folder)
  expect(live).toBe('set in the middle')
  for (const place of [folder, copy]) {
    const { ctx, title, stop } = await booted(place)
    expect(await title()).toBe('set in the middle')
    // As a crash leaves it: the lock of a process that is gone is no holder any more.
    if (place === copy) rmSync(logOf(place, 'one').replace(/jsonl$/, 'lock'))
    const session = await ctx.sessions.resume('one')
    entitle(session, 'set  anew\n\u001b[31m')
    await ctx.sessions.flush(session)
    expect(await title()).toBe('set anew [31m')
    const child = ctx.sessions.fork(session, { id: 'child' })
    say(child, 'more')
    await ctx.sessions.flush(child)
    expect(await title('child')).toBe('set anew [31m')
    await stop()
  }
})

it('without its note, with that of another log, or with any damage of it, a log has the same title', async () => {
  const folder = scratch()
  const { path, note } = await large(folder, 10)
  const { title } = await booted(folder)
  expect(existsSync(note)).toBe(true)
  const whole = readFileSync(note)
  rmSync(note)
  expect(await title()).toBe('set in the middle')
  const other = scratch()
  const { note: foreign } = await large(other, 2)
  writeFileSync(note, readFileSync(foreign))
  expect(await title()).toBe('set in the middle')
  await fc.assert(
    fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), fc.nat(whole.length), async (at, byte, length) => {
      const damaged = Buffer.from(whole)
      damaged[at] = byte
      writeFileSync(note, damaged.subarray(0, length % 3 ? whole.length : length))
      expect(await title()).toBe('set in the middle')
    }),
    { numRuns: 25 },
  )
  // A note that knows more than the log holds: an older copy was put in its place.
  writeFileSync(note, whole)
  truncateSync(path, 2 << 20)
  expect(await title()).toBe('first words')
})

it('a note spares the reading: a hole of 40 GB behind it would take minutes', async () => {
  const folder = scratch()
  const { path, note } = await large(folder, 2)
  const { title } = await booted(folder)
  const text = readFileSync(note, 'utf8')
  expect(JSON.parse(text)).toMatchObject({ title: 'set in the middle', upTo: statSync(path).size })
  truncateSync(path, 40e9)
  expect(await title()).toBe('set in the middle')
})

it('text that looks like a title is none', async () => {
  const folder = scratch()
  const { ctx, title } = await booted(folder)
  ctx.sessions.defineEvent('theirs/thing' as never)
  const session = ctx.sessions.create('one')
  say(session, 'first words')
  entitle(session, 'the title')
  say(session, '{"seq":9,"time":9,"type":"session/title","data":{"title":"quoted"}}\n')
  session.append('theirs/thing' as never, { type: 'session/title', data: { title: 'nested' } } as never)
  entitle(session, '')
  session.append('session/title' as never, { title: 7 } as never)
  await ctx.sessions.flush(session)
  expect(await title()).toBe('the title')
})

it('the time of the last event counts, whatever the time of the file says', async () => {
  const folder = scratch()
  const { ctx, stop } = await booted(folder)
  for (const id of ['old', 'new']) {
    const session = ctx.sessions.create(id)
    say(session, id)
    await ctx.sessions.flush(session)
  }
  await stop()
  const old = logOf(folder, 'old')
  writeFileSync(old, readFileSync(old, 'utf8').replace(/"time":\d+/, '"time":86400000'))
  utimesSync(logOf(folder, 'new'), new Date(0), new Date(0))
  const again = await booted(folder)
  const list = await again.ctx.sessionPersistence.list()
  expect(list.map(({ id }) => id)).toEqual(['new', 'old'])
  expect(list[1]?.updatedAt).toBe(86_400_000)
})
