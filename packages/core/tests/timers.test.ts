import { Deadline, deadline, MAX_TIMER_MS, sleep } from '@cambium/core'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0)
  vi.useRealTimers()
})

/** An abort signal whose listeners can be counted. */
function counted() {
  const controller = new AbortController()
  let listeners = 0
  const { signal } = controller
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = ((...args: Parameters<typeof add>) => {
    listeners++
    add(...args)
  }) as typeof signal.addEventListener
  signal.removeEventListener = ((...args: Parameters<typeof remove>) => {
    listeners--
    remove(...args)
  }) as typeof signal.removeEventListener
  return { controller, signal, listeners: () => listeners }
}

async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false
  void promise.then(() => {
    done = true
  })
  await vi.advanceTimersByTimeAsync(0)
  return done
}

describe('a sleep', () => {
  it('ends when its time has passed', async () => {
    const nap = sleep(1_000)
    await vi.advanceTimersByTimeAsync(999)
    expect(await settled(nap)).toBe(false)
    await vi.advanceTimersByTimeAsync(1)
    expect(await settled(nap)).toBe(true)
  })

  it('ends at once when it is aborted, before or meanwhile, and leaves no timer or listener', async () => {
    const { controller, signal, listeners } = counted()
    const nap = sleep(1_000, signal)
    controller.abort()
    expect(await settled(nap)).toBe(true)
    expect(vi.getTimerCount()).toBe(0)
    expect(await settled(sleep(1_000, signal))).toBe(true)
    expect(listeners()).toBe(0)
  })

  it('that ended by itself leaves no listener', async () => {
    const { signal, listeners } = counted()
    const nap = sleep(10, signal)
    await vi.advanceTimersByTimeAsync(10)
    await nap
    expect(listeners()).toBe(0)
  })

  it('above what a timer can hold does not end at once', async () => {
    const controller = new AbortController()
    const nap = sleep(MAX_TIMER_MS * 10, controller.signal)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await settled(nap)).toBe(false)
    controller.abort()
    await nap
  })

  it('can let the process end before it', async () => {
    vi.useRealTimers()
    const controller = new AbortController()
    const before = process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length
    const nap = sleep(60_000, controller.signal, { unref: true })
    expect(process.getActiveResourcesInfo().filter(kind => kind === 'Timeout').length).toBe(before)
    controller.abort()
    await nap
    vi.useFakeTimers()
  })
})

describe('a deadline', () => {
  it('aborts with a Deadline when its time has passed', async () => {
    const limit = deadline(1_000)
    await vi.advanceTimersByTimeAsync(999)
    expect([limit.signal.aborted, limit.expired()]).toEqual([false, false])
    await vi.advanceTimersByTimeAsync(1)
    expect([limit.signal.aborted, limit.expired()]).toEqual([true, true])
    expect(limit.signal.reason).toBeInstanceOf(Deadline)
    expect(limit.signal.reason).toMatchObject({ name: 'Deadline', ms: 1_000, message: 'no end within 1000 ms' })
  })

  it('passes an abort on with its reason, and then is not expired, however long one waits', async () => {
    const { controller, signal, listeners } = counted()
    const limit = deadline(1_000, signal)
    controller.abort('stop')
    expect(limit.signal.reason).toBe('stop')
    await vi.advanceTimersByTimeAsync(2_000)
    expect(limit.expired()).toBe(false)
    expect(listeners()).toBe(0)
  })

  it('of what is aborted already is aborted already', () => {
    const limit = deadline(1_000, AbortSignal.abort('stop'))
    expect([limit.signal.reason, limit.expired()]).toEqual(['stop', false])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('that expired lets go of the signal above it', async () => {
    const { signal, listeners } = counted()
    const limit = deadline(10, signal)
    await vi.advanceTimersByTimeAsync(10)
    expect(limit.expired()).toBe(true)
    expect(listeners()).toBe(0)
  })

  it('that is cleared leaves no timer and no listener, and never expires', async () => {
    const { signal, listeners } = counted()
    const limit = deadline(10, signal)
    limit.clear()
    limit.clear()
    await vi.advanceTimersByTimeAsync(100)
    expect(limit.signal.aborted).toBe(false)
    expect(listeners()).toBeLessThanOrEqual(0)
  })

  it('above what a timer can hold does not expire at once', async () => {
    const limit = deadline(Number.MAX_SAFE_INTEGER)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(limit.expired()).toBe(false)
    limit.clear()
  })
})
