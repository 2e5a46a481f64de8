/** Between the events of sessions and one backend: a bounded queue, so that neither ever waits for the other. */

import { deadline, errorMessage } from '@cambium/core'
import type { SessionTelemetryBackend, TelemetryRecord } from './contract.ts'

/** Time that one turn of the event loop gives to a backend. */
const SLICE_MS = 5

export interface FeedOptions {
  readonly maxQueued: number
  /** Longest wait for a backend that leaves. */
  readonly flushMs: number
  /** Says something of the backend to whoever runs the process. */
  warn(text: string): void
}

export class BackendFeed {
  readonly backend: SessionTelemetryBackend
  private readonly options: FeedOptions
  private queue: TelemetryRecord[] = []
  private running: Promise<void> | undefined
  private leaving: Promise<void> | undefined
  private dropped = 0
  private failed = 0

  constructor(backend: SessionTelemetryBackend, options: FeedOptions) {
    this.backend = backend
    this.options = options
  }

  /** Never throws, never waits. */
  push(record: TelemetryRecord): void {
    if (this.queue.length >= this.options.maxQueued) {
      if (!this.dropped++) {
        this.options.warn(
          `does not keep up: ${this.queue.length} records wait for it, and further ones are dropped until it does`,
        )
      }
      return
    }
    this.queue.push(record)
    this.running ??= this.run()
  }

  /** No more is pushed from now on: what is queued is taken and flushed, within the bound. Never rejects. */
  leave(): Promise<void> {
    this.leaving ??= this.end()
    return this.leaving
  }

  private async run(): Promise<void> {
    await turnOfLoop()
    let since = performance.now()
    for (let at = 0; at < this.queue.length; ) {
      try {
        const taken = this.backend.record(this.queue[at++]!)
        if (taken instanceof Promise) await taken
      } catch (error) {
        if (!this.failed++) this.options.warn(`failed on a record, which is lost: ${errorMessage(error)}`)
      }
      // What was taken leaves now and then, and not one by one: that would move all the others each time.
      if (at < this.queue.length && performance.now() - since < SLICE_MS) continue
      this.queue.splice(0, at)
      at = 0
      if (!this.queue.length) break
      await turnOfLoop()
      since = performance.now()
    }
    this.running = undefined
  }

  private async end(): Promise<void> {
    const limit = deadline(this.options.flushMs)
    let flushed = false
    const work = (async () => {
      await this.running
      if (!limit.signal.aborted) await this.backend.flush?.(limit.signal)
      flushed = true
    })()
    const problem = await Promise.race([
      work.then(
        () => undefined,
        error => `failed to flush: ${errorMessage(error)}`,
      ),
      new Promise<string>(resolve =>
        limit.signal.addEventListener('abort', () => resolve(`did not end within ${this.options.flushMs} ms`), {
          once: true,
        }),
      ),
    ])
    limit.clear()
    const lost = flushed ? 0 : this.queue.length
    // A backend that hangs gets no more, should it ever wake up.
    this.queue = []
    if (problem) this.options.warn(lost ? `${problem}; ${lost} records are lost` : problem)
    if (this.dropped) this.options.warn(`${this.dropped} records were dropped, since it did not keep up`)
    if (this.failed > 1) this.options.warn(`failed on ${this.failed} records`)
  }
}

const turnOfLoop = () => new Promise<void>(resolve => setImmediate(resolve))
