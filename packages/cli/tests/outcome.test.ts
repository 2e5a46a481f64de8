import type { AssistantBlock, TokenUsage } from '@cambium/llm'
import type { SessionEvent, SessionEventMap, TurnEndReason } from '@cambium/session'
import { describe, expect, test } from 'vitest'
import { foldOutcome } from '../src/outcome.ts'

const usage: TokenUsage = {
  inputTokens: 100,
  outputTokens: 20,
  cacheReadTokens: 7,
  cacheWriteTokens: 0,
  reasoningTokens: 5,
}

function log(...entries: { [K in keyof SessionEventMap]: [K, SessionEventMap[K]] }[keyof SessionEventMap][]) {
  return entries.map(([type, data], seq) => ({ seq, time: 0, type, data }) as SessionEvent)
}

type Finish = SessionEventMap['assistant/message']['finish']
function said(text: string, finish: Finish = 'stop'): ['assistant/message', SessionEventMap['assistant/message']] {
  const content: AssistantBlock[] = text ? [{ type: 'text', text }] : []
  const source = { kind: 'model', provider: 'p', model: 'm' } as const
  return [
    'assistant/message',
    { turn: 1, step: 1, message: { id: 'a', role: 'assistant', content, source }, usage, finish },
  ]
}
const begin = ['turn/start', { turn: 1 }] as ['turn/start', { turn: number }]
const end = (reason: TurnEndReason) => ['turn/end', { turn: 1, reason }] as ['turn/end', SessionEventMap['turn/end']]
const fold = (...entries: Parameters<typeof log>) => foldOutcome(log(...entries), () => undefined)

describe('what came of a task', () => {
  test('the answer is the last one, not what was said beside calls', () => {
    const outcome = fold(begin, said('let me look', 'tool-calls'), said('it is 4'), end({ kind: 'completed' }))
    expect(outcome).toMatchObject({ answer: 'it is 4', stopReason: 'completed', exitCode: 0 })
    expect(outcome.failure).toBeUndefined()
  })

  test('when a tool concluded the turn, what was said before it stands', () => {
    const outcome = fold(begin, said('handing over', 'tool-calls'), end({ kind: 'completed' }))
    expect(outcome).toMatchObject({ answer: 'handing over', exitCode: 0 })
  })

  test.each<[string, TurnEndReason, { stopReason: string; exitCode: number }]>([
    ['a limit', { kind: 'limit', reason: '3 steps are used up' }, { stopReason: 'limit', exitCode: 3 }],
    ['the output limit', { kind: 'max-tokens' }, { stopReason: 'limit', exitCode: 3 }],
    ['a rejected step', { kind: 'blocked', reason: 'no' }, { stopReason: 'refused', exitCode: 4 }],
    ['a hook', { kind: 'aborted', by: 'hook' }, { stopReason: 'refused', exitCode: 4 }],
    ['a person', { kind: 'aborted', by: 'user' }, { stopReason: 'interrupted', exitCode: 130 }],
    [
      'an error',
      { kind: 'error', error: { code: 'AUTH', message: 'wrong key' } },
      { stopReason: 'failed', exitCode: 1 },
    ],
  ])('ended by %s, it has its own exit code and a message', (_, reason, expected) => {
    const outcome = fold(begin, said('part'), end(reason))
    expect(outcome).toMatchObject(expected)
    expect(outcome.failure?.message).toBeTruthy()
  })

  test('an empty last answer is a failure, even after earlier words', () => {
    const outcome = fold(begin, said('let me look', 'tool-calls'), said(''), end({ kind: 'completed' }))
    expect(outcome).toMatchObject({ answer: '', exitCode: 1, failure: { code: 'EMPTY_RESPONSE' } })
  })

  test('no turn at all is a failure', () => {
    expect(fold()).toMatchObject({ exitCode: 1, failure: { code: 'NO_TURN' } })
  })

  test('the last turn decides', () => {
    const outcome = fold(
      begin,
      end({ kind: 'error', error: { code: 'SERVER', message: 'down' } }),
      begin,
      said('fine now'),
      end({ kind: 'completed' }),
    )
    expect(outcome).toMatchObject({ answer: 'fine now', exitCode: 0, turns: 2 })
  })

  test('failed attempts cost as well, and an unknown price makes the cost unknown', () => {
    const failure = { code: 'SERVER', message: 'x' } as const
    const events = log(
      begin,
      ['request/header', { config: { provider: 'p', model: 'm' } }],
      ['request/failed', { turn: 1, step: 1, attempt: 1, failure, usage }],
      said('yes'),
      end({ kind: 'completed' }),
    )
    expect(foldOutcome(events, () => 0.5)).toMatchObject({ cost: 1, usage: { inputTokens: 200, cacheReadTokens: 14 } })
    expect(foldOutcome(events, () => undefined).cost).toBeUndefined()
  })

  test('an answer that nobody counted makes the cost unknown, a failure that counted nothing does not', () => {
    const [type, { usage: _, ...uncounted }] = said('ok')
    const failure = { code: 'TRANSPORT', message: 'refused' } as const
    const events = log(
      begin,
      ['request/failed', { turn: 1, step: 1, attempt: 1, failure }],
      said('let me look', 'tool-calls'),
      [type, uncounted],
      end({ kind: 'completed' }),
    )
    expect(foldOutcome(events.slice(0, 3), () => 0.5, { provider: 'p', model: 'm' }).cost).toBe(0.5)
    expect(foldOutcome(events, () => 0.5).cost).toBeUndefined()
  })

  test('what a summary of the conversation has cost is counted, by its own route', () => {
    const spent = [{ provider: 'other', model: 's', usage }]
    const events = log(
      begin,
      ['compaction/ended', { id: 'c', before: 2, after: 1, fits: true, spent }],
      said('yes'),
      end({ kind: 'completed' }),
    )
    const costOf = (_usage: object, { provider }: { provider: string }) => (provider === 'other' ? 3 : 1)
    expect(foldOutcome(events, costOf)).toMatchObject({ cost: 4, usage: { inputTokens: 200 } })
  })

  test('what the title has cost is counted, by its own route', () => {
    const route = { provider: 'other', model: 's' }
    const events = log(
      begin,
      ['session/title', { title: 'what was said', by: 'prompt' }],
      ['session/title', { title: 'A title', by: 'model', usage, route }],
      said('yes'),
      end({ kind: 'completed' }),
    )
    const costOf = (_usage: object, { provider }: { provider: string }) => (provider === 'other' ? 3 : 1)
    expect(foldOutcome(events, costOf)).toMatchObject({ cost: 4, usage: { inputTokens: 200 } })
  })

  test('each attempt costs what its own route does, also where that was said before the task came', () => {
    const failure = { code: 'QUOTA', message: 'x' } as const
    const events = log(
      begin,
      ['request/failed', { turn: 1, step: 1, attempt: 1, failure, usage }],
      ['request/header', { config: { provider: 'spare', model: 'm', insteadOf: { provider: 'first', model: 'm' } } }],
      ['request/failed', { turn: 1, step: 1, attempt: 2, failure, usage }],
      end({ kind: 'completed' }),
    )
    const costOf = (_usage: object, { provider }: { provider: string }) => (provider === 'spare' ? 4 : 1)
    expect(foldOutcome(events, costOf, { provider: 'first', model: 'm' }).cost).toBe(5)
  })
})
