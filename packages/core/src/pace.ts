/** Long work in short slices, so that everything else in the process goes on. */
export class Pace {
  private readonly signal: AbortSignal | undefined
  private readonly sliceMs: number
  private since = performance.now()

  constructor(signal?: AbortSignal, sliceMs = 10) {
    this.signal = signal
    this.sliceMs = sliceMs
  }

  /** To be awaited often: lets others run when the slice is over. @throws the signal's reason */
  async rest(): Promise<void> {
    this.signal?.throwIfAborted()
    if (performance.now() - this.since < this.sliceMs) return
    await new Promise(setImmediate)
    this.since = performance.now()
    this.signal?.throwIfAborted()
  }
}
