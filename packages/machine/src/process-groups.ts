/** The process groups that this process started and that may still have members. */

import { readdirSync, readFileSync } from 'node:fs'

const POLL_MS = 20

export class ProcessGroups {
  private readonly groups = new Set<number>()

  add(leader: number): void {
    this.groups.add(leader)
  }

  /** Call when the leader has exited: forgets the group unless it left something running, as `server &` does. */
  settle(leader: number): void {
    if (!exists(leader) || !living([leader]).length) this.groups.delete(leader)
  }

  signal(leader: number, signal: NodeJS.Signals): void {
    if (this.groups.has(leader)) send(leader, signal)
  }

  /** Asks every group to end and forces it after `graceMs`. */
  async end(graceMs: number): Promise<void> {
    for (const leader of living(this.groups)) send(leader, 'SIGTERM')
    const until = performance.now() + graceMs
    // Members that are not our children end without telling us, so there is nothing to await but their absence.
    while (performance.now() < until && living(this.groups).length) {
      await new Promise(resolve => setTimeout(resolve, POLL_MS))
    }
    this.endNow()
  }

  /** The synchronous last resort, for the moment in which the process exits. */
  endNow(): void {
    for (const leader of living(this.groups)) send(leader, 'SIGKILL')
    this.groups.clear()
  }
}

/**
 * Those of `leaders` whose group has a member that lives. A dead one whose parent never asks for it, as under an init
 * that does not reap, keeps its group's number; where the system tells, such groups are left out.
 */
function living(leaders: Iterable<number>): number[] {
  const present = [...leaders].filter(exists)
  if (!present.length || process.platform !== 'linux') return present
  const found = new Set<number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
      // `pid (name) state ppid pgrp`; a name may hold blanks and brackets.
      const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ', 3)
      if (state !== 'Z' && state !== 'X') found.add(Number(group))
    } catch {
      // It ended between the listing and the look.
    }
  }
  return present.filter(leader => found.has(leader))
}

function exists(leader: number): boolean {
  try {
    process.kill(-leader, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

function send(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal)
  } catch {
    // Gone already, or a member changed its user: nothing that a caller could do about it.
  }
}
