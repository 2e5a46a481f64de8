/** The folders of a tree, before and after. */

import { join } from 'node:path'
import { type Change, NONE } from './file-state.ts'
import { type Facts, isReached, lookUp } from './look.ts'
import type { TreeListing } from './tree.ts'
import { type TreeIndex, wasAbsent } from './tree-index.ts'

/** What is at a path as a part of the tree: behind a link there is nothing. */
export function inTree(root: string, path: string): Facts | undefined {
  const full = join(root, path)
  return isReached(root, full) ? lookUp(full) : undefined
}

/** Folders that came, went, or have another mode. */
export function folderChanges(before: TreeIndex, listing: TreeListing, root: string): Change[] {
  const changes: Change[] = []
  for (const [path, mode] of before.folders) {
    const facts = listing.folders.get(path) ?? inTree(root, path)
    const was = { kind: 'folder', mode } as const
    if (!facts) changes.push({ path, before: was, after: NONE })
    else if (facts.kind === 'folder' && facts.mode !== mode) {
      changes.push({ path, before: was, after: { kind: 'folder', mode: facts.mode } })
    }
  }
  for (const [path, facts] of listing.folders) {
    if (before.folders.has(path) || !wasAbsent(before, path)) continue
    changes.push({ path, before: NONE, after: { kind: 'folder', mode: facts.mode } })
  }
  return changes.filter(({ path }) => path !== '')
}

/** A look that was cut short does not forget what an earlier one has seen. */
export function foldersAfter(before: TreeIndex, listing: TreeListing, root: string): Map<string, number> {
  const folders = new Map([...listing.folders].map(([path, facts]) => [path, facts.mode]))
  for (const [path, mode] of before.folders) {
    if (!folders.has(path) && inTree(root, path)?.kind === 'folder') folders.set(path, mode)
  }
  return folders
}
