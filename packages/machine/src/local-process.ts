/** `ctx.process` on this machine. */

import type { ChildProcess } from 'node:child_process'
import { type Context, HarnessError, Service } from '@cambium/core'
import { childEnvironment, type EnvironmentPolicy } from './environment.ts'
import { launch, startFailure } from './launch.ts'
import type { ProcessExit, ProcessHost, ProcessResult, RunRequest, SpawnedProcess, SpawnRequest } from './process.ts'
import { ProcessGroups } from './process-groups.ts'
import { SpillFolder } from './spill.ts'
import { supervise } from './supervise.ts'

export interface LocalProcessOptions {
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

export class LocalProcess extends Service implements ProcessHost {
  private readonly options: LocalProcessOptions
  private readonly groups = new ProcessGroups()
  private readonly spills: SpillFolder
  private readonly running = new Set<Running>()
  private closed = false

  constructor(ctx: Context, options: LocalProcessOptions) {
    super(ctx, 'process')
    this.options = options
    this.spills = new SpillFolder({ maxBytes: options.maxSpillBytes, maxTotalBytes: options.maxSpillTotalBytes })
    const { groups, spills } = this
    ctx.effect(() => {
      const atExit = () => {
        groups.endNow()
        spills.dispose()
      }
      process.on('exit', atExit)
      return async () => {
        this.closed = true
        for (const one of this.running) one.abort()
        await groups.end(options.killGraceMs)
        await Promise.allSettled([...this.running].map(one => one.ended))
        spills.dispose()
        process.off('exit', atExit)
      }
    }, 'child processes')
  }

  async run(request: RunRequest): Promise<ProcessResult> {
    const startedMs = performance.now()
    if (request.signal?.aborted) return { ...NOT_STARTED, aborted: true }
    const { child, program } = this.launch(request, [request.stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'])
    if (child.pid === undefined) throw await startFailure(child, program, request.cwd)
    const { options, groups, spills } = this
    const { result, abort } = supervise(child, {
      request,
      groups,
      spills,
      startedMs,
      maxBytes: request.maxBytes ?? options.maxOutputBytes,
      killGraceMs: options.killGraceMs,
    })
    return this.own({ abort, ended: result }, result)
  }

  async spawn(request: SpawnRequest): Promise<SpawnedProcess> {
    request.signal?.throwIfAborted()
    const { child, program } = this.launch(request, ['pipe', 'pipe', 'pipe'])
    if (child.pid === undefined) throw await startFailure(child, program, request.cwd)
    const { pid, stdin, stdout, stderr } = child
    const { groups } = this
    const { killGraceMs } = this.options
    const exited = new Promise<ProcessExit>(resolve => {
      child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }))
    })
    let killTimer: NodeJS.Timeout | undefined
    const abort = () => {
      if (killTimer || child.exitCode !== null || child.signalCode !== null) return
      groups.signal(pid, 'SIGTERM')
      killTimer = setTimeout(() => groups.signal(pid, 'SIGKILL'), killGraceMs)
    }
    request.signal?.addEventListener('abort', abort, { once: true })
    const ended = exited.then(exit => {
      clearTimeout(killTimer)
      request.signal?.removeEventListener('abort', abort)
      groups.settle(pid)
      return exit
    })
    // Both fail when the other side is gone, which `exited` tells; without a listener that would end this process.
    for (const pipe of [stdin, stdout, stderr]) pipe!.on('error', () => {})
    child.on('error', () => {})
    void this.own({ abort, ended }, ended)
    return {
      pid,
      stdin: stdin!,
      stdout: stdout!,
      stderr: stderr!,
      exited: ended,
      end() {
        abort()
        return ended
      },
    }
  }

  private launch(request: SpawnRequest, stdio: Array<'ignore' | 'pipe'>): { child: ChildProcess; program: string } {
    if (this.closed) throw new HarnessError('PROCESS_START_FAILED', 'the process service is being unloaded')
    const { shell, environment } = this.options
    const argv = request.argv ?? ([shell, '-c', request.command] as const)
    const env = childEnvironment(process.env, environment, request.cwd, request.env)
    const child = launch(argv, request.cwd, env, stdio)
    if (child.pid !== undefined) this.groups.add(child.pid)
    return { child, program: argv[0] }
  }

  /** Makes a child end with the plugin that started it, and with this one. */
  private async own<T>(child: Running, ended: Promise<T>): Promise<T> {
    const { running } = this
    running.add(child)
    let release: (() => unknown) | undefined
    try {
      release = this.ctx.effect(
        () => () => {
          child.abort()
          return child.ended
        },
        'child process',
      )
    } catch (error) {
      // The calling plugin is gone already: nothing may run in its name.
      child.abort()
      await ended
      throw error
    } finally {
      void ended.finally(() => running.delete(child))
    }
    const value = await ended
    void release()
    return value
  }
}
