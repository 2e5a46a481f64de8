import { stripVTControlCharacters } from 'node:util'
import type { LiveEvent, SessionEvent } from '@cambium/session'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Progress } from '../src/progress.ts'
import { StatusLine } from '../src/status-line.ts'
import { Sink } from './streams.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] }))
afterEach(() => void vi.useRealTimers())

function start(options: { color?: boolean; redraws?: boolean } = {}) {
  const sink = new Sink(true)
  const progress = new Progress({
    line: new StatusLine(sink, options.redraws ?? true),
    color: options.color ?? false,
    present: (tool, args) => (tool === 'bash' ? (args as { command: string }).command : undefined),
  })
  progress.start('p/m · /work')
  const event = (type: string, data: unknown) => progress.event({ type, data } as SessionEvent | LiveEvent)
  const call = (name: string, args: unknown, callId = 'c1') =>
    event('tool/call', { turn: 1, step: 1, callId, name, arguments: JSON.stringify(args) })
  const result = (text: string, error?: { code: string; message: string }, meta?: unknown, callId = 'c1') =>
    event('tool/result', {
      turn: 1,
      step: 1,
      durationMs: 1500,
      message: {
        content: [
          {
            type: 'tool-result',
            toolCallId: callId,
            content: [{ type: 'text', text }],
            ...(error ? { isError: true } : {}),
          },
        ],
      },
      ...(error ? { error } : {}),
      ...(meta ? { meta } : {}),
    })
  /** The redrawn line as it is now. */
  const status = () => stripVTControlCharacters(sink.text.split('\x1b[?7l').at(-1)!.split('\x1b[?7h')[0]!)
  return { sink, progress, event, call, result, status }
}

test('a running call is shown with its elapsed time, a finished one stays as a line', () => {
  const { sink, call, result, status, event } = start()
  call('bash', { command: 'npm test' })
  vi.advanceTimersByTime(3_000)
  expect(status()).toMatch(/bash npm test 3\.0 s · 3\.0 s$/)
  event('tool/progress', { callId: 'c1', name: 'bash', data: { kind: 'output', tail: 'one\nTAP version 13\n' } })
  vi.advanceTimersByTime(100)
  expect(status()).toMatch(/bash npm test 3\.1 s · TAP version 13 · 3\.1 s$/)
  result('ok')
  expect(stripVTControlCharacters(sink.text)).toContain('✓ bash npm test 1.5 s\n')
})

test('a failure and a refusal say why', () => {
  const { sink, call, result } = start()
  call('bash', { command: 'false' })
  result('exit code 1\nmore', { code: 'TOOL_FAILED', message: 'exit code 1' })
  call('write', { file_path: 'a.txt', content: '' })
  result('no', { code: 'TOOL_DENIED', message: 'read only' })
  const text = stripVTControlCharacters(sink.text)
  expect(text).toContain('✗ bash false 1.5 s\n  exit code 1\n')
  expect(text).toContain('⊘ write a.txt 1.5 s\n  read only\n')
})

test('a program that ended badly is no good news', () => {
  const { sink, call, result } = start()
  call('bash', { command: 'npm test' })
  result('2 tests failed', undefined, { exitCode: 1 })
  expect(stripVTControlCharacters(sink.text)).toContain('✗ bash npm test 1.5 s\n  exit code 1\n')
  call('bash', { command: 'sleep 9' })
  result('(no output)\n[cancelled]', undefined, { exitCode: null, signal: 'SIGTERM', timedOut: false })
  expect(stripVTControlCharacters(sink.text)).toContain('✗ bash sleep 9 1.5 s\n  ended by SIGTERM\n')
  call('bash', { command: 'sleep 8' })
  result('(no output)\n[timed out]', undefined, { exitCode: null, signal: 'SIGTERM', timedOut: true })
  expect(stripVTControlCharacters(sink.text)).toContain('✗ bash sleep 8 1.5 s\n  timed out\n')
})

test('tokens are counted, an answer under way by its length', () => {
  const { event, status } = start()
  event('step/start', { turn: 1, step: 1 })
  event('assistant/chunk', { chunk: { type: 'text-delta', index: 0, text: 'x'.repeat(400) } })
  vi.advanceTimersByTime(200)
  expect(status()).toMatch(/answering · 0\.2 s · 0 tokens in, 100 out$/)
  const usage = { inputTokens: 1200, outputTokens: 90, cacheReadTokens: 300, cacheWriteTokens: 0, reasoningTokens: 0 }
  event('assistant/message', { message: { content: [] }, usage, finish: 'stop' })
  expect(status()).toMatch(/1\.5k tokens in, 90 out$/)
})

test('a wait before another attempt is counted down, and what the failed one had streamed is void', () => {
  const { event, status } = start()
  const route = { provider: 'p', model: 'm' }
  const failure = { code: 'RATE_LIMIT', message: 'slow down' }
  event('step/start', { turn: 1, step: 1 })
  event('assistant/chunk', { chunk: { type: 'text-delta', index: 0, text: 'x'.repeat(400) } })
  event('request/failed', { turn: 1, step: 1, attempt: 1, failure })
  expect(status()).toMatch(/thinking · 0\.0 s$/)
  event('request/retry', { route, next: route, failure, attempt: 2, maxAttempts: 5, delayMs: 3_000 })
  expect(status()).toMatch(/trying again in 3 s \(2\/5\)/)
  vi.advanceTimersByTime(1_500)
  expect(status()).toMatch(/trying again in 2 s \(2\/5\)/)
  vi.advanceTimersByTime(2_000)
  expect(status()).toMatch(/trying again \(2\/5\) · 3\.5 s$/)
  event('assistant/chunk', { chunk: { type: 'text-delta', index: 0, text: 'x'.repeat(40) } })
  vi.advanceTimersByTime(100)
  expect(status()).toMatch(/answering · 3\.6 s · 0 tokens in, 10 out$/)
  const next = { provider: 'q', model: 'n' }
  event('request/retry', { route, next, failure, attempt: 1, maxAttempts: 5, delayMs: 0, restMs: 60_000 })
  expect(status()).toMatch(/asking q\/n/)
})

test('what a model writes cannot drive the terminal', () => {
  const { sink, call, result, event } = start()
  event('assistant/message', {
    message: { content: [{ type: 'text', text: 'hi \x1b[2J\u202e there' }] },
    finish: 'tool-calls',
  })
  call('bash', { command: 'echo \x1b]0;title\x07\r\n rm' })
  result('\x1b[31mred', { code: 'TOOL_FAILED', message: '\x1b[31mred' })
  const ours = ['\r\x1b[2K', '\x1b[?7l', '\x1b[?7h', '\n']
  const rest = ours.reduce((text, sequence) => text.replaceAll(sequence, ''), sink.text)
  expect(rest).not.toMatch(/[\p{Cc}\p{Cf}]/u)
  expect(sink.text).toContain('hi \\x1b[2J\\u{202e} there')
})

test('arguments that are no JSON, and presenters that throw, are shown as they came', () => {
  const { sink, event, call } = start()
  event('tool/call', { callId: 'c9', name: 'read', arguments: '{"file_pa' })
  vi.advanceTimersByTime(100)
  expect(sink.text).toContain('read {"file_pa')
  expect(() => call('bash', null)).not.toThrow()
})

test('a long command is cut with a mark', () => {
  const { sink, call } = start()
  call('bash', { command: 'x'.repeat(5_000) })
  expect(sink.text).toContain(`${'x'.repeat(160)}… (+4840 characters)`)
})

test('a terminal that cannot redraw gets lines only, and colours are off when asked', () => {
  const { sink, call, result, progress } = start({ redraws: false })
  call('bash', { command: 'ls' })
  vi.advanceTimersByTime(1_000)
  result('a')
  progress.stop()
  expect(sink.text).toBe('p/m · /work\n✓ bash ls 1.5 s\n')
})

test('stopping takes the redrawn line and its timer away', () => {
  const { sink, progress } = start()
  progress.stop()
  expect(sink.text.endsWith('\r\x1b[2K')).toBe(true)
  expect(vi.getTimerCount()).toBe(0)
})

test('that the conversation is made shorter is seen, and what came of it', () => {
  const { sink, event, status } = start()
  const route = { provider: 'p', model: 'm' }
  event('compaction/started', { id: 'c', reason: 'pressure', before: 120_000, ...route })
  expect(status()).toContain('making the conversation shorter')
  event('request/retry', {
    purpose: 'compaction',
    route,
    next: route,
    failure: {},
    attempt: 2,
    maxAttempts: 5,
    delayMs: 9,
  })
  const usage = { inputTokens: 7_000, outputTokens: 100, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
  event('compaction/ended', {
    id: 'c',
    tier: 'summary',
    before: 120_000,
    after: 30_000,
    fits: true,
    spent: [{ ...route, usage }],
  })
  expect(stripVTControlCharacters(sink.text)).toContain('the conversation is shorter: 120k tokens before, 30k now')
  expect(status()).toMatch(/thinking · .* 7\.0k tokens in/)
  event('compaction/ended', {
    id: 'c',
    before: 9,
    after: 9,
    fits: true,
    error: { code: 'SERVER', message: 'it is in trouble' },
  })
  expect(sink.text).toContain('no summary of the conversation: it is in trouble')
})
