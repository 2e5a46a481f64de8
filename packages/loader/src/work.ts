/** The finite work of a tree: it begins when the tree stands, and the tree ends with it. */

/** Answers the exit code. `signal` aborts when the work is to come to an end before its time. */
export type Work = (signal: AbortSignal) => number | Promise<number>

interface Task {
  readonly run: Work
  readonly controller: AbortController
  running: Promise<void> | undefined
}

export interface WorkOptions {
  /** How long aborted work may take to come to rest, in milliseconds. */
  readonly restMs: number
  /** Told of each failure; must not throw. */
  readonly failed: (error: unknown) => void
  /** All work is done; called with the highest exit code. */
  readonly done: (code: number) => void
}

/** A process can only end with 0 to 255, and 256 would be 0: any other answer is a failure. None at all is success. */
export function exitCode(code: unknown = 0): number {
  return Number.isInteger(code) && (code as number) >= 0 && (code as number) <= 255 ? (code as number) : 1
}

export class FiniteWork {
  private readonly options: WorkOptions
  private readonly tasks = new Set<Task>()
  private begun = false
  private code = 0

  constructor(options: WorkOptions) {
    this.options = options
  }

  /** Adds work; the returned undo aborts it and waits until it rests. */
  add(run: Work): () => Promise<void> {
    const task: Task = { run, controller: new AbortController(), running: undefined }
    this.tasks.add(task)
    if (this.begun) this.start(task)
    return async () => {
      // Work that is taken away says nothing about how the tree went.
      this.tasks.delete(task)
      task.controller.abort('disposed')
      await task.running
    }
  }

  begin(): void {
    this.begun = true
    for (const task of this.tasks) this.start(task)
  }

  /** Aborts all work with `reason` and waits a bounded time until it rests; false when some did not. */
  async end(reason: string): Promise<boolean> {
    const running = [...this.tasks].flatMap(task => {
      task.controller.abort(reason)
      return task.running ?? []
    })
    if (!running.length) return true
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<void>(resolve => {
      timer = setTimeout(resolve, this.options.restMs)
    })
    await Promise.race([Promise.all(running), late])
    clearTimeout(timer)
    const rested = !this.tasks.size
    // What did not come to rest has had its time: its plugin is not kept waiting again.
    for (const task of this.tasks) task.running = undefined
    return rested
  }

  private start(task: Task): void {
    task.running = this.run(task)
  }

  private async run(task: Task): Promise<void> {
    let code = 1
    try {
      code = await task.run(task.controller.signal)
    } catch (error) {
      this.options.failed(error)
    }
    if (!this.tasks.delete(task)) return
    this.code = Math.max(this.code, exitCode(code))
    if (!this.tasks.size) this.options.done(this.code)
  }
}
