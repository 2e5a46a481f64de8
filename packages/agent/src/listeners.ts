/** What the loop asks of its listeners: an answer, and an end in time once the turn is cancelled. */

import { type Context, HarnessError } from '@cambium/core'

/** The turn was cancelled; the signal's reason says by whom. */
export class Cancelled extends Error {
  override readonly name = 'Cancelled'
}

/** How long after a cancel a listener is still waited for. */
const GRACE_MS = 2_000

/**
 * The answer of the listeners of `event`. They are waited for also after a cancel, since what they have begun may touch
 * the session; one that does not end is left behind, so that it cannot keep the agent running for ever.
 * @throws Cancelled, and what a listener throws
 */
export function heard<T>(ctx: Context, event: string, answer: T | PromiseLike<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const over = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', cancelled)
    }
    const late = () => {
      over()
      ctx.logger.error(`a listener of ${event} did not end within ${GRACE_MS} ms of a cancel and was left behind`)
      reject(new Cancelled())
    }
    const cancelled = () => {
      timer = setTimeout(late, GRACE_MS)
    }
    if (signal.aborted) cancelled()
    else signal.addEventListener('abort', cancelled, { once: true })
    // A listener that need not wait may answer at once.
    Promise.resolve(answer).then(
      value => {
        over()
        resolve(value)
      },
      error => {
        over()
        reject(error)
      },
    )
  })
}

/** Holds a listener to answering at all: forgetting to return `next()` is the usual mistake. @throws `AGENT_NO_ANSWER` */
export function answered<T>(event: string, answer: T, fits: (answer: NonNullable<T>) => boolean, what: string): T {
  if (answer !== undefined && answer !== null && fits(answer)) return answer
  throw new HarnessError('AGENT_NO_ANSWER', `a listener of ${event} answered without ${what}`, {
    fix: 'return next(), or what next() resolves with after changing it',
  })
}
