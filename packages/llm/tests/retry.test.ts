import type { Context } from '@cambium/core'
import {
  LlmAdapter,
  type LlmFailure,
  type LlmFailureCode,
  type LlmRequest,
  RETRY_POLICY,
  RetryCourse,
  type RetryNotice,
  type StreamChunk,
  streamWithRetry,
} from '@cambium/llm'
import * as retry from '@cambium/llm/retry'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { adapted, ask, collect, tree } from './llm.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date', 'performance'] }))
afterEach(() => void vi.useRealTimers())

const failure = (code: LlmFailureCode, retryAfterMs?: number): LlmFailure => ({
  code,
  message: code,
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
})

/** Waits of a course whose every attempt fails like that, `takesMs` after it began. */
function waits(failed: LlmFailure, { takesMs = 0, policy = RETRY_POLICY } = {}): number[] {
  const course = new RetryCourse(policy)
  const out: number[] = []
  vi.advanceTimersByTime(takesMs)
  for (;;) {
    const wait = course.next(failed)
    if (wait === undefined) return out
    out.push(wait)
    vi.advanceTimersByTime(wait + takesMs)
  }
}

describe('the course of one request', () => {
  it.each(['EMPTY_RESPONSE', 'RATE_LIMIT', 'SERVER', 'TIMEOUT', 'TRANSPORT', 'STREAM_CLOSED'] as const)(
    'has five attempts for %s, each wait twice as long, with jitter',
    code => {
      const found = waits(failure(code))
      expect(found).toHaveLength(4)
      for (const [at, wait] of found.entries()) {
        const middle = 500 * 2 ** at
        expect(wait).toBeGreaterThanOrEqual(middle * 0.94)
        expect(wait).toBeLessThanOrEqual(middle * 1.06)
      }
    },
  )

  it.each([
    'AUTH',
    'QUOTA',
    'INVALID_REQUEST',
    'UNKNOWN_MODEL',
    'MISSING_CREDENTIAL',
    'NO_ADAPTER',
    'CONTEXT_WINDOW_EXCEEDED',
    'ABORTED',
    'UNKNOWN',
  ] as const)('is over at once for %s', code => {
    expect(waits(failure(code))).toEqual([])
  })

  it('tries a malformed answer once more', () => {
    expect(waits(failure('MALFORMED_RESPONSE'))).toHaveLength(1)
  })

  it('waits as long as the provider asks, and a little more', () => {
    for (const wait of waits(failure('RATE_LIMIT', 2_000))) {
      expect(wait).toBeGreaterThanOrEqual(2_000)
      expect(wait).toBeLessThanOrEqual(4_300)
    }
  })

  it('waits out the minute that a rate limit is counted by, beside its own bound', () => {
    const found = waits(failure('RATE_LIMIT', 55_000))
    expect(found).toHaveLength(4)
    for (const wait of found) expect(wait).toBeGreaterThanOrEqual(55_000)
  })

  it('does not wait for a day, nor a little at a time for one who asks for longer', () => {
    expect(waits(failure('RATE_LIMIT', 86_400_000))).toEqual([])
    expect(waits(failure('SERVER', 60_001))).toEqual([])
  })

  it('does not hear of a clock that is set', () => {
    const course = new RetryCourse()
    for (const attempt of [1, 2, 3, 4]) {
      expect(course.next(failure('SERVER'))).toBeGreaterThan(0)
      vi.setSystemTime(Date.now() + (attempt % 2 ? 36_000_000 : -72_000_000))
    }
  })

  it('is over within its bound, the attempts included', () => {
    const start = Date.now()
    expect(waits(failure('TRANSPORT'), { takesMs: 10_000 }).length).toBeGreaterThan(0)
    expect(Date.now() - start).toBeLessThanOrEqual(30_000)
    const slow = waits(failure('TRANSPORT'), { policy: { ...RETRY_POLICY, maxAttempts: 100, initialMs: 3_000 } })
    expect(slow.reduce((sum, wait) => sum + wait)).toBeLessThanOrEqual(30_000)
  })
})

class Flaky extends LlmAdapter {
  readonly requests: LlmRequest[] = []
  private readonly failures: (LlmFailure | undefined)[]
  private readonly begins: boolean
  constructor(failures: (LlmFailure | undefined)[], begins = false) {
    super()
    this.failures = failures
    this.begins = begins
  }
  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    this.requests.push(request)
    const failed = this.failures.shift()
    const usage = { inputTokens: 5, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
    if (this.begins || !failed) {
      yield { type: 'block-start', index: 0, blockType: 'text' }
      yield { type: 'text-delta', index: 0, text: 'ok' }
    }
    if (!failed) yield { type: 'block-end', index: 0, block: { type: 'text', text: 'ok' } }
    yield { type: 'usage', usage }
    yield failed ? { type: 'finish', reason: 'error', failure: failed } : { type: 'finish', reason: 'stop' }
  }
}

describe('a stream with retries', () => {
  it('tries again, says so, and counts all attempts together', async () => {
    const adapter = new Flaky([failure('SERVER'), failure('EMPTY_RESPONSE')])
    const root = await adapted(adapter)
    const notices: RetryNotice[] = []
    root.on('llm/retry', notice => void notices.push(notice))
    const pending = collect(streamWithRetry(root, ask()))
    await vi.runAllTimersAsync()
    expect(await pending).toMatchObject({ text: 'ok', reason: 'stop', usage: { inputTokens: 15 } })
    expect(notices).toMatchObject([
      { provider: 'test', model: 'test-model', failure: { code: 'SERVER' }, attempt: 2, maxAttempts: 5 },
      { failure: { code: 'EMPTY_RESPONSE' }, attempt: 3 },
    ])
  })

  it('does not once the answer has begun', async () => {
    const adapter = new Flaky([failure('SERVER')], true)
    const got = await collect(streamWithRetry(await adapted(adapter), ask()))
    expect([got.reason, adapter.requests.length]).toEqual(['error', 1])
  })

  it('gives up with the last failure', async () => {
    const adapter = new Flaky(Array.from({ length: 9 }, () => failure('SERVER')))
    const pending = collect(streamWithRetry(await adapted(adapter), ask()))
    await vi.runAllTimersAsync()
    expect([(await pending).failure?.code, adapter.requests.length]).toEqual(['SERVER', 5])
  })

  it('is cancelled while it waits', async () => {
    const adapter = new Flaky([failure('SERVER')])
    const controller = new AbortController()
    const root = await adapted(adapter)
    root.on('llm/retry', () => controller.abort())
    expect((await collect(streamWithRetry(root, ask({ signal: controller.signal })))).reason).toBe('aborted')
    expect(adapter.requests).toHaveLength(1)
  })
})

describe('the retry plugin', () => {
  type Decision = { kind: string }
  const loop = (root: Context, more: object = {}, inner: Decision = { kind: 'fail' }): Promise<Decision> => {
    const agent = { session: { id: 's' } }
    const input = {
      agent,
      turn: 1,
      step: 1,
      attempt: 1,
      config: ask(),
      failure: failure('SERVER'),
      visible: false,
      signal: new AbortController().signal,
      ...more,
    }
    // The loop's room stands above this one: its event is dispatched here by name.
    const dispatch = root as unknown as { waterfall(name: string, ...args: unknown[]): Promise<Decision> }
    return dispatch.waterfall('agent/request-error', input, async () => inner)
  }
  const mounted = async (config: Partial<retry.Config> = {}) => {
    const root = await tree()
    const fiber = root.plugin(retry, config as retry.Config)
    await fiber
    return { root, fiber }
  }

  it('answers the loop with another attempt after the wait, and tells who listens', async () => {
    const { root } = await mounted()
    const heard: unknown[] = []
    root.on('llm/retry', (notice, _config, session) => void heard.push([notice.attempt, notice.failure.code, session]))
    const pending = loop(root)
    await vi.runAllTimersAsync()
    expect(await pending).toEqual({ kind: 'retry' })
    expect(heard).toEqual([[2, 'SERVER', 's']])
  })

  it('counts the attempts of one step together', async () => {
    const { root } = await mounted()
    const agent = { session: { id: 's' } }
    const visible = { agent, visible: true }
    const first = loop(root, visible)
    await vi.runAllTimersAsync()
    expect((await first).kind).toBe('retry')
    expect((await loop(root, { ...visible, attempt: 2 })).kind).toBe('fail')
    const next = loop(root, { ...visible, step: 2 })
    await vi.runAllTimersAsync()
    expect((await next).kind).toBe('retry')
  })

  it('leaves alone what another listener repaired, and what no wait repairs', async () => {
    const { root } = await mounted()
    expect(await loop(root, {}, { kind: 'retry' })).toEqual({ kind: 'retry' })
    expect(vi.getTimerCount()).toBe(0)
    expect(await loop(root, { failure: failure('AUTH') })).toEqual({ kind: 'fail' })
  })

  it('stops waiting when the turn is cancelled', async () => {
    const { root } = await mounted()
    const controller = new AbortController()
    const cancelled = loop(root, { signal: controller.signal })
    await vi.advanceTimersByTimeAsync(1)
    controller.abort()
    expect((await cancelled).kind).toBe('fail')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('lets the attempt be made at once when it leaves while it waits', async () => {
    const { root, fiber } = await mounted()
    const waiting = loop(root)
    await vi.advanceTimersByTimeAsync(1)
    await fiber.dispose()
    expect((await waiting).kind).toBe('retry')
    expect(await loop(root)).toEqual({ kind: 'fail' })
    expect(vi.getTimerCount()).toBe(0)
  })

  it('counts on after a reload what the log says of the attempts before', async () => {
    const log: { type: string; time: number; data: unknown }[] = [
      { type: 'request/header', time: Date.now(), data: { config: ask() } },
      { type: 'request/failed', time: Date.now(), data: { failure: failure('SERVER') } },
      { type: 'step/start', time: Date.now(), data: { turn: 1, step: 1 } },
    ]
    const agent = { session: { id: 's', events: () => log } }
    const attempts: number[] = []
    for (const attempt of [1, 2, 3, 4, 5]) {
      const { root, fiber } = await mounted()
      root.on('llm/retry', notice => void attempts.push(notice.attempt))
      log.push({ type: 'request/failed', time: Date.now(), data: { failure: failure('SERVER') } })
      const decision = loop(root, { agent, attempt })
      await vi.runAllTimersAsync()
      expect((await decision).kind).toBe(attempt < 5 ? 'retry' : 'fail')
      await fiber.dispose()
    }
    expect(attempts).toEqual([2, 3, 4, 5])
  })
})
