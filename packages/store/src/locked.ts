import { HarnessError, sleep } from '@cambium/core'
import { diskError } from './disk-error.ts'
import { type Holder, takeLease } from './lease.ts'

/** Such a lock is held for the time of one write. */
const WAIT_MS = 3000
const RETRY_MS = 10
/** A holder that cannot be looked at counts as gone after this. */
const STALE_MS = 10_000

/**
 * Runs a short synchronous `run` while no other process, and nobody else in this one, holds the lock `<path>.lock`. A
 * lock whose holder has died is taken over. Blocks the process while it waits, for at most 3 s.
 *
 * @throws `STORE_LOCKED` with who holds it; else as `diskError`, or what `run` throws
 */
export function locked<T>(path: string, run: () => T): T {
  for (const until = performance.now() + WAIT_MS; ; ) {
    const attempt = tryLocked(path, run)
    if ('value' in attempt) return attempt.value
    if (performance.now() > until) throw busy(path, attempt.holder)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS)
  }
}

/** The same, for those who can wait without blocking. */
export async function lockedSoon<T>(path: string, run: () => T): Promise<T> {
  for (const until = performance.now() + WAIT_MS; ; ) {
    const attempt = tryLocked(path, run)
    if ('value' in attempt) return attempt.value
    if (performance.now() > until) throw busy(path, attempt.holder)
    await sleep(RETRY_MS)
  }
}

function tryLocked<T>(path: string, run: () => T): { value: T } | { holder: Holder | undefined } {
  const taking = take(path)
  if (taking.kind === 'busy') return { holder: taking.holder }
  try {
    return { value: run() }
  } finally {
    taking.lease.release()
  }
}

function take(path: string) {
  try {
    return takeLease(`${path}.lock`, { staleMs: STALE_MS })
  } catch (error) {
    throw diskError(error, 'cannot lock the file', path)
  }
}

function busy(path: string, holder: Holder | undefined) {
  const who = holder ? `process ${holder.pid} on ${holder.host}` : 'somebody'
  return new HarnessError('STORE_LOCKED', `the file is being written by ${who}`, {
    where: path,
    fix: `try again; if nobody writes it, remove ${path}.lock`,
  })
}
