/** The agent of a run: a new one, or one whose session is taken up again. */

import { statSync } from 'node:fs'
import type { AgentHandle, Agents } from '@cambium/agent'
import { HarnessError } from '@cambium/core'
import type { SessionPersistence, SessionSummary } from '@cambium/session'
import { usageError } from './flags.ts'

export interface AgentChoice {
  /** Absolute. */
  readonly cwd: string
  readonly model?: string
  /** An id or an unmistakable part of one; empty for the last session of the folder. Undefined starts a new session. */
  readonly resume?: string
}

/** @throws `CLI_USAGE`, `CLI_NO_SESSION`, `CLI_NO_FOLDER`, and what creating or resuming throws */
export async function openAgent(
  agents: Agents,
  store: SessionPersistence | undefined,
  { cwd, model, resume }: AgentChoice,
): Promise<AgentHandle> {
  const selection = model ? { model } : {}
  if (resume === undefined) {
    requireFolder(cwd, 'name another folder with --cwd')
    return agents.create({ cwd, ...selection })
  }
  if (!store) {
    throw new HarnessError('CLI_NO_SESSION', 'no session can be taken up: the tree mounts no store of sessions', {
      fix: 'add a row such as @cambium/session/jsonl',
    })
  }
  const summary = await findSession(store, resume, cwd)
  requireFolder(summary.cwd, `the session works there: bring it back, or start anew with --cwd`)
  return agents.resume(summary.id, selection)
}

function requireFolder(path: string, fix: string) {
  const stat = statSync(path, { throwIfNoEntry: false })
  if (stat?.isDirectory()) return
  const problem = stat ? `${path} is not a folder` : `there is no folder ${path}`
  throw new HarnessError('CLI_NO_FOLDER', problem, { fix })
}

async function findSession(store: SessionPersistence, wanted: string, cwd: string): Promise<SessionSummary> {
  if (!wanted) {
    const [latest] = await store.list({ cwd, limit: 1 })
    if (latest) return latest
    throw new HarnessError('CLI_NO_SESSION', `there is no session of ${cwd} yet`, {
      fix: 'start one with cambium run "task", or name a folder with --cwd',
    })
  }
  const all = await store.list()
  const exact = all.find(({ id }) => id === wanted)
  if (exact) return exact
  const found = all.filter(({ id }) => id.startsWith(wanted) || id.endsWith(wanted))
  const [only] = found
  if (only && found.length === 1) return only
  if (!only) {
    throw new HarnessError('CLI_NO_SESSION', `there is no session ${wanted}`, {
      fix: 'cambium run --continue takes up the last session of this folder',
    })
  }
  throw usageError(
    `${wanted} fits ${found.length} sessions`,
    `one of: ${found
      .slice(0, 5)
      .map(({ id }) => id)
      .join(', ')}`,
  )
}
