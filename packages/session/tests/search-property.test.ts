import { join } from 'node:path'
import type { Session } from '@cambium/session'
import * as search from '@cambium/session/search'
import fc from 'fast-check'
import { expect, it, vi } from 'vitest'
import { bootStore, scratch, user } from './boot.ts'

vi.setConfig({ testTimeout: 60_000 })

/** Words that are like each other: the index has to keep them apart, and to find what they share. */
const PARTS = [
  'parse',
  'Header',
  'HTTP',
  'x',
  '42',
  '_',
  '.',
  '東京',
  '都',
  'ー',
  'é',
  'ß',
  'İ',
  '🚀',
  '-',
  'ไทย',
  '"',
  'a'.repeat(70),
]
const text = fc
  .array(
    fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...PARTS) }, { weight: 1, arbitrary: fc.constantFrom(' ', '\n') }),
    {
      minLength: 1,
      maxLength: 12,
    },
  )
  .map(parts => parts.join(''))

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('say' as const), session: fc.nat(3), text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('close' as const), session: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), session: fc.nat(3) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('search' as const),
      said: fc.nat(),
      from: fc.nat(),
      length: fc.integer({ min: 1, max: 9 }),
    }),
  },
)

const SEGMENTER = new Intl.Segmenter('en', { granularity: 'grapheme' })

it('whatever was said, changed and deleted: a word is found in all messages that have it, and in no session that is gone', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async steps => {
      const folder = scratch()
      const { ctx, stop } = await bootStore(join(folder, 'sessions'))
      await ctx.plugin(search, search.Config({ folder: join(folder, 'search') } as search.Config))
      const said = new Map<string, { id: string; seq: number; text: string }>()
      const live = new Map<number, Session>()
      const at = async (number: number) => {
        const known = live.get(number)
        if (known) return known
        const id = `s${number}`
        const stored = [...said.values()].some(message => message.id === id)
        const session = stored ? await ctx.sessions.resume(id) : ctx.sessions.create(id)
        live.set(number, session)
        return session
      }
      for (const step of steps) {
        if (step.kind === 'say') {
          const session = await at(step.session)
          const { seq } = session.append('user/message', { message: user(step.text) })
          said.set(`${session.id} ${seq}`, { id: session.id, seq, text: step.text })
        } else if (step.kind === 'search') {
          const messages = [...said.values()]
          const message = messages[step.said % messages.length]
          if (!message) continue
          // A piece of a message, from where a word begins, on one line.
          const line = message.text.normalize('NFC').replace(/\s+/g, ' ').trim()
          const pieces = [...SEGMENTER.segment(line)].map(({ segment }) => segment)
          const starts = pieces.flatMap((_, index) => (begins(line, pieces, index) ? [index] : []))
          const from = starts[step.from % Math.max(1, starts.length)] ?? 0
          const piece = pieces
            .slice(from, from + step.length)
            .join('')
            .replaceAll('"', '')
            .split(' ')[0]!
          if (!piece || !line.includes(piece)) continue
          const { hits, notices } = await ctx.sessionSearch.search(piece, { limit: 1_000, perSession: 1_000 })
          expect(notices).toEqual([])
          const found = new Set(hits.map(({ id, seq }) => `${id} ${seq}`))
          expect([piece, [...found].filter(key => !said.has(key))]).toEqual([piece, []])
          if (starts.includes(from)) expect([piece, found.has(`${message.id} ${message.seq}`)]).toEqual([piece, true])
          for (const { snippet, matches } of hits) {
            expect(matches.length).toBeGreaterThan(0)
            for (const [begin, end] of matches) expect(snippet.slice(begin, end).length).toBeGreaterThan(0)
          }
        } else {
          const session = live.get(step.session)
          live.delete(step.session)
          if (session) await ctx.sessions.close(session)
          if (step.kind === 'close') continue
          const id = `s${step.session}`
          if (![...said.values()].some(message => message.id === id)) continue
          await ctx.sessionPersistence.delete(id)
          for (const [key, message] of said) if (message.id === id) said.delete(key)
        }
      }
      await stop()
    }),
    { numRuns: 15 },
  )
})

/** No letter or digit before it, or one of a script without blanks, where each character begins a word. */
function begins(line: string, pieces: readonly string[], index: number): boolean {
  const offset = pieces.slice(0, index).join('').length
  const before = line.slice(0, offset)
  return !/[\p{L}\p{M}\p{N}]$/u.test(before) || /[\p{Script=Han}ー\p{Script=Thai}]$/u.test(before)
}
