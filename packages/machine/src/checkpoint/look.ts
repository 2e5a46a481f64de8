/** What a path is now, without following a link. */

import { closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { dirname } from 'node:path'
import { type FileState, NONE } from './file-state.ts'
import { hashOf } from './objects.ts'
import { pathText, toPath } from './path-text.ts'

export interface Read {
  readonly state: FileState
  /** Of a file whose content was read. */
  readonly bytes?: Buffer
  readonly stat?: Stats
}

const ATTEMPTS = 3

/** Changes whenever what the path is may have changed. */
export const stampOf = (stat: Stats): string =>
  `${stat.dev}:${stat.ino}:${stat.mode}:${stat.size}:${stat.mtimeMs}:${stat.ctimeMs}`

export const permissions = (stat: Stats): number => stat.mode & 0o7777

/** Undefined for nothing, also where a part of the path is no folder. */
export function lookUp(path: string): Stats | undefined {
  try {
    return lstatSync(toPath(path), { throwIfNoEntry: false })
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
    if (above && !above.isDirectory()) return false
  }
  return true
}

export function linkTarget(path: string): string {
  return pathText(readlinkSync(toPath(path), 'buffer'))
}

/**
 * Never throws: what cannot be read is `unknown`, with the reason. Synchronous: through the thread pool a small file takes
 * five times as long, and a snapshot looks at thousands.
 */
export function look(path: string, maxBytes: number): Read {
  try {
    for (let attempt = 1; ; attempt++) {
      const stat = lookUp(path)
      if (!stat) return { state: NONE }
      if (stat.isDirectory()) return { state: { kind: 'folder', mode: permissions(stat) }, stat }
      if (stat.isSymbolicLink()) return { state: { kind: 'link', target: linkTarget(path) }, stat }
      if (!stat.isFile()) return unknown('it is a device, a pipe or a socket', stat)
      if (stat.size > maxBytes) return unknown(`it is larger than ${mebibytes(maxBytes)}`, stat)
      const bytes = readWhole(path, stat)
      if (bytes) {
        const state = { kind: 'file', mode: permissions(stat), size: bytes.length, hash: hashOf(bytes) } as const
        return { state, bytes, stat }
      }
      if (attempt === ATTEMPTS) return unknown('it kept changing while it was read', stat)
    }
  } catch (error) {
    return { state: { kind: 'unknown', why: `it cannot be read (${(error as NodeJS.ErrnoException).code ?? error})` } }
  }
}

const unknown = (why: string, stat: Stats): Read => ({ state: { kind: 'unknown', why, version: stampOf(stat) }, stat })

/** Undefined when the file is another one afterwards. */
function readWhole(path: string, stat: Stats): Buffer | undefined {
  const file = openSync(toPath(path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const bytes = readFileSync(file)
    return stampOf(fstatSync(file)) === stampOf(stat) ? bytes : undefined
  } finally {
    closeSync(file)
  }
}

export const mebibytes = (bytes: number): string =>
  bytes >= 2 ** 20 ? `${Math.round(bytes / 2 ** 20)} MiB` : `${bytes} bytes`
