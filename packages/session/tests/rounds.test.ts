import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Session } from '@cambium/session'
import { expect, it, onTestFinished, vi } from 'vitest'
import { bootStore, filesIn, linesOf, logOf, scratch, user } from './boot.ts'
import { watchDisk } from './disk.ts'

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })
function turn(session: Session, number: number) {
  session.append('turn/start', { turn: number })
  say(session, `turn ${number}`)
  session.append('turn/end', { turn: number, reason: { kind: 'completed' } })
}

function useFakeTimers() {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
}

/** fsyncs that wait until they are let go. */
function slowDisk() {
  const waiting: (() => void)[] = []
  const seen = { all: 0, most: 0 }
  const real = fs.fsync
  fs.fsync = ((_fd: number, done: (error: null) => void) => {
    seen.all++
    waiting.push(() => done(null))
    seen.most = Math.max(seen.most, waiting.length)
  }) as never
  syncBuiltinESMExports()
  const restore = () => {
    fs.fsync = real
    syncBuiltinESMExports()
  }
  onTestFinished(restore)
  const letGo = async () => {
    while (waiting.length) {
      waiting.shift()?.()
      await new Promise(resolve => setImmediate(resolve))
    }
    restore()
  }
  return { seen, waiting, letGo }
}

it('what fifty sessions have pending is written in one round of one timer, a write each', async () => {
  const folder = scratch()
  const { ctx } = await bootStore(folder, { batchMs: 25 })
  const sessions = Array.from({ length: 50 }, (_, i) => ctx.sessions.create(`s${i}`))
  for (const session of sessions) {
    say(session, 'first')
    await ctx.sessions.flush(session)
  }
  useFakeTimers()
  for (const [index, session] of sessions.entries()) {
    for (let i = 0; i < 10; i++) say(session, `more ${i}`)
    // The round is due when its first event is: later ones do not put it off.
    if (index === 24) vi.advanceTimersByTime(10)
  }
  expect(vi.getTimerCount()).toBe(1)
  let writes = 0
  const count = (call: string) => {
    if (call === 'writeSync') writes++
  }
  await watchDisk(folder, count, async () => vi.advanceTimersByTime(14))
  expect(writes).toBe(0)
  await watchDisk(folder, count, async () => vi.advanceTimersByTime(1))
  expect(writes).toBe(50)
  expect(vi.getTimerCount()).toBe(0)
  for (const { id } of sessions) expect(linesOf(logOf(folder, id))).toHaveLength(12)
})

it('a flush leaves the round, and a round of nobody is none', async () => {
  const folder = scratch()
  const { ctx } = await bootStore(folder)
  const [a, b] = [ctx.sessions.create('a'), ctx.sessions.create('b')]
  useFakeTimers()
  say(a, 'x')
  say(b, 'x')
  await ctx.sessions.flush(a)
  expect(vi.getTimerCount()).toBe(1)
  await ctx.sessions.flush(b)
  expect(vi.getTimerCount()).toBe(0)
})

it('sessions that end a turn in one round are forced to the disk together, three at once, and hold up no write', async () => {
  const folder = scratch()
  const { ctx } = await bootStore(folder)
  const sessions = Array.from({ length: 10 }, (_, i) => ctx.sessions.create(`s${i}`))
  for (const session of sessions) {
    say(session, 'first')
    await ctx.sessions.flush(session)
  }
  const other = ctx.sessions.create('other')
  const disk = slowDisk()
  useFakeTimers()
  for (const session of sessions) turn(session, 1)
  vi.advanceTimersByTime(25)
  await vi.waitFor(() => expect(disk.waiting).toHaveLength(3))
  // Every one of them is written, and another session writes and flushes meanwhile.
  for (const { id } of sessions) expect(linesOf(logOf(folder, id))).toHaveLength(5)
  say(other, 'quick')
  await ctx.sessions.flush(other)
  say(sessions[0]!, 'goes on')
  await ctx.sessions.flush(sessions[0]!)
  expect(linesOf(logOf(folder, 'other'))).toHaveLength(2)
  expect(linesOf(logOf(folder, 's0'))).toHaveLength(6)
  expect(disk.seen.all).toBe(3)
  await disk.letGo()
  expect(disk.seen.most).toBe(3)
  expect(filesIn(folder).filter(path => path.endsWith('.jsonl'))).toHaveLength(11)
})
