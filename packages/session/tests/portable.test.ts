import type { SessionEvent, SessionHeader, StoredSession } from '@cambium/session'
import { EXPORT_FORMAT, exportSession, readSession } from '@cambium/session/portable'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { boot, user } from './boot.ts'

const header: SessionHeader = {
  version: 1,
  id: 's1',
  createdAt: 1_700_000_000_000,
  cwd: '/work',
  parent: { id: 's0', events: 3 },
  origin: 'user',
  depth: 1,
}
const events = [
  { seq: 0, time: 1, type: 'turn/start', data: { turn: 1 } },
  { seq: 1, time: 2, type: 'user/message', data: { message: user('hello\u2028\x9b there', 'm1') } },
  // Of a plugin that nobody here knows, and one that a damaged log has broken.
  { seq: 2, time: 3, type: 'strange/thing', data: { list: [1, null, { deep: '…' }] }, ignorable: false },
  { seq: 3, time: 3, type: 'user/message', data: { message: 'broken' } },
  { seq: 4, time: 4, type: 'turn/end', data: { turn: 1, reason: { kind: 'completed' } } },
] as unknown as SessionEvent[]
const stored: StoredSession = { header, events, notices: [] }
const text = (options = {}) => [...exportSession(stored, options)].join('')
const log = () => [{ type: 'session', ...header }, ...events].map(line => `${JSON.stringify(line)}\n`).join('')

function problem(source: string): { code: string; where: string; problem: string } {
  try {
    readSession(source)
  } catch (error) {
    return error as never
  }
  throw new Error('it was taken')
}

describe('an exported session', () => {
  it('is read as it was, with events that nobody knows and broken ones, also when it was formatted anew', () => {
    const exported = text()
    expect(exported).not.toMatch(/[\u2028\x7f-\x9f]/)
    for (const source of [exported, JSON.stringify(JSON.parse(exported), null, 2), `\uFEFF${exported}`]) {
      const back = readSession(source)
      expect({ header: back.header, events: back.events }).toEqual({ header, events })
      expect(back.redacted).toBe(false)
      expect(back.notices).toEqual(['event 3 (user/message) is broken, and is kept but not read'])
    }
    expect(JSON.parse(exported)).toMatchObject({ format: EXPORT_FORMAT, version: 1, redacted: false })
    // An event a line, for whoever looks for one.
    expect(exported.split('\n').filter(line => line.includes('"strange/thing"'))).toHaveLength(1)
  })

  it('says that it was redacted', () => {
    const redact = (value: unknown) => JSON.parse(JSON.stringify(value).replaceAll('hello', '[redacted]'))
    const back = readSession(text({ redact }))
    expect(back.redacted).toBe(true)
    expect(JSON.stringify(back.events)).toContain('[redacted]')
    expect(JSON.stringify(back.events)).not.toContain('hello')
  })

  it('makes a session that is the one it came from', async () => {
    const { ctx } = await boot()
    const back = readSession(text())
    const session = ctx.sessions.create('s2', { cwd: '/work', seed: back.events })
    expect(session.events()).toEqual(events)
  })

  it('comes back the same whatever it holds', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue({ maxDepth: 4 }), { minLength: 1, maxLength: 8 }), values => {
        const any = values.map((value, seq) => ({ seq, time: seq, type: 'any/thing', data: { value } }))
        const parts = exportSession({ header, events: JSON.parse(JSON.stringify(any)), notices: [] })
        expect(readSession([...parts].join('')).events).toEqual(JSON.parse(JSON.stringify(any)))
      }),
      { numRuns: 100 },
    )
  })
})

describe('the file of a log', () => {
  it('is taken as well, its last line also when it is cut off', () => {
    expect(readSession(log()).events).toEqual(events)
    const cut = readSession(log().slice(0, -20))
    expect(cut.events).toEqual(events.slice(0, -1))
    expect(cut.notices[0]).toBe('the last line is cut off and was left out')
  })
})

describe('what cannot be imported is named with its place, and nothing of it is used', () => {
  const changed = (change: (file: { header: never; events: never[] }) => void) => {
    const file = JSON.parse(text())
    change(file)
    return JSON.stringify(file)
  }
  it.each([
    ['no JSON', 'hello', /^line 1/, /not JSON/],
    ['half of a file', text().slice(0, 300), /^line \d+/, /not JSON/],
    ['another format', '{"format":"other"}', /^format$/, /cambium-session/],
    ['a list', '[]', /^format$/, /cambium-session/],
    ['no events', changed(file => file.events.splice(0)), /^events$/, /there are none/],
    ['an id that is a path', changed(file => Object.assign(file.header, { id: '../x' })), /^header\.id$/, /id/],
    [
      'a folder that is not absolute',
      changed(file => Object.assign(file.header, { cwd: 'x' })),
      /^header\.cwd$/,
      /absolute/,
    ],
    ['a gap', changed(file => file.events.splice(1, 1)), /^events\[1\]\.seq$/, /it is 2 where 1 has to follow/],
    [
      'an event without data',
      changed(file => Object.assign(file.events[2]!, { data: undefined })),
      /^events\[2\]\.data$/,
      /missing/,
    ],
    [
      'an event of no type',
      changed(file => Object.assign(file.events[2]!, { type: 7 })),
      /^events\[2\]\.type$/,
      /type/,
    ],
    [
      'a field that would be lost',
      changed(file => Object.assign(file.events[0]!, { more: 1 })),
      /^events\[0\]\.more$/,
      /lost/,
    ],
    [
      'a number out of range',
      changed(file => file.events).replace('"turn":1}', '"turn":1e999}'),
      /^events\[0\]\.data$/,
      /out of range/,
    ],
    ['a line in the middle of a log', log().replace('{"seq":2', '{seq:2'), /^line 4$/, /not JSON/],
    ['a log with a header that is none', log().replace('"cwd":"/work"', '"cwd":7'), /^line 1, cwd$/, /absolute/],
  ])('%s', (_, source, where, words) => {
    const found = problem(source)
    expect(found.code).toBe('SESSION_IMPORT_INVALID')
    expect(found.where).toMatch(where)
    expect(found.problem).toMatch(words)
  })

  it('a newer version', () => {
    expect(problem(changed(file => Object.assign(file, { version: 2 })))).toMatchObject({
      code: 'SESSION_VERSION',
      where: 'version',
    })
    expect(problem(log().replace('"version":1', '"version":2'))).toMatchObject({
      code: 'SESSION_VERSION',
      where: 'line 1, version',
    })
  })
})
