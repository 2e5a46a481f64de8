import { textOf } from '@cambium/llm'
import { foldSurface, type Session, transcript, turnsOf } from '@cambium/session'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { boot, user } from './boot.ts'
import { answer } from './script.ts'

const texts = (session: Session) => session.deriveMessages().map(textOf)

it('the model reads what replaced a span; a person reads everything', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  for (const text of ['one', 'two', 'three', 'four']) session.append('user/message', { message: user(text) })
  session.append('context/replaced', { from: 1, to: 2, message: user('two and three') })
  expect(texts(session)).toEqual(['one', 'two and three', 'four'])
  expect(session.replacements).toBe(1)
  // A replacement stands where its span stood, whatever its own number is.
  session.append('context/replaced', { from: 0, to: 4, message: user('one to three') })
  expect(texts(session)).toEqual(['one to three', 'four'])
  expect(session.transcript().map(entry => [entry.kind, textOf(entry.message)])).toEqual([
    ['message', 'one'],
    ['message', 'two'],
    ['message', 'three'],
    ['message', 'four'],
    ['replaced', 'two and three'],
    ['replaced', 'one to three'],
  ])
})

it('an answer may take the place of an answer', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  session.append('user/message', { message: user('one') })
  const { seq, data } = session.append('assistant/message', answer(1, 'two'))
  session.append('context/replaced', { from: seq, to: seq, message: { ...data.message, id: 'shorter' } })
  expect(session.deriveMessages().map(({ id, role }) => [id, role])[1]).toEqual(['shorter', 'assistant'])
  expect(foldSurface(session.events())).toEqual(session.surface())
  const message = { ...data.message, role: 'system' } as unknown as typeof data.message
  expect(() => session.append('context/replaced', { from: 0, to: 0, message })).toThrow('"user" or "assistant"')
})

it('a span must stand on the surface, the right way round', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  for (const text of ['one', 'two', 'three']) session.append('user/message', { message: user(text) })
  session.append('context/replaced', { from: 0, to: 1, message: user('sum') })
  for (const [from, to] of [
    [0, 1],
    [2, 3],
    [1, 2],
    [3, 9],
  ] as const) {
    expect(() => session.append('context/replaced', { from, to, message: user('x') })).toThrow('SESSION_EVENT_INVALID')
  }
  expect(texts(session)).toEqual(['sum', 'three'])
})

it('an empty answer is logged for its usage and read by nobody', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  session.append('assistant/message', answer(1, ''))
  expect(session.seq).toBe(1)
  expect(session.deriveMessages()).toEqual([])
  expect(session.transcript()).toEqual([])
  expect(session.surface()).toHaveLength(1)
})

it('a list that was read does not change with the log, and is the same until the log changes', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  session.append('user/message', { message: user('one') })
  const before = session.deriveMessages()
  session.append('turn/start', { turn: 1 })
  expect(session.deriveMessages()).toBe(before)
  session.append('user/message', { message: user('two') })
  expect(before).toHaveLength(1)
  expect(session.deriveMessages()).toHaveLength(2)
})

it('what grew event by event is what a fold of the whole log gives', async () => {
  const { ctx } = await boot()
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(9), fc.nat(30), fc.nat(30)), { maxLength: 40 }), moves => {
      const session = ctx.sessions.create()
      for (const [move, a, b] of moves) {
        const nodes = session.surface()
        if (move < 7 || !nodes.length) session.append('user/message', { message: user(`m${session.seq}`) })
        else {
          const [start, end] = [a % nodes.length, b % nodes.length].sort((x, y) => x - y) as [number, number]
          const message = user(`r${session.seq}`)
          session.append('context/replaced', { from: nodes[start]!.seq, to: nodes[end]!.seq, message })
        }
        session.deriveMessages()
      }
      expect(foldSurface(session.events())).toEqual(session.surface())
      expect(transcript(session.events())).toEqual(session.transcript())
    }),
    { numRuns: 50 },
  )
})

it('the turns of a log, with what a person said in each', async () => {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  session.append('turn/start', { turn: 1 })
  session.append('user/message', { message: user('first', 'm1') })
  session.append('assistant/message', answer(1, 'yes'))
  session.append('user/message', { message: user('and more', 'm2') })
  session.append('user/message', { message: { ...user('a notice'), source: { kind: 'plugin', plugin: 'x' } } })
  session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
  session.append('turn/start', { turn: 2 })
  session.append('user/message', { message: user('second', 'm3') })
  expect(turnsOf(session.events())).toEqual([
    {
      turn: 1,
      from: 0,
      to: 5,
      time: expect.any(Number),
      reason: { kind: 'completed' },
      prompts: [
        { seq: 1, messageId: 'm1', text: 'first' },
        { seq: 3, messageId: 'm2', text: 'and more' },
      ],
      steps: 1,
    },
    { turn: 2, from: 6, time: expect.any(Number), prompts: [{ seq: 7, messageId: 'm3', text: 'second' }], steps: 0 },
  ])
})
