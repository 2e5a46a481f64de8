import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createScope, HarnessError, type ScopeKey } from '@cambium/core'
import type { LiveEvent, Session, SessionEvent, SessionEventMap } from '@cambium/session'
import Schema from 'schemastery'
import { describe, expect, it } from 'vitest'
import { boot, user } from './boot.ts'

declare module '@cambium/session' {
  interface SessionEventMap {
    'test/note': { readonly text: string }
  }
}

const code = (run: () => unknown) => {
  try {
    run()
  } catch (error) {
    if (error instanceof HarnessError) return error.code
    throw error
  }
  return 'nothing thrown'
}

describe('appending', () => {
  it('numbers events from 0 and tells them to listeners', async () => {
    const { ctx } = await boot()
    const heard: unknown[] = []
    ctx.on('session/event', (session, event) => heard.push([session.id, event.seq, event.type]))
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    session.append('user/message', { message: user('hi') })
    expect(heard).toEqual([
      ['one', 0, 'turn/start'],
      ['one', 1, 'user/message'],
    ])
    expect(session.events(1).map(event => event.type)).toEqual(['user/message'])
    expect(session.last('turn/start')?.data.turn).toBe(1)
  })

  it('keeps a copy that neither the caller nor a listener can change', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    const message = structuredClone(user('as it was')) as unknown as { content: { text: string }[] }
    const event = session.append('user/message', { message: message as never })
    message.content[0]!.text = 'changed'
    expect(session.deriveMessages()[0]?.content).toEqual([{ type: 'text', text: 'as it was' }])
    expect(() => Object.assign(event.data.message.content[0]!, { text: 'changed' })).toThrow(TypeError)
    expect(() => Object.assign(session.header, { cwd: '/' })).toThrow(TypeError)
  })

  it('reads each property once, so that a getter cannot show the check one value and the log another', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    let reads = 0
    const data = {
      get turn() {
        return ++reads
      },
    }
    expect(session.append('turn/start', data).data.turn).toBe(1)
    expect(reads).toBe(1)
  })

  it('refuses what JSON cannot hold and what does not fit the type, leaving the log as it was', async () => {
    const { ctx } = await boot()
    ctx.sessions.defineEvent('test/note', { schema: Schema.object({ text: Schema.string().required() }) })
    const session = ctx.sessions.create()
    expect(code(() => session.append('turn/start', { turn: Number.NaN }))).toBe('JSON_UNSUPPORTED')
    expect(code(() => session.append('turn/start', { turn: new Date() as never }))).toBe('JSON_UNSUPPORTED')
    expect(code(() => session.append('turn/start', { turn: 0 }))).toBe('SESSION_EVENT_INVALID')
    expect(code(() => session.append('user/message', { message: {} as never }))).toBe('SESSION_EVENT_INVALID')
    expect(code(() => session.append('test/note', { text: 5 as never }))).toBe('SESSION_EVENT_INVALID')
    expect(code(() => session.append('context/replaced', { from: 0, to: 0, message: user('x') }))).toBe(
      'SESSION_EVENT_INVALID',
    )
    expect(session.seq).toBe(0)
    expect(session.append('test/note', { text: 'fits' }).data).toEqual({ text: 'fits' })
  })

  it('a type is known for as long as the plugin that defined it', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    expect(code(() => session.append('test/note', { text: '' }))).toBe('SESSION_EVENT_UNKNOWN')
    const owner = ctx.plugin({
      name: 'owner',
      inject: ['sessions'],
      apply: inner => void inner.sessions.defineEvent('test/note'),
    })
    await owner
    session.append('test/note', { text: '' })
    expect(code(() => ctx.sessions.defineEvent('test/note'))).toBe('SESSION_EVENT_DUPLICATE')
    expect(code(() => ctx.sessions.defineEvent('turn/start'))).toBe('SESSION_EVENT_NAME')
    await owner.dispose()
    expect(code(() => session.append('test/note', { text: '' }))).toBe('SESSION_EVENT_UNKNOWN')
  })

  it('from inside a listener commits at once and is told after the round', async () => {
    const { ctx } = await boot()
    const heard: string[] = []
    ctx.on('session/event', (session, event) => {
      if (event.type === 'turn/start') {
        session.append('step/start', { turn: 1, step: 1 })
        expect(session.open).toEqual({ turn: 1, step: 1 })
      }
      heard.push(`first ${event.type}`)
    })
    ctx.on('session/event', (_session, event) => heard.push(`second ${event.type}`))
    const session = ctx.sessions.create()
    session.append('turn/start', { turn: 1 })
    expect(heard).toEqual(['first turn/start', 'second turn/start', 'first step/start', 'second step/start'])
  })

  it('a gate sees each event before it is committed, and keeps out what it throws at', async () => {
    const { ctx } = await boot()
    const seen: string[] = []
    ctx.on('session/append', (session, { type }) => {
      seen.push(`${type} at ${session.seq}`)
      if (type === 'step/start') throw new Error('no steps today')
    })
    const session = ctx.sessions.create()
    session.append('turn/start', { turn: 1 })
    expect(() => session.append('step/start', { turn: 1, step: 1 })).toThrow('no steps today')
    expect(seen).toEqual(['turn/start at 0', 'step/start at 1'])
    expect(session.events().map(({ type }) => type)).toEqual(['turn/start'])
  })

  it('a throwing listener is reported by name and changes nothing', async () => {
    const { ctx, records } = await boot({
      name: 'broken',
      apply(inner: typeof ctx) {
        inner.on('session/event', () => {
          throw new Error('no luck')
        })
      },
    } as never)
    const session = ctx.sessions.create()
    session.append('turn/start', { turn: 1 })
    expect(session.seq).toBe(1)
    expect(records[0]).toMatchObject({ name: 'broken', text: expect.stringContaining('no luck') })
  })

  it('listeners that answer each other for ever are stopped', async () => {
    const { ctx, records } = await boot()
    ctx.on('session/event', session => void session.append('turn/start', { turn: 1 }))
    const session = ctx.sessions.create()
    session.append('turn/start', { turn: 1 })
    expect(session.seq).toBe(10_000)
    expect(records.at(-1)?.text).toContain('SESSION_EVENT_LOOP')
  })

  it('of many events costs the same at the end as at the start', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    const batch = () => {
      const start = performance.now()
      for (let i = 0; i < 1_000; i++) session.append('user/message', { message: user(`message ${i}`) })
      session.deriveMessages()
      return performance.now() - start
    }
    batch()
    const first = Math.min(batch(), batch(), batch())
    for (let i = 0; i < 4; i++) batch()
    // A quadratic append would cost several times as much here; the room is for a busy machine.
    expect(Math.min(batch(), batch(), batch())).toBeLessThan(first * 4)
  })
})

describe('live events', () => {
  const chunk = (text: string, attempt = 1) =>
    ({ turn: 1, step: 1, attempt, chunk: { type: 'text-delta', index: 0, text } }) as const
  const start = (attempt = 1) =>
    ({ turn: 1, step: 1, attempt, chunk: { type: 'block-start', index: 0, blockType: 'text' } }) as const
  const open = (session: Session) => {
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
  }
  const answer = (text: string): SessionEventMap['assistant/message'] => ({
    turn: 1,
    step: 1,
    message: {
      id: 'a',
      role: 'assistant',
      content: text ? [{ type: 'text', text }] : [],
      source: { kind: 'model', provider: 'p', model: 'm' },
    },
    finish: 'stop',
  })

  it('are told without a number and not kept', async () => {
    const { ctx } = await boot()
    const heard: (SessionEvent | LiveEvent)[] = []
    ctx.on('session/event', (_session, event) => heard.push(event))
    const session = ctx.sessions.create()
    session.publish('tool/progress', { callId: 'c', name: 'bash', data: { lines: 3 } })
    session.publish('assistant/chunk', chunk('x'))
    expect(heard.map(event => [event.type, event.seq])).toEqual([
      ['tool/progress', undefined],
      ['assistant/chunk', undefined],
    ])
    expect(session.events()).toEqual([])
  })

  it('show the answer so far to whoever comes late, until its message is logged', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    open(session)
    expect(session.partial).toBeUndefined()
    session.publish('assistant/chunk', start())
    for (const text of ['Hel', 'lo']) session.publish('assistant/chunk', chunk(text))
    session.publish('assistant/chunk', {
      ...chunk(''),
      chunk: { type: 'block-start', index: 1, blockType: 'tool-call' },
    })
    session.publish('assistant/chunk', {
      ...chunk(''),
      chunk: { type: 'tool-call-delta', index: 1, id: 'c', name: 'ls', argumentsDelta: '{"pa' },
    })
    expect(session.partial).toEqual({
      turn: 1,
      step: 1,
      attempt: 1,
      content: [
        { type: 'text', text: 'Hello' },
        { type: 'tool-call', id: 'c', name: 'ls', arguments: '{"pa' },
      ],
    })
    session.append('assistant/message', answer('Hello'))
    expect(session.partial).toBeUndefined()
  })

  it('a new attempt starts the answer afresh, and the end of the step clears it', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    open(session)
    session.publish('assistant/chunk', start())
    session.publish('assistant/chunk', chunk('stale'))
    session.publish('assistant/chunk', start(2))
    session.publish('assistant/chunk', chunk('fresh', 2))
    expect(session.partial).toMatchObject({ attempt: 2, content: [{ text: 'fresh' }] })
    session.append('step/end', { turn: 1, step: 1 })
    expect(session.partial).toBeUndefined()
  })
})

describe('scopes', () => {
  it("an agent's events reach its own listeners and untagged ones, never a sibling's", async () => {
    const { ctx } = await boot()
    const parent: ScopeKey = { name: 'parent' }
    const child: ScopeKey = { name: 'child' }
    const sibling: ScopeKey = { name: 'sibling' }
    const heard: string[] = []
    const listen = (name: string, scoped: typeof ctx) =>
      scoped.on('session/event', (_session, event) => heard.push(`${name} ${event.type}`))
    listen('parent', createScope(ctx, parent).ctx)
    listen('child', createScope(ctx, child, parent).ctx)
    listen('sibling', createScope(ctx, sibling, parent).ctx)
    listen('root', ctx)
    const session = ctx.sessions.create()
    const unbind = ctx.sessions.bindScope(session, child)
    session.append('turn/start', { turn: 1 })
    expect(heard.sort()).toEqual(['child turn/start', 'parent turn/start', 'root turn/start'])
    unbind()
    heard.length = 0
    session.append('step/start', { turn: 1, step: 1 })
    expect(heard).toEqual(['root step/start'])
  })
})

describe('life', () => {
  it('a session ends with the plugin that created it, told once', async () => {
    const { ctx } = await boot()
    const told: string[] = []
    ctx.on('session/created', session => void told.push(`created ${session.id}`))
    ctx.on('session/disposed', session => void told.push(`disposed ${session.id}`))
    let session: Session | undefined
    const owner = ctx.plugin({
      name: 'owner',
      inject: ['sessions'],
      apply(inner) {
        session = inner.sessions.create('owned')
      },
    })
    await owner
    expect(ctx.sessions.get('owned')).toBe(session)
    expect(code(() => ctx.sessions.create('owned'))).toBe('SESSION_DUPLICATE')
    await owner.dispose()
    expect(ctx.sessions.list()).toEqual([])
    expect(code(() => session?.append('turn/start', { turn: 1 }))).toBe('SESSION_CLOSED')
    expect(told).toEqual(['created owned', 'disposed owned'])
  })

  it('a session ends with the plugin that keeps it too, and its creator holds nothing of it any more', async () => {
    const { createRoot } = await import('@cambium/core')
    const ctx = createRoot({ level: 'silent' })
    const before = ctx.fiber.getEffects().map(effect => effect.label)
    const keeper = ctx.plugin(await import('@cambium/session'))
    await keeper
    const session = ctx.sessions.create('one')
    const told: string[] = []
    const off = ctx.on('session/disposed', ({ id }) => void told.push(id))
    await keeper.dispose()
    off()
    expect(told).toEqual(['one'])
    expect(code(() => session.append('turn/start', { turn: 1 }))).toBe('SESSION_CLOSED')
    expect(ctx.fiber.getEffects().map(effect => effect.label)).toEqual(before)
    await ctx.fiber.dispose()
  })

  it('closing flushes first, is told once, and frees the id', async () => {
    const { ctx } = await boot()
    const told: string[] = []
    ctx.on('session/flush', session => void told.push(`flush ${session.seq}`))
    ctx.on('session/disposed', () => void told.push('disposed'))
    const session = ctx.sessions.create('again')
    session.append('turn/start', { turn: 1 })
    await Promise.all([ctx.sessions.close(session), ctx.sessions.close(session)])
    await ctx.sessions.close(session)
    expect(told).toEqual(['flush 1', 'disposed'])
    const next = ctx.sessions.create('again')
    await ctx.sessions.close(session)
    expect(ctx.sessions.get('again')).toBe(next)
  })

  it('a veto leaves nothing, and those who were told are told of the end', async () => {
    const { ctx } = await boot()
    const told: string[] = []
    ctx.on('session/created', () => void told.push('created'))
    const veto = ctx.on('session/created', () => {
      throw new Error('not today')
    })
    ctx.on('session/disposed', () => void told.push('disposed'))
    expect(() => ctx.sessions.create('vetoed')).toThrow('not today')
    expect(told).toEqual(['created', 'disposed'])
    expect(ctx.sessions.list()).toEqual([])
    veto()
    expect(ctx.sessions.create('vetoed').id).toBe('vetoed')
  })

  it('closed from inside a listener, it takes the rest of the round, and its owner may go meanwhile', async () => {
    const { ctx } = await boot()
    const told: string[] = []
    ctx.on('session/event', (session, event) => {
      told.push(`first ${event.type}`)
      if (event.type === 'turn/start') {
        void ctx.sessions.close(session)
        session.append('step/start', { turn: 1, step: 1 })
      }
    })
    ctx.on('session/event', (_session, event) => told.push(`second ${event.type}`))
    ctx.on('session/disposed', () => told.push('disposed'))
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    await ctx.sessions.close(session)
    expect(told).toEqual(['first turn/start', 'second turn/start', 'first step/start', 'second step/start', 'disposed'])
    expect(ctx.sessions.list()).toEqual([])
  })

  it('is announced before it can end: who wants it gone at once refuses it', async () => {
    const { ctx } = await boot()
    const told: string[] = []
    let owner: ReturnType<typeof ctx.plugin> | undefined
    ctx.on('session/created', session => {
      told.push(`created ${session.id}`)
      void owner?.dispose()
    })
    ctx.on('session/disposed', session => void told.push(`disposed ${session.id}`))
    let create = () => {}
    owner = ctx.plugin({
      name: 'owner',
      inject: ['sessions'],
      apply(inner) {
        create = () => void inner.sessions.create('short-lived')
      },
    })
    await owner
    create()
    await owner.dispose()
    while (owner.inertia) await owner.inertia
    expect(told).toEqual(['created short-lived', 'disposed short-lived'])
    expect(ctx.sessions.list()).toEqual([])
    expect(ctx.sessions.create('short-lived').id).toBe('short-lived')
  })

  it('a failing flush reaches the caller as it is', async () => {
    const { ctx } = await boot()
    const stop = ctx.on('session/flush', async () => {
      throw new HarnessError('DISK_FULL', 'no room')
    })
    const session = ctx.sessions.create()
    await expect(ctx.sessions.flush(session)).rejects.toMatchObject({ code: 'DISK_FULL' })
    stop()
    await ctx.sessions.flush(session)
  })

  it('a session that no store keeps has a private folder for as long as it lives', async () => {
    const { ctx } = await boot()
    const session = ctx.sessions.create()
    const folder = ctx.sessions.folder(session)
    expect(ctx.sessions.folder(session)).toBe(folder)
    expect(folder).not.toBe(ctx.sessions.folder(ctx.sessions.create()))
    await writeFile(join(folder, 'note'), 'kept')
    await ctx.sessions.close(session)
    expect(existsSync(folder)).toBe(false)
    expect(() => ctx.sessions.folder(session)).toThrow(expect.objectContaining({ code: 'SESSION_CLOSED' }))
  })

  it('refuses ids that could not be files, and relative directories', async () => {
    const { ctx } = await boot()
    for (const id of ['', '../etc', 'a/b', '.hidden', 'a b', 'x'.repeat(121)]) {
      expect(code(() => ctx.sessions.create(id))).toBe('SESSION_ID_INVALID')
    }
    expect(code(() => ctx.sessions.create('ok', { cwd: 'here' }))).toBe('SESSION_CWD_RELATIVE')
    expect(ctx.sessions.create().id).toMatch(/^\d{8}-\d{6}-[a-z0-9]{6}$/)
  })
})

describe('forks and seeds', () => {
  const turn = (session: Session, number: number, text: string) => {
    session.append('turn/start', { turn: number })
    session.append('user/message', { message: user(text) })
    return session.append('turn/end', { turn: number, reason: { kind: 'completed' } }).seq
  }

  it('a fork has the prefix, counts its turns on, and knows its parent', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create('parent', { cwd: '/tmp' })
    const boundary = turn(parent, 1, 'one')
    turn(parent, 2, 'two')
    const heard: string[] = []
    ctx.on('session/event', (session, event) => void heard.push(`${session.id} ${event.type}`))
    const child = ctx.sessions.fork(parent, { seq: boundary, id: 'child' })
    expect(child.header).toMatchObject({ cwd: '/tmp', parent: { id: 'parent', events: 3 } })
    expect(child.lastTurn).toBe(1)
    expect(child.deriveMessages()).toEqual(parent.deriveMessages().slice(0, 1))
    expect(heard).toEqual([])
    child.append('turn/start', { turn: 2 })
    expect(parent.seq).toBe(6)
    expect(ctx.sessions.fork(parent).seq).toBe(6)
  })

  it('cannot be made inside an open turn or past the end', async () => {
    const { ctx } = await boot()
    const parent = ctx.sessions.create()
    turn(parent, 1, 'one')
    parent.append('turn/start', { turn: 2 })
    for (const seq of [0, 1, 3]) expect(code(() => ctx.sessions.fork(parent, { seq }))).toBe('SESSION_OPEN_TURN')
    expect(code(() => ctx.sessions.fork(parent))).toBe('SESSION_OPEN_TURN')
    for (const seq of [4, -2, 0.5]) expect(code(() => ctx.sessions.fork(parent, { seq }))).toBe('SESSION_FORK_INVALID')
    expect(ctx.sessions.fork(parent, { seq: 2 }).seq).toBe(3)
  })

  it('does not inherit what waits in the inbox', async () => {
    const { ctx } = await boot()
    const { pendingInbox } = await import('@cambium/session')
    const parent = ctx.sessions.create()
    const waiting = user('later', 'm1')
    parent.append('inbox/changed', { inserted: [{ target: 'next-turn', message: waiting }] })
    turn(parent, 1, 'one')
    expect(pendingInbox(parent.events()).map(({ message }) => message.id)).toEqual(['m1'])
    const child = ctx.sessions.fork(parent)
    expect(pendingInbox(child.events())).toEqual([])
    expect(child.header.parent?.events).toBe(4)
  })

  it('a seed is renumbered, its references follow, and a replay derives the same', async () => {
    const { ctx } = await boot()
    const first = ctx.sessions.create()
    turn(first, 1, 'dropped')
    first.append('user/message', { message: user('one') })
    first.append('user/message', { message: user('two') })
    first.append('context/replaced', { from: 3, to: 4, message: user('summed up') })
    const replay = ctx.sessions.create('replay', { seed: first.events() })
    expect(replay.deriveMessages()).toEqual(first.deriveMessages())
    const tail = ctx.sessions.create('tail', { seed: first.events(3) })
    expect(tail.events().map(event => event.seq)).toEqual([0, 1, 2])
    expect(tail.deriveMessages().map(message => message.content)).toEqual([[{ type: 'text', text: 'summed up' }]])
  })
})
