/** Streams for a command that runs inside the test's process. */

import { PassThrough, Readable, Writable } from 'node:stream'
import type { Host } from '@cambium/cli'

export class Sink extends Writable {
  readonly isTTY: boolean
  text = ''
  private readonly watchers = new Set<() => void>()

  private readonly failure: Error | undefined

  /** With `failure`, nothing can be written: every attempt fails so. */
  constructor(isTTY = false, failure?: Error) {
    super({ decodeStrings: false })
    this.isTTY = isTTY
    this.failure = failure
  }

  override _write(chunk: string | Buffer, _encoding: string, done: (error?: Error) => void) {
    if (this.failure) return done(this.failure)
    this.text += chunk.toString()
    for (const watch of this.watchers) watch()
    done()
  }

  /** Resolves when the text so far fits. */
  async contains(pattern: RegExp): Promise<void> {
    if (pattern.test(this.text)) return
    await new Promise<void>(resolve => {
      const watch = () => {
        if (!pattern.test(this.text)) return
        this.watchers.delete(watch)
        resolve()
      }
      this.watchers.add(watch)
    })
  }

  get lines(): string[] {
    return this.text.split('\n').filter(Boolean)
  }
}

export interface TestHost extends Host {
  readonly stdout: Sink
  readonly stderr: Sink
  signal(name: NodeJS.Signals): void
  /** An error that nobody caught. */
  crash(error: unknown): void
  /** Resolves when somebody listens for signals. */
  readonly listening: Promise<void>
  /** Exit codes of hard ends. */
  readonly aborts: number[]
}

export interface TestHostOptions {
  /** Piped input; nothing is an end at once, `terminal` a terminal, a stream is taken as it is. */
  stdin?: string | 'terminal' | Readable
  stderr?: Sink
  stdout?: Sink
  /** What a person at a terminal answers. */
  keyboard?: string
  cwd?: string
  env?: Record<string, string>
}

export function testHost(options: TestHostOptions = {}): TestHost {
  const crashListeners = new Set<(error: unknown) => void>()
  const listeners = new Set<(signal: NodeJS.Signals) => void>()
  const { stdin = '' } = options
  const aborts: number[] = []
  let listens: () => void
  const listening = new Promise<void>(resolve => {
    listens = resolve
  })
  return {
    stdin:
      stdin === 'terminal'
        ? Object.assign(new PassThrough(), { isTTY: true })
        : typeof stdin === 'string'
          ? Readable.from(stdin ? [Buffer.from(stdin)] : [])
          : stdin,
    keyboard: options.keyboard === undefined ? undefined : Readable.from([options.keyboard]),
    stdout: options.stdout ?? new Sink(),
    stderr: options.stderr ?? new Sink(),
    // Never the home of whoever runs the tests.
    env: { CAMBIUM_HOME: process.env['CAMBIUM_HOME'] ?? '/nonexistent', ...options.env },
    cwd: options.cwd ?? process.cwd(),
    aborts,
    listening,
    signal(name) {
      for (const listener of listeners) listener(name)
    },
    onSignal(listener) {
      listeners.add(listener)
      listens()
      return () => listeners.delete(listener)
    },
    onCrash(listener) {
      crashListeners.add(listener)
      return () => crashListeners.delete(listener)
    },
    crash(error) {
      for (const listener of crashListeners) listener(error)
    },
    guardExit: () => () => {},
    keepStdout: () => () => {},
    owned: false,
    abort: code => void aborts.push(code),
  }
}
