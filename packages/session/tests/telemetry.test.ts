import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Context, keepSecrets } from '@cambium/core'
import type { Session } from '@cambium/session'
import type { SessionTelemetryBackend, TelemetryRecord } from '@cambium/session/telemetry'
import * as telemetry from '@cambium/session/telemetry'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { boot, bootStore, linesOf, scratch, user } from './boot.ts'
import { answer, call, result } from './script.ts'

const say = (session: Session, text: string) => session.append('user/message', { message: user(text) })

async function mount(ctx: Context, config: Partial<telemetry.Config> = {}) {
  const plugin = ctx.plugin(telemetry, telemetry.Config(config as telemetry.Config))
  await plugin
  return plugin
}

async function bootTelemetry(config: Partial<telemetry.Config> = {}) {
  const booted = await boot()
  return { ...booted, plugin: await mount(booted.ctx, config) }
}

/** Keeps what it gets. */
function listening(name = 'listener', more: Partial<SessionTelemetryBackend> = {}) {
  const records: TelemetryRecord[] = []
  const backend: SessionTelemetryBackend = { name, record: record => void records.push(record), ...more }
  return { backend, records, types: () => records.map(({ event }) => event.type) }
}

const chunk = (session: Session, text: string) =>
  session.publish('assistant/chunk', { turn: 1, step: 1, attempt: 1, chunk: { type: 'text-delta', index: 0, text } })

describe('a backend', () => {
  it('gets each logged event once and in order, and has all of them when its undo resolves', async () => {
    const { ctx } = await bootTelemetry()
    const { backend, records } = listening()
    const undo = ctx.telemetry.register(backend)
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 500; number++) say(session, `${number}`)
    expect(records).toEqual([])
    await undo()
    expect(records.map(({ event }) => event)).toEqual(session.events())
    expect(records[0]?.session).toEqual(session.header)
    expect(Object.isFrozen(records[0])).toBe(true)
    say(session, 'later')
    await undo()
    expect(records).toHaveLength(500)
  })

  it('gets live events only when it asks for them', async () => {
    const { ctx } = await bootTelemetry()
    const [logged, live] = [listening('logged'), listening('live', { live: true })]
    const undo = [ctx.telemetry.register(logged.backend), ctx.telemetry.register(live.backend)]
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    chunk(session, 'hel')
    await Promise.all(undo.map(run => run()))
    expect(logged.types()).toEqual(['turn/start', 'step/start'])
    expect(live.types()).toEqual(['turn/start', 'step/start', 'assistant/chunk'])
  })

  it('gets nothing that was there before: not of a session that is resumed, nor of a seed', async () => {
    const folder = scratch()
    const before = await bootStore(folder)
    const session = before.ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    say(session, 'apple')
    await before.stop()

    const { ctx } = await bootStore(folder)
    await mount(ctx)
    const { backend, types } = listening()
    const undo = ctx.telemetry.register(backend)
    const resumed = await ctx.sessions.resume('one')
    ctx.sessions.create('two', { seed: resumed.events() })
    await undo()
    expect(types()).toEqual(['turn/end', 'session/resumed'])
  })

  it('may throw, and the rest goes on; that is said once, and how often when it leaves', async () => {
    const { ctx, records: log } = await bootTelemetry()
    const healthy = listening('healthy')
    const undo = [
      ctx.telemetry.register({ name: 'throws', record: () => expect.unreachable('boom') }),
      ctx.telemetry.register({ name: 'rejects', record: () => Promise.reject(new Error('bang')) }),
      ctx.telemetry.register({ name: 'flush', record: () => {}, flush: () => Promise.reject(new Error('no room')) }),
      ctx.telemetry.register(healthy.backend),
    ]
    const session = ctx.sessions.create('one')
    for (const text of ['a', 'b', 'c']) say(session, text)
    await Promise.all(undo.map(run => run()))
    expect(healthy.types()).toHaveLength(3)
    expect(log.map(({ text }) => text).sort()).toEqual([
      'telemetry to flush failed to flush: no room',
      'telemetry to rejects failed on 3 records',
      'telemetry to rejects failed on a record, which is lost: bang',
      'telemetry to throws failed on 3 records',
      expect.stringMatching(/^telemetry to throws failed on a record, which is lost: .*boom/),
    ])
  })

  it('that hangs delays no append and no flush, is given so much and no more, and is left after its time', async () => {
    const { ctx, records: log } = await bootTelemetry({ maxQueued: 5, flushMs: 20 })
    let calls = 0
    const undo = ctx.telemetry.register({
      name: 'hangs',
      record: () => {
        calls++
        return new Promise(() => {})
      },
    })
    const healthy = listening('healthy')
    const leave = ctx.telemetry.register(healthy.backend)
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 5; number++) say(session, `${number}`)
    await ctx.sessions.flush(session)
    await leave()
    for (let number = 0; number < 7; number++) say(session, `${number}`)
    await undo()
    expect(calls).toBe(1)
    expect(healthy.types()).toHaveLength(5)
    expect(log.map(({ text }) => text)).toEqual([
      'telemetry to hangs does not keep up: 5 records wait for it, and further ones are dropped until it does',
      'telemetry to hangs did not end within 20 ms; 5 records are lost',
      'telemetry to hangs 7 records were dropped, since it did not keep up',
    ])
  })

  it('is asked to flush with a signal that ends, and what it does later disturbs nobody', async () => {
    const { ctx } = await bootTelemetry({ flushMs: 20 })
    let aborted = false
    const undo = ctx.telemetry.register({
      name: 'slow',
      record: () => {},
      async flush(signal) {
        await once(signal, 'abort')
        aborted = true
        throw new Error('too late')
      },
    })
    await undo()
    expect(aborted).toBe(true)
  })

  it('is registered once by its name, and leaves with the plugin that brought it', async () => {
    const { ctx, plugin } = await bootTelemetry()
    const { backend, types } = listening()
    const owner = ctx.plugin({
      name: 'owner',
      inject: ['telemetry'],
      apply: (inner: Context) => void inner.telemetry.register(backend),
    })
    await owner
    expect(() => ctx.telemetry.register(backend)).toThrow('TELEMETRY_DUPLICATE')
    const session = ctx.sessions.create('one')
    say(session, 'a')
    await owner.dispose()
    say(session, 'b')
    expect(types()).toHaveLength(1)
    ctx.telemetry.register(backend)
    say(session, 'c')
    // Of the two that hold it, the plugin that feeds it is the one that goes.
    await plugin.dispose()
    say(session, 'd')
    expect(types()).toHaveLength(2)
  })
})

describe('redaction', () => {
  it('known secrets are out of every record, before anybody is asked', async () => {
    const { ctx } = await bootTelemetry()
    keepSecrets(ctx, () => SECRETS)
    const { backend, records } = listening('listener', { live: true })
    const undo = ctx.telemetry.register(backend)
    const asked: string[] = []
    ctx.on('telemetry/record', (record, next) => {
      asked.push(JSON.stringify(record))
      return next()
    })
    const session = ctx.sessions.create('one')
    say(session, `my key is ${SECRETS[0]}`)
    session.append('turn/start', { turn: 1 })
    session.append('step/start', { turn: 1, step: 1 })
    chunk(session, `so ${SECRETS[0]} it is`)
    await undo()
    expect(records).toHaveLength(4)
    expect(JSON.stringify(records)).toContain('my key is [redacted]')
    expect(JSON.stringify(records) + asked.join()).not.toContain(SECRETS[0])
    expect(JSON.stringify(session.events())).toContain(SECRETS[0])
  })

  it('a listener may change a record, keep it back, and is heard while it lives', async () => {
    const { ctx } = await bootTelemetry()
    const { backend, records } = listening()
    const undo = ctx.telemetry.register(backend)
    const off = ctx.on('telemetry/record', (_record, next) => {
      const record = next()
      if (record?.event.type === 'turn/start') return undefined
      return record && { ...record, session: { ...record.session, cwd: '/somewhere' } }
    })
    const session = ctx.sessions.create('one', { cwd: '/home/ada/secret-project' })
    session.append('turn/start', { turn: 1 })
    say(session, 'a')
    off()
    say(session, 'b')
    await undo()
    expect(records.map(({ event, session }) => [event.seq, session.cwd])).toEqual([
      [1, '/somewhere'],
      [2, '/home/ada/secret-project'],
    ])
  })

  it('a listener that fails, or answers later, keeps the record back: no turn fails, and it is said once', async () => {
    const { ctx, records: log } = await bootTelemetry()
    const { backend, types } = listening()
    const undo = ctx.telemetry.register(backend)
    ctx.on('telemetry/record', (record, next) => {
      if (record.event.type === 'turn/start') throw new Error('cannot tell')
      if (record.event.type === 'turn/end') return Promise.resolve(record) as never
      return next()
    })
    const session = ctx.sessions.create('one')
    session.append('turn/start', { turn: 1 })
    say(session, 'a')
    session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    session.append('turn/start', { turn: 2 })
    await undo()
    expect(types()).toEqual(['user/message'])
    expect(log.map(({ text }) => text)).toEqual([
      expect.stringMatching(/^telemetry: a record was withheld.*cannot tell/),
    ])
  })

  it('nobody is asked while nobody wants the event', async () => {
    const { ctx } = await bootTelemetry()
    const asked = vi.fn((_record, next) => next())
    ctx.on('telemetry/record', asked)
    const session = ctx.sessions.create('one')
    say(session, 'a')
    const undo = ctx.telemetry.register(listening().backend)
    chunk(session, 'b')
    expect(asked).not.toHaveBeenCalled()
    await undo()
  })
})

describe('the file', () => {
  it('has one line a record, for the owner only, and goes on where it ended after a reload', async () => {
    const file = join(scratch(), 'deep', 'trace.jsonl')
    const { ctx, plugin } = await bootTelemetry({ file })
    const session = ctx.sessions.create('one', { cwd: '/work/shop' })
    say(session, 'first')
    chunk(session, 'live')
    await plugin.dispose()
    const again = await mount(ctx, { file })
    say(session, 'second')
    await again.dispose()
    expect(linesOf(file)).toEqual(
      session.events().map(event => ({
        time: event.time,
        session: { id: 'one', cwd: '/work/shop' },
        event: JSON.parse(JSON.stringify(event)),
      })),
    )
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('is not there where none is configured', async () => {
    const home = scratch()
    vi.stubEnv('CAMBIUM_HOME', home)
    onTestFinished(() => void vi.unstubAllEnvs())
    const { ctx, plugin } = await bootTelemetry()
    say(ctx.sessions.create('one'), 'a')
    await plugin.dispose()
    expect(readdirSync(home)).toEqual([])
    const named = await mount(ctx, { file: 'trace.jsonl' })
    say(ctx.sessions.create('two'), 'b')
    await named.dispose()
    expect(readdirSync(home)).toEqual(['trace.jsonl'])
  })

  it('is replaced when it is large, and so many full ones are kept', async () => {
    const file = join(scratch(), 'trace.jsonl')
    const { ctx, plugin } = await bootTelemetry({ file, maxFileBytes: 2_000, maxFiles: 3 })
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 60; number++) say(session, `${number} ${'x'.repeat(100)}`)
    say(session, 'y'.repeat(5_000))
    say(session, 'last')
    await plugin.dispose()
    const files = readdirSync(join(file, '..')).sort()
    expect(files).toEqual(['trace.jsonl', 'trace.jsonl.1', 'trace.jsonl.2', 'trace.jsonl.3'])
    const sizes = files.map(name => statSync(join(file, '..', name)).size)
    expect(sizes.filter(size => size > 2_000)).toHaveLength(1)
    const seqs = [...files.slice(1).reverse(), files[0]!]
      .flatMap(name => linesOf(join(file, '..', name)))
      .map(line => (line['event'] as { seq: number }).seq)
    expect(seqs.at(-1)).toBe(61)
    expect(seqs).toEqual(Array.from({ length: seqs.length }, (_, index) => 62 - seqs.length + index))
  })

  it.skipIf(!existsSync('/dev/full'))(
    'a full disk loses nothing that there is room to keep, and is said once',
    async () => {
      const file = join(scratch(), 'trace.jsonl')
      symlinkSync('/dev/full', file)
      const { ctx, records: log, plugin } = await bootTelemetry({ file })
      const { backend, records } = listening()
      const undo = ctx.telemetry.register(backend)
      const session = ctx.sessions.create('one')
      say(session, 'a')
      say(session, 'b')
      await vi.waitFor(() => expect(log).toHaveLength(1))
      say(session, 'c')
      await undo()
      expect(records).toHaveLength(3)
      rmSync(file)
      say(session, 'd')
      await plugin.dispose()
      expect(linesOf(file)).toHaveLength(4)
      expect(log.map(({ text }) => text)).toEqual([expect.stringMatching(/^telemetry: .*the disk is full/)])
    },
  )

  it.skipIf(!existsSync('/dev/full'))('what a disk that stays full has cost is counted at the end', async () => {
    const file = join(scratch(), 'trace.jsonl')
    symlinkSync('/dev/full', file)
    const { ctx, records: log, plugin } = await bootTelemetry({ file })
    const session = ctx.sessions.create('one')
    for (let number = 0; number < 3; number++) say(session, `${number}`)
    await plugin.dispose()
    expect(log.map(({ text }) => text)).toEqual([
      expect.stringContaining('the disk is full'),
      expect.stringContaining('3 records could not be written'),
    ])
  })

  it('is a seed again: a session made from it is the recorded one, a fork with what it took over', async () => {
    const file = join(scratch(), 'trace.jsonl')
    const { ctx, plugin } = await bootTelemetry({ file, maxFileBytes: 1_024, maxFiles: 50 })
    const session = ctx.sessions.create('one', { cwd: '/work/shop' })
    session.append('turn/start', { turn: 1 })
    say(session, 'list the files')
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, 'so I do', 'c1'))
    session.append('tool/call', call(1, 'c1'))
    session.append('tool/result', result(1, 'c1', 'a.ts'))
    session.append('step/end', { turn: 1, step: 1 })
    session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
    const fork = ctx.sessions.fork(session, { id: 'two' })
    say(session, 'to the parent')
    say(fork, 'to the child')
    const again = ctx.sessions.fork(fork, { id: 'three' })
    say(again, 'to the grandchild')
    await plugin.dispose()
    expect(readdirSync(join(file, '..')).length).toBeGreaterThan(2)
    for (const recorded of [session, fork, again]) {
      const { header, events, notices } = await telemetry.readTrace(file, recorded.id)
      const replayed = ctx.sessions.create(`replayed-${recorded.id}`, { seed: events, cwd: header.cwd })
      expect(notices).toEqual([])
      expect(header).toMatchObject({ id: recorded.id, cwd: '/work/shop' })
      expect(header.parent).toEqual(recorded.header.parent)
      expect(replayed.events()).toEqual(recorded.events())
      expect(replayed.deriveMessages()).toEqual(recorded.deriveMessages())
    }
  })

  it('a trace with torn, foreign and missing lines says so, and gives the rest', async () => {
    const file = join(scratch(), 'trace.jsonl')
    const { ctx, plugin } = await bootTelemetry({ file })
    const session = ctx.sessions.create('one')
    for (const text of ['a', 'b', 'c', 'd']) say(session, text)
    await plugin.dispose()
    const lines = readFileSync(file, 'utf8').split('\n')
    writeFileSync(file, ['not json', lines[0], '{}', lines[1]?.slice(0, 80), lines[2], lines[2], lines[3]].join('\n'))
    const { events, notices } = await telemetry.readTrace(file, 'one')
    expect(events.map(({ seq }) => seq)).toEqual([0, 2, 3])
    expect(notices).toEqual(['1 lines of the trace cannot be read', '1 events of the session are not in the trace'])
    await expect(telemetry.readTrace(file, 'two')).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
    await expect(telemetry.readTrace(join(file, 'x'), 'two')).rejects.toMatchObject({ code: 'STORE_PATH' })
  })
})

const SECRETS = ['sk-live-9f8e7d6c5b4a3f2e']
