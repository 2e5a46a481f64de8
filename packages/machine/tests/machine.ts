/** A machine on a temporary folder, gone after the test. */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Context, createRoot } from '@cambium/core'
import * as local from '@cambium/machine/local'
import { onTestFinished } from 'vitest'

export async function openMachine(config: Partial<local.Config> = {}): Promise<{ ctx: Context; dir: string }> {
  const dir = mkdtempSync(join(tmpdir(), 'machine-test-'))
  const ctx = createRoot()
  await ctx.plugin(local, config as local.Config)
  onTestFinished(async () => {
    await ctx.fiber.dispose()
    rmSync(dir, { recursive: true, force: true })
  })
  return { ctx, dir }
}

/** The state letter of a process, or undefined when there is none. */
export function processState(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const state = stat.slice(stat.lastIndexOf(')') + 2)[0]
    // A zombie is dead; only nobody asked for it yet.
    return state === 'Z' ? undefined : state
  } catch {
    return undefined
  }
}

/** Living processes of a group, by the process table. */
export function groupMembers(leader: number): number[] {
  return readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)
    .filter(pid => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
        const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return state !== 'Z' && Number(group) === leader
      } catch {
        return false
      }
    })
}
