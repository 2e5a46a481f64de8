/** One writer at a time, across processes: a lock file that says who writes, and how to tell that the writer is gone. */

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync, rmSync, statSync, utimesSync } from 'node:fs'
import { hostname } from 'node:os'
import { createWhole } from './create-whole.ts'
import { writeAtomic } from './write-atomic.ts'

export interface Holder {
  readonly pid: number
  readonly host: string
  /** Names the machine's run since it was switched on, by whatever name its host goes; empty where the system does not tell. */
  readonly boot: string
  /** Milliseconds since the epoch. */
  readonly since: number
  /** Distinguishes a process from a later one with its number; empty where the system does not tell. */
  readonly started: string
  /** Names the space that `pid` counts in: containers of one host name have several. */
  readonly space: string
  /** This taking's own name. */
  readonly token: string
}

export interface LeaseOptions {
  /**
   * A holder that cannot be looked at (another host, another container) counts as gone when its heartbeat is older. One that
   * lies ahead, since a clock was set back, counts as heard for a day: waiting is better than two writers.
   */
  readonly staleMs: number
}

export type Taking =
  | { readonly kind: 'taken'; readonly lease: Lease }
  | { readonly kind: 'busy'; readonly holder: Holder | undefined }

export class Lease {
  readonly path: string
  readonly token: string
  /** Set when somebody else took over: we were believed dead. */
  lost = false
  private readonly content: string
  /** What the lock looked like when it was ours for sure. */
  private known: string | undefined

  constructor(path: string, holder: Holder) {
    this.path = path
    this.token = holder.token
    this.content = JSON.stringify(holder)
    this.known = this.looks()
  }

  /**
   * For right before a write: a process that slept may have been believed dead a moment ago. Cheap while nobody has touched
   * the lock. Never throws.
   */
  check(): void {
    if (!this.lost && (this.known === undefined || this.looks() !== this.known)) this.beat()
  }

  /** Tells others that we live, and finds out whether they believed it. Never throws. */
  beat(): void {
    if (this.lost) return
    try {
      const holder = readHolder(this.path)
      if (holder?.token === this.token) {
        const now = new Date()
        utimesSync(this.path, now, now)
      } else {
        // A lock that somebody tidied away is put back; one that names another holder means that we have lost.
        this.lost = holder !== undefined || !createWhole(this.path, this.content)
      }
      this.known = this.looks()
    } catch {
      // A disk that cannot be written just now: the next beat tries again, and every write has its own check.
    }
  }

  private looks(): string | undefined {
    try {
      const { ino, ctimeMs } = statSync(this.path)
      return `${ino} ${ctimeMs}`
    } catch {
      return undefined
    }
  }

  /** Never throws: a lock that cannot be removed just now counts as given back all the same, and goes later. */
  release(): void {
    if (!this.lost) left.set(this.token, this.path)
    this.lost = true
    removeLeft()
  }
}

/** Locks that were given back and are still there. For other processes we hold them as long as they are. */
const left = new Map<string, string>()

function removeLeft(): void {
  for (const [token, path] of left) {
    try {
      if (readHolder(path)?.token === token) rmSync(path, { force: true })
      left.delete(token)
    } catch {
      // The next lease that comes or goes here tries again.
    }
  }
}

/**
 * Takes the lease, from a dead holder too. Of several that find the same dead holder exactly one succeeds: the right to
 * replace one generation of a lock is itself a lock, named after that generation, and is taken by the same rule.
 * @throws what the file system says
 */
export function takeLease(path: string, options: LeaseOptions, depth = 0): Taking {
  removeLeft()
  const token = randomBytes(6).toString('hex')
  const me: Holder = { ...self(), since: Date.now(), token }
  const content = JSON.stringify(me)
  if (createWhole(path, content)) return { kind: 'taken', lease: new Lease(path, me) }

  const found = look(path, options)
  // Gone between the two: its holder has just ended.
  if (!found) return depth < MAX_DEPTH ? takeLease(path, options, depth + 1) : { kind: 'busy', holder: undefined }
  if (found.alive || depth >= MAX_DEPTH) return { kind: 'busy', holder: found.holder }

  const right = takeLease(`${path}.${found.generation}`, options, depth + 1)
  if (right.kind === 'busy') return right
  try {
    const now = look(path, options)
    if (!now || now.alive || now.generation !== found.generation) return { kind: 'busy', holder: now?.holder }
    writeAtomic(path, content)
    return { kind: 'taken', lease: new Lease(path, me) }
  } finally {
    right.lease.release()
  }
}

const MAX_DEPTH = 6
const AHEAD_MS = 86_400_000

/** Who holds the lease and is alive, as far as can be told from here. */
export function liveHolder(path: string, options: LeaseOptions): Holder | 'unknown' | undefined {
  try {
    const found = look(path, options)
    return found?.alive ? (found.holder ?? 'unknown') : undefined
  } catch {
    // There is one that cannot be looked at.
    return 'unknown'
  }
}

function look(path: string, { staleMs }: LeaseOptions) {
  const beat = statSync(path, { throwIfNoEntry: false })?.mtimeMs
  if (beat === undefined) return undefined
  let holder: Holder | undefined
  try {
    holder = readHolder(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error
  }
  const age = Date.now() - beat
  const recent = age < staleMs && age > -AHEAD_MS
  // Unreadable: being written on a file system without links, or another user's. Time tells.
  const alive = holder ? isAlive(holder, recent) : recent
  return { holder, alive, generation: holder?.token ?? `${Math.trunc(beat)}` }
}

/** Undefined when there is none, or none that can be understood. @throws what the file system says: that proves nothing */
function readHolder(path: string): Holder | undefined {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const holder = JSON.parse(text) as Holder
    return typeof holder?.token === 'string' && /^[0-9a-f]{12}$/.test(holder.token) ? holder : undefined
  } catch {
    return undefined
  }
}

/** Whether this process is the holder: a number alone says little, since every container counts from 1. */
export function isSelf(holder: Holder): boolean {
  const { pid, host, boot, space, started } = self()
  const here = holder.boot && boot ? holder.boot === boot : holder.host === host
  return here && holder.space === space && holder.pid === pid && holder.started === started
}

function isAlive(holder: Holder, recent: boolean): boolean {
  const { pid, host, boot, space, started } = self()
  const here = holder.boot && boot ? holder.boot === boot : holder.host === host
  if (!here || holder.space !== space) return recent
  if (holder.pid === pid) return holder.started === started && !left.has(holder.token)
  try {
    process.kill(holder.pid, 0)
  } catch (error) {
    // EPERM: it is there, and another user's.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  const now = startOf(holder.pid)
  return now && holder.started ? now === holder.started : recent
}

let known: Pick<Holder, 'pid' | 'host' | 'boot' | 'space' | 'started'> | undefined

function self() {
  known ??= { pid: process.pid, host: hostname(), boot: bootId(), space: pidSpace(), started: startOf(process.pid) }
  return known
}

function bootId(): string {
  try {
    return process.platform === 'linux' ? readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() : ''
  } catch {
    return ''
  }
}

function pidSpace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid')
  } catch {
    return ''
  }
}

/** When a process began, in the system's own words, which are only compared; empty where it does not say. */
function startOf(pid: number): string {
  try {
    if (process.platform === 'linux') {
      // proc(5): field 22, and the name in field 2 may hold blanks and brackets.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
    }
    if (process.platform === 'win32') return ''
    return execFileSync('ps', ['-o', 'lstart=', '-p', `${pid}`], { encoding: 'utf8', timeout: 2_000 }).trim()
  } catch {
    return ''
  }
}
