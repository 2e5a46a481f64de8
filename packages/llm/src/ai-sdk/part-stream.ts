/** Reads a package's stream as many parts at a time as there are, and never waits longer than it may. */

import type { StreamPart } from './language-model.ts'

/** So many parts are read ahead of who consumes them. */
const MAX_AHEAD = 1_000

/** Rejection when nothing came in time. */
export class PartTimeout extends Error {
  override readonly name = 'PartTimeout'
}

export class PartStream {
  private readonly reader: ReadableStreamDefaultReader<unknown>
  private readonly signal: AbortSignal
  private queue: StreamPart[] = []
  private state:
    | { readonly kind: 'reading' }
    | { readonly kind: 'done' }
    | { readonly kind: 'failed'; error: unknown } = {
    kind: 'reading',
  }
  private changed: (() => void) | undefined
  private room: (() => void) | undefined
  private released = false

  constructor(stream: ReadableStream<unknown>, signal: AbortSignal) {
    this.reader = stream.getReader()
    this.signal = signal
    void this.pump()
  }

  /** At least one part, or undefined at the end. Rejects as the stream does, with PartTimeout, or when the signal aborts. */
  async next(waitMs: number): Promise<StreamPart[] | undefined> {
    if (!this.queue.length) await this.wait(waitMs)
    this.signal.throwIfAborted()
    // What the same read of the network brought follows at once.
    if (this.state.kind === 'reading') await new Promise(setImmediate)
    this.signal.throwIfAborted()
    const parts = this.queue
    this.queue = []
    this.room?.()
    if (parts.length) return parts
    if (this.state.kind === 'failed') throw this.state.error
    return undefined
  }

  /** After the last part: a stream that ends by itself within this time leaves its connection for the next request. */
  release(waitMs = 1_000): void {
    if (this.state.kind !== 'reading') return
    this.released = true
    this.queue = []
    this.room?.()
    const timer = setTimeout(() => this.close(), waitMs)
    timer.unref()
    this.changed = () => {
      if (this.state.kind !== 'reading') clearTimeout(timer)
    }
  }

  /** Lets go of the stream at once, whatever the package does about it. */
  close(): void {
    this.room?.()
    this.reader.cancel().catch(() => {
      // It has failed already, or does not like to be cancelled: nobody reads it any more.
    })
  }

  private wait(waitMs: number): Promise<void> {
    if (this.state.kind !== 'reading' || this.signal.aborted) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => {
        clearTimeout(timer)
        this.signal.removeEventListener('abort', aborted)
        this.changed = undefined
        act()
      }
      const timer = setTimeout(() => settle(() => reject(new PartTimeout('no part in time'))), waitMs)
      const aborted = () => settle(resolve)
      this.signal.addEventListener('abort', aborted)
      this.changed = () => settle(resolve)
    })
  }

  private async pump(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.reader.read()
        if (done) break
        if (isPart(value) && !this.released) this.queue.push(value)
        this.changed?.()
        if (this.queue.length < MAX_AHEAD) continue
        await new Promise<void>(resolve => {
          this.room = resolve
        })
        this.room = undefined
      }
      this.state = { kind: 'done' }
    } catch (error) {
      this.state = { kind: 'failed', error }
    }
    this.changed?.()
  }
}

const isPart = (value: unknown): value is StreamPart =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'
