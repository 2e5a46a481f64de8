/** Long work in short slices, so that everything else in the process goes on. */

const SLICE_MS = 10

export class Pace {
  private readonly signal: AbortSignal | undefined
  private since = performance.now()

  constructor(signal?: AbortSignal) {
    this.signal = signal
  }

  /** To be awaited often: lets others run when the slice is over. @throws the signal's reason */
  async rest(): Promise<void> {
    this.signal?.throwIfAborted()
    if (performance.now() - this.since < SLICE_MS) return
    await new Promise(resolve => setImmediate(resolve))
    this.since = performance.now()
    this.signal?.throwIfAborted()
  }
}
