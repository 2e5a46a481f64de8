/** Walks a folder without following links, and without what nobody wants back. */

import { readdirSync } from 'node:fs'
import { Pace } from '@cambium/core'
import { type Facts, lookUp } from './look.ts'
import { pathText, toPath } from './path-text.ts'

export interface TreeLimits {
  readonly maxFiles: number
  readonly maxMs: number
}

export interface TreeListing {
  /** Regular files and links, by path from the root. */
  readonly files: Map<string, Facts>
  /** Folders whose entries were all seen; the root is ''. */
  readonly folders: Map<string, Facts>
  /** What is there and was left out: ignored, another repository, no regular file. */
  readonly skipped: Set<string>
  /** In words, what was not seen. */
  readonly notes: string[]
}

/** The thread is given back after so long. */
const SLICE_MS = 12

/**
 * Breadth first, so that a limit cuts off what lies deepest. Synchronous calls in slices: one through the thread pool
 * takes five times as long, and a tree has ten thousands. What is not kept is left out with all that is in it.
 */
export async function listTree(
  root: string,
  keeps: (path: string, name: string, folder: boolean) => boolean,
  limits: TreeLimits,
  signal: AbortSignal | undefined,
): Promise<TreeListing> {
  const listing: TreeListing = { files: new Map(), folders: new Map(), skipped: new Set(), notes: [] }
  const top = lookUp(root)
  if (top?.kind !== 'folder') return listing
  const queue: [path: string, facts: Facts][] = [['', top]]
  const startedAt = performance.now()
  const pace = new Pace(signal, SLICE_MS)
  for (const [at, [path, facts]] of queue.entries()) {
    await pace.rest()
    const left = cutOff(listing, limits, performance.now() - startedAt)
    if (left) {
      listing.notes.push(left)
      for (const [unseen] of queue.slice(at)) listing.skipped.add(unseen)
      return listing
    }
    const names = namesIn(path ? `${root}/${path}` : root)
    if (!names) {
      listing.notes.push(`${path || 'the folder'} cannot be listed`)
      listing.skipped.add(path)
      continue
    }
    if (path && names.some(({ name }) => name === '.git')) {
      listing.skipped.add(path)
      continue
    }
    for (const { name, folder } of names) {
      const inner = path ? `${path}/${name}` : name
      const found = keeps(inner, name, folder) ? lookUp(`${root}/${inner}`) : undefined
      if (found?.kind === 'folder') queue.push([inner, found])
      else if (found && found.kind !== 'other') listing.files.set(inner, found)
      else listing.skipped.add(inner)
    }
    listing.folders.set(path, facts)
  }
  return listing
}

function cutOff({ files, folders }: TreeListing, { maxFiles, maxMs }: TreeLimits, ms: number): string | undefined {
  if (files.size + folders.size >= maxFiles) return `only the first ${maxFiles} files are looked at`
  if (ms > maxMs) return `only the ${files.size} files that were seen within ${maxMs} ms are looked at`
  return undefined
}

function namesIn(path: string): { name: string; folder: boolean }[] | undefined {
  try {
    const entries = readdirSync(toPath(path), { withFileTypes: true })
    if (entries.every(({ name }) => !name.includes('\ufffd'))) {
      return entries.map(entry => ({ name: entry.name, folder: entry.isDirectory() }))
    }
    // A name that is no UTF-8, whose bytes the reading above has lost.
    const raw = readdirSync(toPath(path), { withFileTypes: true, encoding: 'buffer' })
    return raw.map(entry => ({ name: pathText(entry.name), folder: entry.isDirectory() }))
  } catch {
    // Unreadable, or gone since its parent was listed.
    return undefined
  }
}
