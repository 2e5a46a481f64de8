/**
 * `ctx.process`: every program an agent's tools run goes through here.
 *
 * A child has a session and a process group of its own and no controlling terminal, its input is at its end, and its
 * environment has neither credentials nor an editor or pager that would wait for a person. It is over when it exits,
 * whoever still holds its pipes.
 */

import type { Readable, Writable } from 'node:stream'

export interface ProcessHost {
  /**
   * Runs a program to its end and keeps a bounded part of its output. How it ended is data; only what kept it from
   * starting is thrown. Ends with the calling plugin at the latest.
   * @throws `PROCESS_CWD_MISSING`, `PROCESS_NOT_FOUND`, `PROCESS_TOO_LONG`, `PROCESS_START_FAILED`
   */
  run(request: RunRequest): Promise<ProcessResult>

  /**
   * Starts a program to talk with over its streams. The caller reads both outputs or `resume()`s them.
   * Ends with the calling plugin at the latest. @throws as {@link run}
   */
  spawn(request: SpawnRequest): Promise<SpawnedProcess>
}

/** A line for the shell, or a program with its arguments, which no shell reads. */
export type ProgramSpec =
  | { readonly command: string; readonly argv?: never }
  | { readonly argv: readonly [program: string, ...args: string[]]; readonly command?: never }

export type SpawnRequest = ProgramSpec & {
  readonly cwd: string
  /** Added last, unfiltered; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Ends the whole group when it aborts. */
  readonly signal?: AbortSignal | undefined
}

export type RunRequest = SpawnRequest & {
  /** Given to the program, then its input ends. */
  readonly stdin?: string | Uint8Array
  /** No bound when absent. */
  readonly timeoutMs?: number | undefined
  /** How much of the output is kept for the result, both streams together. */
  readonly maxBytes?: number | undefined
  /**
   * Keep all of an output that exceeds `maxBytes` in a file that the result names, without known secrets. It goes with
   * the provider, unless a folder is named, which is made if need be: a file there is the caller's.
   */
  readonly spill?: boolean | { readonly folder: string }
  /** Hears all output as it comes, whole characters only. Must not wait. A throw ends the program, and `run` rejects with it. */
  readonly onOutput?: (text: string, stream: OutputStream) => void
}

export type OutputStream = 'stdout' | 'stderr'

/** Four independent facts about the end: a program that traps the signal can time out and exit 0. */
export interface ProcessResult {
  /** Null when a signal ended it, or when it did not die even of SIGKILL. */
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
  readonly timedOut: boolean
  /** By `signal` of the request, or by the end of the plugin. */
  readonly aborted: boolean
  readonly durationMs: number
  /** What was kept, in order of arrival, with a gap where something was left out. */
  readonly output: readonly (OutputText | OutputGap)[]
  readonly totalBytes: number
  readonly droppedBytes: number
  /** Both streams in full, in order of arrival, if output was dropped and `spill` was asked for. */
  readonly spill?: SpillFile
}

export interface OutputText {
  readonly stream: OutputStream
  readonly text: string
}

export interface OutputGap {
  readonly stream: OutputStream
  readonly omittedBytes: number
  readonly omittedLines: number
}

export interface SpillFile {
  readonly path: string
  /** False when the output exceeded the bound of such files too, and only its beginning is there. */
  readonly complete: boolean
}

export interface SpawnedProcess {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Settles when the program has exited; never rejects. */
  readonly exited: Promise<ProcessExit>
  /** Ends the group: asks first, forces after the grace. Resolves as {@link exited}. Idempotent. */
  end(): Promise<ProcessExit>
}

export interface ProcessExit {
  readonly exitCode: number | null
  readonly signal: NodeJS.Signals | null
}

/** The kept output as one text, of one stream or of both in order of arrival. Gaps are left out. */
export function outputText(result: Pick<ProcessResult, 'output'>, stream?: OutputStream): string {
  let text = ''
  for (const part of result.output) if ('text' in part && (!stream || part.stream === stream)) text += part.text
  return text
}

declare module 'cordis' {
  interface Context {
    /** Programs: runs one to its end with bounded output, or talks with one; none outlives its plugin. */
    process: ProcessHost
  }
}
