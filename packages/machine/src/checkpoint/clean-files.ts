/** Files that need no copy, because the user's repository has them. */

import type { CachedFile, GitReader } from './git.ts'
import type { Facts } from './look.ts'
import { isRacy } from './tree-index.ts'

/** Blob ids by path, judged by facts alone, as git itself does; undefined when all of a tree is small enough to be copied. */
export async function cleanFiles(
  files: ReadonlyMap<string, Facts>,
  known: ReadonlyMap<string, CachedFile>,
  git: GitReader,
  copyBytes: number,
): Promise<Map<string, string> | undefined> {
  let bytes = 0
  for (const { size } of files.values()) bytes += size
  const trust = bytes > copyBytes ? await git.trust([...files.keys(), ...known.keys()]) : 'none'
  if (trust === 'none') return undefined
  const indexTime = await git.indexTime()
  const clean = new Map<string, string>()
  for (const [path, facts] of files) {
    const file = known.get(path)
    if (!file || facts.kind !== 'file' || facts.size !== file.size) continue
    const same = (a: number, b: number) => Math.abs(a - b) < 0.01
    if (same(facts.mtimeMs, file.mtimeMs) && same(facts.ctimeMs, file.ctimeMs) && !isRacy(facts, indexTime)) {
      clean.set(path, file.blob)
    }
  }
  if (trust === 'whole') return clean
  const sizes = await git.sizes([...new Set(clean.values())])
  // A content of another length came through a conversion of line endings or the like.
  for (const [path, blob] of clean) if (sizes.get(blob) !== files.get(path)!.size) clean.delete(path)
  return clean
}
