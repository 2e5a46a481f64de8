/** What a person is told when a request is tried again. */

import type { RetryNotice } from '@cambium/llm'

/** `connection refused at 127.0.0.1:8080, trying again (2/5)`, with the wait when it is long enough to be felt. */
export function retryLine({ failure, attempt, maxAttempts, delayMs }: RetryNotice): string {
  const wait = delayMs < 2000 ? '' : ` in ${Math.round(delayMs / 1000)} s`
  return `${failure.message.replace(/\.$/, '')}, trying again${wait} (${attempt}/${maxAttempts})`
}
