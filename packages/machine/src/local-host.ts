/** Starts programs on this machine and answers for all of them until it is closed. */

import type { ChildProcess } from 'node:child_process'
import { type Context, HarnessError } from '@cambium/core'
import { createEnvironment, type EnvironmentPolicy } from './environment.ts'
import { launch, startFailure } from './launch.ts'
import type { ProcessExit, ProcessResult, RunRequest, SpawnedProcess, SpawnRequest } from './process.ts'
import { ProcessGroups } from './process-groups.ts'
import { SpillFolder } from './spill.ts'
import { supervise } from './supervise.ts'

export interface LocalHostOptions {
  readonly shell: string
  readonly environment: EnvironmentPolicy
  readonly maxOutputBytes: number
  readonly maxSpillBytes: number
  readonly maxSpillTotalBytes: number
  readonly killGraceMs: number
}

interface Running {
  abort(): void
  readonly ended: Promise<unknown>
}

const NOT_STARTED: Omit<ProcessResult, 'aborted'> = {
  exitCode: null,
  signal: null,
  timedOut: false,
  durationMs: 0,
  output: [],
  totalBytes: 0,
  droppedBytes: 0,
}

export class LocalHost {
  private readonly options: LocalHostOptions
  private readonly environment: ReturnType<typeof createEnvironment>
  private readonly groups = new ProcessGroups()
  private readonly spills: SpillFolder
  private readonly running = new Set<Running>()
  private closed = false

  constructor(options: LocalHostOptions) {
    this.options = options
    this.environment = createEnvironment(options.environment)
    this.spills = new SpillFolder({ maxBytes: options.maxSpillBytes, maxTotalBytes: options.maxSpillTotalBytes })
  }

  /** `owner` is the context whose plugin the program ends with. */
  async run(owner: Context, request: RunRequest): Promise<ProcessResult> {
    const startedMs = performance.now()
    if (request.signal?.aborted) return { ...NOT_STARTED, aborted: true }
    const { options, groups, spills } = this
    const child = await this.start(request, [request.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'])
    const { result, abort } = supervise(child, {
      request,
      groups,
      spills,
      startedMs,
      maxBytes: request.maxBytes ?? options.maxOutputBytes,
      killGraceMs: options.killGraceMs,
    })
    const release = this.own(owner, { abort, ended: result.catch(() => {}) })
    try {
      return await result
    } finally {
      release()
    }
  }

  async spawn(owner: Context, request: SpawnRequest): Promise<SpawnedProcess> {
    request.signal?.throwIfAborted()
    const { groups } = this
    const { killGraceMs } = this.options
    const child = await this.start(request, ['pipe', 'pipe', 'pipe'])
    const { pid, stdin, stdout, stderr } = child
    let killTimer: NodeJS.Timeout | undefined
    const abort = () => {
      if (killTimer || child.exitCode !== null || child.signalCode !== null) return
      groups.signal(pid, 'SIGTERM')
      killTimer = setTimeout(() => groups.signal(pid, 'SIGKILL'), killGraceMs)
    }
    request.signal?.addEventListener('abort', abort, { once: true })
    const exited = new Promise<ProcessExit>(resolve => {
      child.once('exit', (exitCode, signal) => {
        clearTimeout(killTimer)
        request.signal?.removeEventListener('abort', abort)
        groups.settle(pid)
        resolve({ exitCode, signal })
      })
    })
    // Pipes fail when the other side is gone, which `exited` tells; without a listener that would end this process.
    for (const pipe of [stdin, stdout, stderr]) pipe?.on('error', () => {})
    child.on('error', () => {})
    const release = this.own(owner, { abort, ended: exited })
    void exited.then(release)
    return {
      pid,
      stdin: stdin!,
      stdout: stdout!,
      stderr: stderr!,
      exited,
      end() {
        abort()
        return exited
      },
    }
  }

  /** Ends everything that still runs, politely first. */
  async close(): Promise<void> {
    this.closed = true
    for (const one of this.running) one.abort()
    await this.groups.end(this.options.killGraceMs)
    await Promise.allSettled([...this.running].map(one => one.ended))
    this.spills.dispose()
  }

  /** The same at once and by force, for a process that exits. */
  abandon(): void {
    this.groups.endNow()
    this.spills.dispose()
  }

  private async start(
    request: SpawnRequest,
    stdio: Array<'ignore' | 'pipe'>,
  ): Promise<ChildProcess & { readonly pid: number }> {
    if (this.closed) throw new HarnessError('PROCESS_START_FAILED', 'the process service is being unloaded')
    const argv = request.argv ?? ([this.options.shell, '-c', request.command] as const)
    const child = launch(argv, request.cwd, this.environment(request.cwd, request.env), stdio)
    if (child.pid === undefined) throw await startFailure(child, argv[0], request.cwd)
    this.groups.add(child.pid)
    return child as ChildProcess & { readonly pid: number }
  }

  /** Makes a child end with the owner's plugin, and with this host. @throws when that plugin is gone already */
  private own(owner: Context, child: Running): () => void {
    const { running } = this
    running.add(child)
    const forget = () => void running.delete(child)
    try {
      const release = owner.effect(
        () => () => {
          child.abort()
          return child.ended
        },
        'child process',
      )
      return () => {
        forget()
        void release()
      }
    } catch (error) {
      child.abort()
      void child.ended.then(forget)
      throw error
    }
  }
}
