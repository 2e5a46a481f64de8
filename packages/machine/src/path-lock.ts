/** One holder at a time for each key, in the order of asking. */

import { HarnessError } from '@cambium/core'

export class KeyedLock {
  private readonly tails = new Map<string, Promise<void>>()

  async hold<T>(key: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const before = this.tails.get(key)
    let release!: () => void
    const mine = new Promise<void>(resolve => {
      release = resolve
    })
    const tail = before ? before.then(() => mine) : mine
    this.tails.set(key, tail)
    try {
      if (before) await turn(before, signal)
      if (signal?.aborted) throw aborted()
      return await work()
    } finally {
      release()
      if (this.tails.get(key) === tail) this.tails.delete(key)
    }
  }
}

function turn(before: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (!signal) return before
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(aborted())
    const abort = () => reject(aborted())
    signal.addEventListener('abort', abort, { once: true })
    void before.then(() => {
      signal.removeEventListener('abort', abort)
      resolve()
    })
  })
}

const aborted = () => new HarnessError('FS_ABORTED', 'cancelled while another change to the same file was under way')
