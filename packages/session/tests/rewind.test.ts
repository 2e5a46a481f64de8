import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { textOf } from '@cambium/llm'
import { pendingInbox, type Session, type SessionEvent, turnsOf } from '@cambium/session'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { boot, bootStore, logOf, scratch, user } from './boot.ts'
import { answer, call } from './script.ts'

/** A turn as the loop writes it: the prompt is received before it begins. */
function turn(session: Session, number: number, text: string, ...steered: string[]): void {
  const prompt = user(text, `m${number}`)
  session.append('inbox/changed', { inserted: [{ target: 'next-turn', message: prompt }] })
  session.append('turn/start', { turn: number })
  session.append('step/start', { turn: number, step: 1 })
  session.append('user/message', { message: prompt })
  session.append('assistant/message', { ...answer(1, `answer to ${text}`), turn: number })
  for (const [index, more] of steered.entries()) {
    session.append('user/message', { message: user(more, `m${number}-${index + 1}`) })
  }
  session.append('step/end', { turn: number, step: 1 })
  session.append('turn/end', { turn: number, reason: { kind: 'completed' } })
}

const said = (session: Session) => session.deriveMessages().map(textOf)
const types = (events: readonly { type: string }[]) => events.map(({ type }) => type)

function problem(run: () => unknown): { code: string; fix: string } {
  try {
    run()
  } catch (error) {
    return error as { code: string; fix: string }
  }
  throw new Error('nothing was thrown')
}

describe('a rewound session', () => {
  it('ends before the turn, tells what the message said, and leaves the parent as it is', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create('parent', { cwd: '/tmp' })
    for (const [index, text] of ['one', 'two', 'three'].entries()) turn(parent, index + 1, text)
    const before = parent.events()
    const { session, message, turn: number, earlier } = ctx.sessions.rewind(parent, { turn: 2 })
    expect(said(session)).toEqual(['one', 'answer to one'])
    expect({ number, id: message?.id, earlier }).toEqual({ number: 2, id: 'm2', earlier: [] })
    expect(message?.content).toEqual([{ type: 'text', text: 'two' }])
    // The message was received before the turn began: it does not wait in the child.
    expect(pendingInbox(session.events())).toEqual([])
    const start = before.findIndex(event => event.type === 'turn/start' && event.data.turn === 2)
    expect(session.header).toMatchObject({ cwd: '/tmp', parent: { id: 'parent', events: start } })
    expect(parent.events()).toEqual(before)
    turn(session, 2, 'TWO')
    expect(said(session)).toEqual(['one', 'answer to one', 'TWO', 'answer to TWO'])
  })

  it('goes back to before the turn for a message that was steered into it, and names what that turn was asked before', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create()
    turn(parent, 1, 'one')
    turn(parent, 2, 'two', 'faster', 'and greener')
    const { session, message, earlier } = ctx.sessions.rewind(parent, { messageId: 'm2-2' })
    expect(said(session)).toEqual(['one', 'answer to one'])
    expect(textOf(message!)).toBe('and greener')
    expect(earlier.map(({ text }) => text)).toEqual(['two', 'faster'])
    expect(ctx.sessions.rewind(parent, { messageId: 'm1' }).session.deriveMessages()).toEqual([])
  })

  it('cannot be had for a turn or a message that there is not: the error names those that there are', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create('here')
    expect(problem(() => ctx.sessions.rewind(session, { turn: 1 }))).toMatchObject({
      code: 'SESSION_TURN_UNKNOWN',
      fix: 'nothing has been asked in it yet',
    })
    turn(session, 1, `fix\x1b[2J the ${'very '.repeat(40)}long list`)
    turn(session, 2, 'now the docs')
    const { fix } = problem(() => ctx.sessions.rewind(session, { turn: 3 }))
    expect(fix).toMatch(/^take one of 1 "fix \[2J the very .*…", 2 "now the docs"$/)
    expect(fix.length).toBeLessThan(90)
    expect(problem(() => ctx.sessions.rewind(session, { messageId: 'nobody' }))).toMatchObject({
      code: 'SESSION_MESSAGE_UNKNOWN',
      fix,
    })
    for (let number = 3; number <= 30; number++) turn(session, number, `task ${number}`)
    expect(problem(() => ctx.sessions.rewind(session, { turn: 31 })).fix).toMatch(
      /^take 1 to 30, the last ones: 23 "task 23", .*30 "task 30"$/,
    )
    expect(problem(() => ctx.sessions.fork(session, { turn: 31 })).code).toBe('SESSION_TURN_UNKNOWN')
  })

  it('has the whole earlier surface again when it ends before a compaction', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create()
    turn(parent, 1, 'one')
    turn(parent, 2, 'two')
    const [first, , , last] = parent.surface()
    parent.append('context/replaced', { from: first!.seq, to: last!.seq, message: user('a summary') })
    turn(parent, 3, 'three')
    expect(said(parent)).toEqual(['a summary', 'three', 'answer to three'])
    expect(said(ctx.sessions.rewind(parent, { turn: 3 }).session)).toEqual(['a summary'])
    expect(said(ctx.sessions.fork(parent, { turn: 2 }))).toEqual(['one', 'answer to one', 'two', 'answer to two'])
    expect(said(ctx.sessions.rewind(parent, { turn: 2 }).session)).toEqual(['one', 'answer to one'])
  })

  it('can be had of a session that is in the middle of a turn, here or in another process, or crashed in one', async () => {
    const folder = scratch()
    const { ctx, stop } = await bootStore(folder)
    const parent = ctx.sessions.create('parent')
    turn(parent, 1, 'one')
    parent.append('turn/start', { turn: 2 })
    parent.append('user/message', { message: user('two', 'm2') })
    parent.append('assistant/message', { ...answer(1, '', 'c1'), turn: 2 })
    parent.append('tool/call', { ...call(1, 'c1'), turn: 2 })
    await ctx.sessions.flush(parent)
    const live = ctx.sessions.rewind(parent, { turn: 2 })
    const stored = await ctx.sessionPersistence.read('parent')
    const other = await bootStore(folder)
    const read = other.ctx.sessions.rewind(await other.ctx.sessionPersistence.read('parent'), { messageId: 'm2' })
    for (const { session, message } of [live, read]) {
      expect(said(session)).toEqual(['one', 'answer to one'])
      expect(textOf(message!)).toBe('two')
    }
    expect(problem(() => ctx.sessions.fork(stored, { turn: 2 })).code).toBe('SESSION_OPEN_TURN')
    expect(ctx.sessions.fork(stored).lastTurn).toBe(1)
    await other.stop()
    await stop()
  })

  it('tells what opened a turn in which no person spoke, and of one that nothing has entered that there is nothing', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create()
    parent.append('turn/start', { turn: 1 })
    const notice = user('go on', 'n1')
    parent.append('user/message', { message: { ...notice, source: { kind: 'plugin', plugin: 'x' } } })
    parent.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    parent.append('turn/start', { turn: 2 })
    parent.append('turn/end', { turn: 2, reason: { kind: 'blocked' } })
    expect(ctx.sessions.rewind(parent, { turn: 1 }).message?.id).toBe('n1')
    expect(ctx.sessions.rewind(parent, { turn: 2 })).not.toHaveProperty('message')
  })

  it('is resumed after a restart, also of a log that has lost the end of a turn', async () => {
    const folder = scratch()
    const first = await bootStore(folder)
    const parent = first.ctx.sessions.create('parent')
    parent.append('turn/start', { turn: 1 })
    parent.append('step/start', { turn: 1, step: 1 })
    parent.append('user/message', { message: user('one', 'm1') })
    parent.append('assistant/message', answer(1, '', 'c1'))
    parent.append('tool/call', call(1, 'c1'))
    parent.append('step/end', { turn: 1, step: 1 })
    parent.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    turn(parent, 2, 'two')
    turn(parent, 3, 'three')
    await first.stop()
    const path = logOf(folder, 'parent')
    const lines = readFileSync(path, 'utf8').split('\n')
    writeFileSync(path, lines.filter(line => !/"type":"(step|turn)\/end","data":{"turn":1/.test(line)).join('\n'))

    const second = await bootStore(folder)
    const stored = await second.ctx.sessionPersistence.read('parent')
    const { session } = second.ctx.sessions.rewind(stored, { turn: 2 })
    const fork = second.ctx.sessions.fork(stored, { turn: 1 })
    for (const child of [session, fork]) {
      expect(types(child.events()).filter(type => /^turn|result/.test(type))).toEqual([
        'turn/start',
        'tool/result',
        'turn/end',
      ])
      expect(child.last('turn/end')?.data.reason.kind).toBe('interrupted')
      expect(child.header.parent?.events).toBeLessThan(child.seq)
      await second.ctx.sessions.flush(child)
    }
    expect(problem(() => second.ctx.sessions.rewind(stored, { turn: 4 })).code).toBe('SESSION_TURN_UNKNOWN')
    await second.stop()

    const third = await bootStore(folder)
    const again = await third.ctx.sessions.resume(session.id)
    expect(again.header.parent).toEqual(session.header.parent)
    expect(again.last('session/resumed')?.data).toEqual({ closed: 0 })
    await third.stop()
  })

  it('takes a title along that somebody gave it, and not the first words of a prompt that it has lost', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create()
    const define = ctx.sessions.defineEvent('session/title' as never)
    const titled = (data: object) => parent.append('session/title' as never, data as never)
    turn(parent, 1, 'one')
    titled({ title: 'First words', by: 'prompt' })
    turn(parent, 2, 'two')
    const titles = (session: Session) =>
      session.events().flatMap(({ type, data }) => ((type as string) === 'session/title' ? [data] : []))
    expect(titles(ctx.sessions.rewind(parent, { turn: 1 }).session)).toEqual([])
    expect(titles(ctx.sessions.rewind(parent, { turn: 2 }).session)).toHaveLength(1)
    titled({ title: 'What it is about', by: 'model' })
    // Also where the plugin that makes titles is not there.
    define()
    const { session } = ctx.sessions.rewind(parent, { turn: 1 })
    expect(titles(session)).toEqual([{ title: 'What it is about', by: 'model' }])
    expect(session.header.parent?.events).toBe(1)
  })
})

it('forks of forks keep their line, and each says how much it has of the one before', async () => {
  const folder = scratch()
  const { ctx, stop } = await bootStore(folder)
  let session = ctx.sessions.create('s0')
  turn(session, 1, 'start')
  for (let depth = 1; depth <= 20; depth++) {
    const { session: child } = ctx.sessions.rewind(session, { turn: session.lastTurn }, { id: `s${depth}` })
    turn(child, child.lastTurn + 1, `try ${depth}`)
    turn(child, child.lastTurn + 1, `more ${depth}`)
    await ctx.sessions.flush(child)
    session = child
  }
  await stop()
  const again = await bootStore(folder)
  const summaries = new Map((await again.ctx.sessionPersistence.list()).map(found => [found.id, found]))
  let steps = 0
  for (let at = summaries.get('s20'); at?.parent; at = summaries.get(at.parent.id)) {
    const { events } = await again.ctx.sessionPersistence.read(at.parent.id)
    const own = await again.ctx.sessionPersistence.read(at.id)
    expect(own.events.slice(0, at.parent.events)).toEqual(events.slice(0, at.parent.events))
    steps++
  }
  expect(steps).toBe(20)
  await again.stop()
})

it('any turn of any history can be gone back to, and the child is what the parent was then', async () => {
  const { ctx } = await boot()
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(5), fc.nat(20), fc.nat(20)), { maxLength: 25 }),
      fc.array(fc.nat(200), { maxLength: 4 }),
      fc.nat(30),
      (moves, lost, pick) => {
        const session = ctx.sessions.create()
        const surfaces = new Map<number, string[]>()
        let number = 0
        for (const [move, a, b] of moves) {
          const nodes = session.surface()
          if (move === 0 && nodes.length) {
            const [start, end] = [a % nodes.length, b % nodes.length].sort((x, y) => x - y) as [number, number]
            const message = user(`summary ${session.seq}`)
            session.append('context/replaced', { from: nodes[start]!.seq, to: nodes[end]!.seq, message })
          } else if (move === 1) {
            const message = user(`aside ${session.seq}`)
            session.append('inbox/changed', { inserted: [{ target: 'next-step', message }] })
          } else {
            number++
            surfaces.set(number, said(session))
            turn(session, number, `prompt ${number}`, ...(move === 2 ? ['more'] : []))
          }
        }
        if (!number) return
        const target = 1 + (pick % number)
        const { session: child, message } = ctx.sessions.rewind(session, { turn: target })
        expect(said(child)).toEqual(surfaces.get(target))
        expect(textOf(message!)).toBe(`prompt ${target}`)
        expect(child.open.turn).toBe(0)
        expect(pendingInbox(child.events())).toEqual([])
        // Of a log with holes, whatever turn is left can be gone back to.
        const gone = new Set(lost)
        const events = session
          .events()
          .filter(({ seq }) => !gone.has(seq))
          .map((event, seq) => ({ ...event, seq }) as SessionEvent)
        for (const outline of turnsOf(events)) {
          const rewound = ctx.sessions.rewind({ header: session.header, events, notices: [] }, { turn: outline.turn })
          expect(rewound.session.open.turn).toBe(0)
          void ctx.sessions.close(rewound.session)
        }
        void ctx.sessions.close(child)
        void ctx.sessions.close(session)
      },
    ),
    { numRuns: 40 },
  )
})

it('what is damaged stays where it is, and does not confuse where a stored log may be forked', async () => {
  const folder = scratch()
  const first = await bootStore(folder)
  const parent = first.ctx.sessions.create('parent')
  turn(parent, 1, 'one')
  parent.append('turn/start', { turn: 2 })
  await first.stop()
  appendFileSync(logOf(folder, 'parent'), `${JSON.stringify({ seq: 99, time: 1, type: 'turn/start', data: {} })}\n`)
  const second = await bootStore(folder)
  const stored = await second.ctx.sessionPersistence.read('parent')
  const fork = second.ctx.sessions.fork(stored)
  expect(fork.lastTurn).toBe(1)
  expect(fork.open.turn).toBe(0)
  await second.stop()
})
