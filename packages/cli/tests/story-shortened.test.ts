import type { SessionEvent, StoredSession } from '@cambium/session'
import { expect, test } from 'vitest'
import { storyOf } from '../src/sessions/story.ts'

test('messages that a compaction only shortened are one line of a transcript, however many they are', () => {
  const result = (id: string, source: object) => ({
    id,
    role: 'user',
    content: [{ type: 'tool-result', toolCallId: id.slice(0, 1), content: [{ type: 'text', text: id }] }],
    source,
  })
  const events = (
    [
      ['turn/start', { turn: 1 }],
      ...['a', 'b'].map(id => ['tool/result', { turn: 1, step: 1, message: result(id, { kind: 'tool', callId: id }) }]),
      ['compaction/started', { id: 'c' }],
      ...[1, 2].map(at => [
        'context/replaced',
        { from: at, to: at, message: result(`${'ab'[at - 1]}2`, { kind: 'tool' }) },
      ]),
      ['compaction/ended', { id: 'c', tier: 'results' }],
      ['context/replaced', { from: 4, to: 5, message: result('all', { kind: 'compaction', form: 'summary' }) }],
      ['turn/end', { turn: 1, reason: { kind: 'completed' } }],
    ] as [string, object][]
  ).map(([type, data], seq) => ({ seq, time: 1, type, data }) as unknown as SessionEvent)
  const header = { version: 1, id: 's', createdAt: 1, cwd: '/' } as const
  const story = [...storyOf({ header, events, notices: [] } as unknown as StoredSession)]
  expect(story.flatMap(item => ('messages' in item ? [[item.kind, item.messages]] : []))).toEqual([
    ['shortened', 2],
    ['replaced', 2],
  ])
})
