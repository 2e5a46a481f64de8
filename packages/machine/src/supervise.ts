/** One command from spawn to settlement: collects its output, ends it in time, and reports how it went. */

import type { ChildProcess } from 'node:child_process'
import { StringDecoder } from 'node:string_decoder'
import { MAX_TIMER_MS } from '@cambium/core'
import { OutputCapture } from './capture.ts'
import type { OutputStream, ProcessResult, RunRequest } from './process.ts'
import type { ProcessGroups } from './process-groups.ts'
import type { Spill, SpillFolder } from './spill.ts'

/** How long what the child wrote before its exit may take to arrive while somebody else holds its pipes open. */
const DRAIN_MS = 60

export interface Supervision {
  readonly request: RunRequest
  readonly groups: ProcessGroups
  readonly spills: SpillFolder
  readonly maxBytes: number
  readonly killGraceMs: number
  readonly startedMs: number
}

export interface Supervised {
  readonly result: Promise<ProcessResult>
  /** Ends the group, as an abort does. */
  abort(): void
}

/** `child` has a pid, and pipes for both outputs. */
export function supervise(child: ChildProcess, options: Supervision): Supervised {
  const { request, groups } = options
  const pid = child.pid!
  const capture = new OutputCapture(options.maxBytes)
  let spill: Spill | undefined
  let spilling = !!request.spill
  let exit: { code: number | null; signal: NodeJS.Signals | null } | undefined
  let ended: 'timeout' | 'abort' | undefined
  let openPipes = 2
  let settled = false
  let failure: { error: unknown } | undefined
  let settle!: (result: ProcessResult | Promise<never>) => void
  const result = new Promise<ProcessResult>(resolve => {
    settle = resolve
  })

  const keep = (stream: OutputStream, chunk: Uint8Array) => {
    if (spilling && !spill && capture.wouldDrop(stream, chunk.length)) openSpill()
    spill?.write(chunk)
    capture.push(stream, chunk)
  }
  const openSpill = () => {
    spill = options.spills.open(typeof request.spill === 'object' ? request.spill.folder : undefined)
    spilling = spill !== undefined
    for (const piece of capture.pieces()) spill?.write(piece)
  }

  const listen = (stream: OutputStream) => {
    const pipe = child[stream]!
    const decoder = request.onOutput && new StringDecoder('utf8')
    const tell = (text: string | undefined) => {
      if (!text || failure) return
      try {
        request.onOutput?.(text, stream)
      } catch (error) {
        failure = { error }
        end('abort')
      }
    }
    pipe.on('data', (chunk: Buffer) => {
      if (settled) return
      keep(stream, chunk)
      tell(decoder?.write(chunk))
    })
    // A pipe that breaks is at its end; the exit decides what that means.
    pipe.on('error', () => {})
    let open = true
    const closed = () => {
      if (settled || !open) return
      open = false
      tell(decoder?.end())
      openPipes--
      if (exit && !openPipes) finish()
    }
    // The end comes a turn of the loop before the close, but not after an error.
    pipe.once('end', closed)
    pipe.once('close', closed)
  }
  if (request.stdin !== undefined && child.stdin) {
    // A program need not read its input; writing into its closed pipe is no failure.
    child.stdin.on('error', () => {})
    child.stdin.end(request.stdin)
  }

  let killTimer: NodeJS.Timeout | undefined
  let drainTimer: NodeJS.Timeout | undefined
  const end = (why: 'timeout' | 'abort') => {
    if (ended || settled) return
    ended = why
    groups.signal(pid, 'SIGTERM')
    killTimer = setTimeout(() => {
      groups.signal(pid, 'SIGKILL')
      // Not even SIGKILL ends a process that hangs in the kernel; nobody waits for it for ever.
      killTimer = setTimeout(finish, options.killGraceMs)
    }, options.killGraceMs)
  }
  const timeout =
    request.timeoutMs === undefined
      ? undefined
      : setTimeout(() => end('timeout'), Math.min(request.timeoutMs, MAX_TIMER_MS))
  const abort = () => end('abort')
  request.signal?.addEventListener('abort', abort, { once: true })
  if (request.signal?.aborted) abort()

  child.on('error', () => {
    // Only a signal that could not be sent arrives here once there is a pid; the exit still comes.
  })
  child.once('exit', (code, signal) => {
    if (settled) return
    exit = { code, signal }
    clearTimeout(timeout)
    if (!openPipes) return finish()
    // The timer may be late itself: one more look at the pipes before the reading ends go.
    drainTimer = setTimeout(() => setImmediate(finish), DRAIN_MS)
  })

  const finish = () => {
    if (settled) return
    settled = true
    clearTimeout(timeout)
    clearTimeout(killTimer)
    clearTimeout(drainTimer)
    request.signal?.removeEventListener('abort', abort)
    child.stdin?.destroy()
    child.stdout?.destroy()
    child.stderr?.destroy()
    child.unref()
    // What was told to end must end: members that outlive the leader get no second grace.
    if (ended) groups.signal(pid, 'SIGKILL')
    groups.settle(pid)
    const { output, droppedBytes } = capture.finish()
    if (droppedBytes && spilling && !spill) openSpill()
    const spilled = spill?.close()
    if (failure) return settle(Promise.reject(failure.error))
    settle({
      exitCode: exit?.code ?? null,
      signal: exit?.signal ?? null,
      timedOut: ended === 'timeout',
      aborted: ended === 'abort',
      durationMs: performance.now() - options.startedMs,
      output,
      totalBytes: capture.totalBytes,
      droppedBytes,
      ...(spilled && droppedBytes ? { spill: spilled } : {}),
    })
  }
  listen('stdout')
  listen('stderr')
  return { result, abort }
}
