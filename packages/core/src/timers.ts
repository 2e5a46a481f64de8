/** Waits with a bound. */

/** Node fires a longer timer at once; every configured duration is checked against it. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** Resolves after `ms`, or at once when `signal` aborts; never rejects. Does not keep the process alive by itself when `unref`. */
export function sleep(ms: number, signal?: AbortSignal, options: { unref?: boolean } = {}): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) return resolve()
    const done = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, Math.min(ms, MAX_TIMER_MS))
    if (options.unref) timer.unref()
    signal?.addEventListener('abort', done, { once: true })
  })
}

/** Rejection reason of an elapsed {@link deadline}; compare by identity of the deadline that made it. */
export class Deadline extends Error {
  override readonly name = 'Deadline'
  readonly ms: number
  constructor(ms: number) {
    super(`no end within ${ms} ms`)
    this.ms = ms
  }
}

/**
 * A signal that aborts with a {@link Deadline} after `ms`, or with the reason of `signal`, whichever is first.
 * Call `clear` when the work has ended, so that neither timer nor listener is left.
 */
export function deadline(
  ms: number,
  signal?: AbortSignal,
): { signal: AbortSignal; expired: () => boolean; clear: () => void } {
  const controller = new AbortController()
  let expired = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const clear = () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', forward)
  }
  const forward = () => {
    clear()
    controller.abort(signal?.reason)
  }
  const expire = () => {
    expired = true
    clear()
    controller.abort(new Deadline(ms))
  }
  if (signal?.aborted) {
    forward()
  } else {
    timer = setTimeout(expire, Math.min(ms, MAX_TIMER_MS))
    signal?.addEventListener('abort', forward, { once: true })
  }
  return { signal: controller.signal, expired: () => expired, clear }
}
