/** The agent of a run: a new one, or one whose session is taken up again, itself or in a copy. */

import { statSync } from 'node:fs'
import type { AgentHandle } from '@cambium/agent'
import { type Context, HarnessError, isHarnessError } from '@cambium/core'
import { textOf, type UserBlock } from '@cambium/llm'
import { rewindPoint, type SessionSummary } from '@cambium/session'
import { usageError } from './flags.ts'
import { oneLine } from './printable.ts'
import type { Copy, RewoundCopy } from './sessions/copy.ts'
import { findSession, requireStore } from './sessions/find.ts'

export interface AgentChoice {
  /** Absolute. */
  readonly cwd: string
  readonly model?: string
  /** What is said next. */
  readonly task: string
  /** An id or an unmistakable part of one; empty for the last session of the folder. Undefined starts a new session. */
  readonly resume?: string
  /** Goes on in a copy of that session. */
  readonly fork: boolean
  /** Goes on in a copy that ends before this turn; a number, or `last`. */
  readonly rewind?: string
  /** Puts the files back to what they were before it. */
  readonly restoreFiles: boolean
  /** Also those that others have changed since. */
  readonly force: boolean
}

export interface OpenedAgent {
  readonly handle: AgentHandle
  /** What a person should know of how it was opened. */
  readonly notices: readonly string[]
  /** Pictures of the message that was taken back: they belong to what is said in its place. */
  readonly images: readonly UserBlock[]
}

/** @throws `CLI_USAGE`, `CLI_NO_SESSION`, `CLI_NO_FOLDER`, and what creating, resuming or copying throws */
export async function openAgent(ctx: Context, choice: AgentChoice, signal: AbortSignal): Promise<OpenedAgent> {
  const { cwd, model, resume } = choice
  const selection = model ? { model } : {}
  if (resume === undefined) {
    requireFolder(cwd, 'name another folder with --cwd')
    return { handle: await ctx.agents.create({ cwd, ...selection }), notices: [], images: [] }
  }
  const summary = await findSession(requireStore(ctx.get('sessionPersistence')), resume, cwd)
  if (summary.cwd) requireFolder(summary.cwd, 'the session works there: bring it back, or start anew with --cwd')
  const { id, ...rest } = await session(ctx, summary, choice, signal)
  try {
    return { handle: await ctx.agents.resume(id, selection), ...rest }
  } catch (error) {
    throw withCopy(error, id)
  }
}

interface Chosen extends Omit<OpenedAgent, 'handle'> {
  readonly id: string
}

async function session(
  ctx: Context,
  summary: SessionSummary,
  choice: AgentChoice,
  signal: AbortSignal,
): Promise<Chosen> {
  const { id } = summary
  const { fork, rewind, task, restoreFiles, force } = choice
  if (!fork && rewind === undefined) return { id, notices: [], images: [] }
  const { copySession, rewindSession, turnOf } = await import('./sessions/copy.ts')
  const source = await requireStore(ctx.get('sessionPersistence')).read(id)
  if (rewind === undefined) {
    const copy = await copySession(ctx.sessions, source)
    return { id: copy.id, notices: [...source.notices, ...unfinishedLine(copy)], images: [] }
  }
  const point = rewindPoint(id, source.events, { turn: turnOf(source, rewind) })
  if (!task) throw noText(point.turn, point.message)
  const notices = [...source.notices]
  if (restoreFiles) {
    const files = await import('./sessions/restore.ts')
    files.refuseLive(summary, force)
    const report = await files.restoreFiles(files.requireCheckpoints(ctx), source, point.seq, { force, signal })
    notices.push(...files.restoreLines(report, true))
  }
  const copy = await rewindSession(ctx.sessions, source, point.turn)
  return { id: copy.id, notices, images: imagesOf(copy) }
}

/** The turn is left out in silence otherwise. */
export function unfinishedLine({ unfinished }: Copy): string[] {
  return unfinished === undefined ? [] : [`turn ${unfinished} of it has not ended, and is not in the copy`]
}

function imagesOf({ message }: RewoundCopy): UserBlock[] {
  return message?.content.filter(block => block.type === 'image') ?? []
}

function noText(turn: number, message: RewoundCopy['message']): HarnessError {
  const said = message ? oneLine(textOf(message), 600) : ''
  return usageError(
    `--rewind needs what is to be said in place of turn ${turn}`,
    said ? `write it anew behind the flags; it said: ${said}` : 'write it behind the flags, or pipe it in',
  )
}

/** Somebody writes the session: a copy is what can be had now. */
function withCopy(error: unknown, id: string): unknown {
  if (!isHarnessError(error) || error.code !== 'SESSION_BUSY') return error
  const { code, problem, where } = error
  const fix = `go on in a copy: cambium run --resume ${id} --fork "…"`
  return new HarnessError(code, problem, { ...(where ? { where } : {}), fix, cause: error })
}

function requireFolder(path: string, fix: string) {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) return
  const problem = stat ? `${path} is not a folder` : `there is no folder ${path}`
  throw new HarnessError('CLI_NO_FOLDER', problem, { fix })
}
