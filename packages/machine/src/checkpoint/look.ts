/** What a path is now, without following a link. */

import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { type FileState, NONE } from './file-state.ts'
import { hashOf } from './objects.ts'
import { pathText, toPath } from './path-text.ts'

/** What of a `Stats` is compared and kept; ten thousands of those themselves, with their dates, are what takes time. */
export interface Facts {
  readonly kind: 'file' | 'link' | 'folder' | 'other'
  readonly dev: number
  readonly ino: number
  /** Permission bits. */
  readonly mode: number
  readonly size: number
  readonly nlink: number
  readonly mtimeMs: number
  readonly ctimeMs: number
}

export interface Read {
  readonly state: FileState
  /** Of a file whose content was read. */
  readonly bytes?: Buffer
  readonly facts?: Facts
}

const ATTEMPTS = 3

function factsOf(stat: Stats): Facts {
  const { dev, ino, mode, size, nlink, mtimeMs, ctimeMs } = stat
  const kind = stat.isFile() ? 'file' : stat.isDirectory() ? 'folder' : stat.isSymbolicLink() ? 'link' : 'other'
  return { kind, dev, ino, mode: mode & 0o7777, size, nlink, mtimeMs, ctimeMs }
}

/** False whenever what the path is may have changed. */
export function sameFacts(a: Facts, b: Facts): boolean {
  return (
    a.ctimeMs === b.ctimeMs &&
    a.mtimeMs === b.mtimeMs &&
    a.size === b.size &&
    a.ino === b.ino &&
    a.mode === b.mode &&
    a.dev === b.dev &&
    a.kind === b.kind
  )
}

/** Undefined for nothing, also where a part of the path is no folder. */
export function lookUp(path: string): Facts | undefined {
  try {
    const stat = lstatSync(toPath(path), { throwIfNoEntry: false })
    return stat && factsOf(stat)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}

/** Whether all that lies between is folders: otherwise a name leads elsewhere, or nowhere. */
export function isReached(root: string, full: string): boolean {
  for (let at = dirname(full); at.length > root.length; at = dirname(at)) {
    const above = lookUp(at)
    if (above && above.kind !== 'folder') return false
  }
  return true
}

export function linkTarget(path: string): string {
  return pathText(readlinkSync(toPath(path), 'buffer'))
}

export const inodeOf = ({ kind, nlink, ino }: Facts): { inode?: number } =>
  kind === 'file' && nlink > 1 ? { inode: ino } : {}

/**
 * Never throws: what cannot be read is `unknown`, with the reason. Synchronous: through the thread pool a small file takes
 * five times as long, and a snapshot looks at thousands.
 */
export function look(path: string, maxBytes: number): Read {
  try {
    for (let attempt = 1; ; attempt++) {
      const facts = lookUp(path)
      if (!facts) return { state: NONE }
      const { kind, mode } = facts
      if (kind === 'folder') return { state: { kind, mode }, facts }
      if (kind === 'link') return { state: { kind, target: linkTarget(path) }, facts }
      if (kind === 'other') return unknown('it is a device, a pipe or a socket', facts)
      if (facts.size > maxBytes) return unknown(`it is larger than ${mebibytes(maxBytes)}`, facts)
      const bytes = readWhole(path, facts)
      if (bytes) {
        const state = { kind, mode, size: bytes.length, hash: hashOf(bytes), ...inodeOf(facts) } as const
        return { state, bytes, facts }
      }
      if (attempt === ATTEMPTS) return unknown('it kept changing while it was read', facts)
    }
  } catch (error) {
    return { state: { kind: 'unknown', why: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? error})` } }
  }
}

function unknown(why: string, facts: Facts): Read {
  const { dev, ino, mode, size, mtimeMs, ctimeMs } = facts
  return { state: { kind: 'unknown', why, version: [dev, ino, mode, size, mtimeMs, ctimeMs].join(':') }, facts }
}

/** Undefined when the file is another one afterwards. */
function readWhole(path: string, facts: Facts): Buffer | undefined {
  const file = openSync(toPath(path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const bytes = readFileSync(file)
    return sameFacts(factsOf(fstatSync(file)), facts) ? bytes : undefined
  } finally {
    closeSync(file)
  }
}

export const mebibytes = (bytes: number): string =>
  bytes >= 2 ** 20 ? `${Math.round(bytes / 2 ** 20)} MiB` : `${bytes} bytes`
