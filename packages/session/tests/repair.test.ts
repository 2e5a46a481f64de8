import { interruptedClosers, type Session, type SessionEvent } from '@cambium/session'
import { expect, it } from 'vitest'
import { boot, user } from './boot.ts'
import { answer, call, result } from './script.ts'

async function interrupted(script: (session: Session) => void): Promise<readonly SessionEvent[]> {
  const { ctx } = await boot()
  const session = ctx.sessions.create()
  session.append('turn/start', { turn: 1 })
  session.append('user/message', { message: user('go') })
  script(session)
  return session.events()
}

const brief = (events: ReturnType<typeof interruptedClosers>) =>
  events.map(event => (event.type === 'tool/result' ? [event.type, event.data.error?.code] : [event.type]))

it('each call of the open step is answered: not started where none was logged, else unknown', async () => {
  const events = await interrupted(session => {
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, 'let me see', 'a', 'b', 'c'))
    session.append('tool/call', call(1, 'a'))
    session.append('tool/result', result(1, 'a'))
    session.append('tool/call', call(1, 'b'))
  })
  const closers = interruptedClosers(events)
  expect(brief(closers)).toEqual([
    ['tool/result', 'TOOL_OUTCOME_UNKNOWN'],
    ['tool/result', 'TOOL_NOT_STARTED'],
    ['step/end'],
    ['turn/end'],
  ])
  expect(closers[0]?.data).toMatchObject({
    turn: 1,
    step: 1,
    message: { source: { kind: 'tool', callId: 'b' }, content: [{ toolCallId: 'b', isError: true }] },
  })
  expect(closers.at(-1)?.data).toEqual({ turn: 1, reason: { kind: 'interrupted' } })
  expect(new Set(closers.map(event => event.time))).toEqual(new Set([events.at(-1)?.time]))
  expect(interruptedClosers(events)).toEqual(closers)
})

it('calls of steps that ended are not answered again', async () => {
  const events = await interrupted(session => {
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, '', 'a'))
    session.append('tool/call', call(1, 'a'))
    session.append('tool/result', result(1, 'a'))
    session.append('step/end', { turn: 1, step: 1 })
  })
  expect(brief(interruptedClosers(events))).toEqual([['turn/end']])
})

it('a log that is balanced or empty needs nothing', async () => {
  const events = await interrupted(session => {
    session.append('turn/end', { turn: 1, reason: { kind: 'completed' } })
  })
  expect(interruptedClosers(events)).toEqual([])
  expect(interruptedClosers([])).toEqual([])
})

const partial = (attempt: number) =>
  ({
    turn: 1,
    step: 1,
    attempt,
    content: [
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'I was say' },
      { type: 'tool-call', id: 'x', name: 'bash', arguments: '{"comm' },
    ],
  }) as const

it('a journalled answer becomes an interrupted message without half-written calls', async () => {
  const events = await interrupted(session => {
    session.append('request/header', { config: { provider: 'local', model: 'm' } })
    session.append('step/start', { turn: 1, step: 1 })
  })
  const closers = interruptedClosers(events, partial(1))
  expect(brief(closers)).toEqual([['assistant/message'], ['step/end'], ['turn/end']])
  expect(closers[0]?.data).toMatchObject({
    interrupted: true,
    message: {
      content: [
        { type: 'reasoning', text: 'hm' },
        { type: 'text', text: 'I was say' },
      ],
      source: { kind: 'model', provider: 'local', model: 'm' },
    },
  })
})

it('a journalled answer is dropped where the log knows better', async () => {
  const answered = await interrupted(session => {
    session.append('step/start', { turn: 1, step: 1 })
    session.append('assistant/message', answer(1, 'I was saying this', 'a'))
  })
  expect(brief(interruptedClosers(answered, partial(1)))).toEqual([
    ['tool/result', 'TOOL_NOT_STARTED'],
    ['step/end'],
    ['turn/end'],
  ])
  const failed = await interrupted(session => {
    session.append('step/start', { turn: 1, step: 1 })
    session.append('request/failed', {
      turn: 1,
      step: 1,
      attempt: 1,
      failure: { code: 'STREAM_CLOSED', message: 'closed' },
    })
  })
  expect(brief(interruptedClosers(failed, partial(1)))).toEqual([['step/end'], ['turn/end']])
  expect(brief(interruptedClosers(failed, partial(2)))[0]).toEqual(['assistant/message'])
  const other = await interrupted(session => void session.append('step/start', { turn: 1, step: 2 }))
  expect(brief(interruptedClosers(other, partial(1)))).toEqual([['step/end'], ['turn/end']])
  const only = await interrupted(session => void session.append('step/start', { turn: 1, step: 1 }))
  const thought = { ...partial(1), content: partial(1).content.slice(0, 1) }
  expect(brief(interruptedClosers(only, thought))).toEqual([['step/end'], ['turn/end']])
})
