/** Joining and waiting on abort signals without leaving listeners behind. */

import { setMaxListeners } from 'node:events'
import { sleep } from '@cambium/core'

export const ABORTED: unique symbol = Symbol('aborted')

/** A controller whose signal any number of calls and tools may listen to without Node suspecting a leak. */
export function createController(): AbortController {
  const controller = new AbortController()
  setMaxListeners(0, controller.signal)
  return controller
}

/** Aborts `controller` with the reason of `signal`, until `stop`. */
export function forward(signal: AbortSignal, controller: AbortController): () => void {
  const abort = () => controller.abort(signal.reason)
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return () => signal.removeEventListener('abort', abort)
}

/** A signal that aborts with the first of the two, until `release`. */
export function either(one: AbortSignal, other: AbortSignal): { signal: AbortSignal; release(): void } {
  const controller = createController()
  const stops = [forward(one, controller), forward(other, controller)]
  return {
    signal: controller.signal,
    release() {
      for (const stop of stops) stop()
    },
  }
}

/** Settles with `work`, or with {@link ABORTED} as soon as `signal` aborts; what `work` does then is nobody's concern. */
export function untilAborted<T>(work: PromiseLike<T>, signal: AbortSignal): Promise<T | typeof ABORTED> {
  return new Promise((resolve, reject) => {
    const aborted = () => resolve(ABORTED)
    if (signal.aborted) aborted()
    else signal.addEventListener('abort', aborted, { once: true })
    work.then(
      value => {
        signal.removeEventListener('abort', aborted)
        resolve(value)
      },
      error => {
        signal.removeEventListener('abort', aborted)
        reject(error)
      },
    )
  })
}

/** How long after a cancel a listener is still waited for: it may be in the middle of something. */
const LISTENER_GRACE_MS = 2_000

/**
 * As `untilAborted`, with a grace after the abort, which begins when `busy` has ended; for listeners and bodies, of
 * which one that hangs must not hold the call.
 */
export async function untilLeft<T>(
  work: PromiseLike<T>,
  signal: AbortSignal,
  { graceMs = LISTENER_GRACE_MS, busy }: { graceMs?: number; busy?: () => Promise<unknown> } = {},
): Promise<T | typeof ABORTED> {
  const settled = Promise.resolve(work)
  const first = await untilAborted(settled, signal)
  if (first !== ABORTED) return first
  // A failure is for whoever waits on below; until then it must not count as unhandled.
  settled.catch(() => {})
  await busy?.()
  const over = new AbortController()
  try {
    return await Promise.race([settled, sleep(graceMs, over.signal).then((): typeof ABORTED => ABORTED)])
  } finally {
    over.abort()
  }
}
