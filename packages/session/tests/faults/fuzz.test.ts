/** Any bytes of a good log are damaged at random: it is read or refused in words, and what can be read can be gone on with. */

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { isHarnessError } from '@cambium/core'
import type { SessionEvent } from '@cambium/session'
import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { bootStore, logOf, scratch, user } from '../boot.ts'
import { answer, call, result } from '../script.ts'

vi.setConfig({ testTimeout: 120_000 })

type Damage = { kind: string; at: number; size: number; bytes: Uint8Array }

const damages = fc.array(
  fc.record({
    kind: fc.constantFrom(
      'flip',
      'cut',
      'insert',
      'copy line',
      'swap lines',
      'drop line',
      'zeros',
      'crlf',
      'bom',
      'tear',
    ),
    at: fc.nat(1_000_000),
    size: fc.integer({ min: 1, max: 400 }),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 20 }),
  }),
  { minLength: 1, maxLength: 6 },
)

function damage(log: Buffer, { kind, at, size, bytes }: Damage): Buffer {
  const place = at % (log.length + 1)
  const end = Math.min(log.length, place + size)
  const lines = () => log.toString('latin1').split('\n')
  const joined = (all: string[]) => Buffer.from(all.join('\n'), 'latin1')
  const all = lines()
  const line = at % all.length
  switch (kind) {
    case 'flip': {
      const copy = Buffer.from(log)
      if (place < copy.length) copy[place] = copy[place]! ^ (1 + (bytes[0]! % 255))
      return copy
    }
    case 'cut':
      return Buffer.concat([log.subarray(0, place), log.subarray(end)])
    case 'insert':
      return Buffer.concat([log.subarray(0, place), bytes, log.subarray(place)])
    case 'zeros':
      return Buffer.concat([log.subarray(0, place), Buffer.alloc(size), log.subarray(place)])
    case 'copy line':
      return joined([...all.slice(0, line + 1), ...all.slice(line)])
    case 'swap lines': {
      const other = size % all.length
      ;[all[line], all[other]] = [all[other]!, all[line]!]
      return joined(all)
    }
    case 'drop line':
      return joined(all.filter((_, index) => index !== line))
    case 'crlf':
      return joined(all.map(text => (text ? `${text}\r` : text)))
    case 'bom':
      return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), log])
    default:
      return log.subarray(0, place)
  }
}

const contentOf = ({ type, data }: Pick<SessionEvent, 'type' | 'data'>) => JSON.stringify([type, data])

/** What stands in whole lines, as any reader of lines sees it. */
function wholeLines(log: Buffer): string[] {
  return log
    .toString('utf8')
    .split('\n')
    .flatMap(text => {
      try {
        const event = JSON.parse(text.trim()) as SessionEvent
        return typeof event?.type === 'string' && 'data' in event ? [contentOf(event)] : []
      } catch {
        return []
      }
    })
}

const RUNS = 200

it(`${RUNS} damaged logs: each is refused in words, or every good line is there and it is resumed, continued, and resumed`, async () => {
  const folder = scratch()
  const first = await bootStore(folder)
  const session = first.ctx.sessions.create('s')
  session.append('turn/start', { turn: 1 })
  session.append('user/message', { message: user('grün \u{1f331} \u2028') })
  session.append('step/start', { turn: 1, step: 1 })
  session.append('assistant/message', answer(1, 'on it', 'a', 'b'))
  session.append('tool/call', call(1, 'a'))
  session.append('tool/result', result(1, 'a'))
  session.append('tool/call', call(1, 'b'))
  session.append('tool/result', result(1, 'b'))
  const [prompt] = session.surface()
  session.append('context/replaced', { from: prompt!.seq, to: prompt!.seq, message: user('in short') })
  session.append('step/end', { turn: 1, step: 1 })
  session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
  session.append('turn/start', { turn: 2 })
  session.append('user/message', { message: user('and now') })
  await first.stop()
  const path = logOf(folder, 's')
  const whole = readFileSync(path)
  const good = new Set(wholeLines(whole))
  let refused = 0
  let repaired = 0

  await fc.assert(
    fc.asyncProperty(damages, async list => {
      const bytes = list.reduce(damage, whole)
      rmSync(path.replace(/jsonl$/, 'segments'), { recursive: true, force: true })
      writeFileSync(path, bytes)
      const one = await bootStore(folder)
      try {
        await one.ctx.sessionPersistence.list()
        const found = await one.ctx.sessionPersistence.read('s').catch((error: unknown) => error)
        if (found instanceof Error) {
          if (!isHarnessError(found)) throw found
          expect(found.where).toBe(path)
          expect(readFileSync(path)).toEqual(bytes)
          await expect(one.ctx.sessions.resume('s')).rejects.toMatchObject({ code: found.code })
          refused++
          return
        }
        const { events } = found as Awaited<ReturnType<typeof one.ctx.sessionPersistence.read>>
        const read = events.map(contentOf)
        // A renumbered reference is still the same event; the others stand word by word.
        const expected = wholeLines(bytes).filter(text => good.has(text) && !text.startsWith('["context/replaced"'))
        expect(expected.filter(text => !read.includes(text))).toEqual([])
        expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
        const resumed = await one.ctx.sessions.resume('s')
        expect(resumed.open).toEqual({ turn: 0, step: 0 })
        resumed.append('user/message', { message: user('new') })
        await one.ctx.sessions.close(resumed)
        const logged = resumed.events().map(contentOf)
        const two = await bootStore(folder)
        const again = await two.ctx.sessions.resume('s')
        expect(again.events().slice(0, -1).map(contentOf)).toEqual(logged)
        expect(again.deriveMessages().at(-1)?.content).toEqual([{ type: 'text', text: 'new' }])
        expect(again.deriveMessages()).toEqual(resumed.deriveMessages())
        await two.stop()
        repaired++
      } finally {
        await one.stop()
      }
    }),
    { numRuns: RUNS },
  )
  expect(refused).toBeGreaterThan(10)
  expect(repaired).toBeGreaterThan(50)
})
