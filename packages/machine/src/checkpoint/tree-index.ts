/** What a tree was when it was last seen: the facts that tell a changed file, and where its content is. */

import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import type { Facts } from './look.ts'
import type { Place } from './mirror.ts'
import { writeWhole } from './whole-file.ts'

export interface Entry {
  readonly facts: Facts
  /** Where a link leads. */
  readonly target?: string
  readonly hash?: string
  /** Its content is in the mirror, … */
  readonly place?: Place
  /** … or is that blob of the user's repository, … */
  readonly blob?: string
  /** … or is not kept, and why. */
  readonly why?: string
  /** It was changed at the moment it was seen: the same facts may hide another change. */
  readonly racy?: true
  /** It lies among what is ignored and is known to the user's repository all the same. */
  readonly forced?: true
}

export interface TreeIndex {
  readonly id: string
  readonly files: Map<string, Entry>
  /** Folders all of whose entries were seen, with their modes. */
  folders: Map<string, number>
  skipped: Set<string>
}

export const newIndexId = (): string => randomBytes(6).toString('hex')

/** As far as clocks and file systems tell moments apart. */
const RACE_MS = 20

export function isRacy({ mtimeMs, ctimeMs }: Facts, seenAt: number): boolean {
  return Math.max(mtimeMs, ctimeMs) > seenAt - RACE_MS
}

export function entryOf(facts: Facts, seenAt: number): Entry {
  return isRacy(facts, seenAt) ? { facts, racy: true } : { facts }
}

/**
 * What `path` was in the tree: true when it is known not to have been there. Where the tree was not looked at nothing is
 * known, and what turns up there is nobody's creation.
 */
export function wasAbsent({ files, folders, skipped }: TreeIndex, path: string): boolean {
  if (files.has(path) || folders.has(path)) return false
  for (let at = path; ; ) {
    if (skipped.has(at)) return false
    const slash = at.lastIndexOf('/')
    const above = slash < 0 ? '' : at.slice(0, slash)
    if (folders.has(above) || files.has(above)) return true
    if (!above) return false
    at = above
  }
}

interface Stored {
  readonly id: string
  readonly files: [string, Entry][]
  readonly folders: [string, number][]
  readonly skipped: string[]
}

export async function saveIndex(path: string, { id, files, folders, skipped }: TreeIndex): Promise<void> {
  const stored: Stored = { id, files: [...files], folders: [...folders], skipped: [...skipped] }
  const { deflate } = await import('node:zlib')
  const bytes = await promisify<string, object, Buffer>(deflate)(JSON.stringify(stored), { level: 1 })
  await writeWhole(path, bytes)
}

/** Undefined when there is none, or none that can be read. */
export async function loadIndex(path: string): Promise<TreeIndex | undefined> {
  try {
    const { inflate } = await import('node:zlib')
    const stored = JSON.parse(String(await promisify<Buffer, Buffer>(inflate)(await readFile(path)))) as Stored
    const { id, files, folders, skipped } = stored
    return { id, files: new Map(files), folders: new Map(folders), skipped: new Set(skipped) }
  } catch {
    return undefined
  }
}

export function removeIndex(path: string): void {
  rmSync(path, { force: true })
}
