/** Moves what a changed file was from where the snapshot has it to where it is kept. */

import { errorMessage } from '@cambium/core'
import type { FileState } from './file-state.ts'
import type { GitReader } from './git.ts'
import { inodeOf } from './look.ts'
import type { Mirror } from './mirror.ts'
import { hashOf, type ObjectStore } from './objects.ts'
import type { Entry } from './tree-index.ts'

type Named = readonly [path: string, entry: Entry]

/** Never throws: what could not be kept is `unknown`, with the reason. */
export async function keepContents(
  entries: readonly Named[],
  from: { readonly mirror: Mirror; git(): GitReader },
  objects: ObjectStore,
): Promise<Map<string, FileState>> {
  const kept = new Map<string, FileState>()
  const blobs = new Map<string, Named[]>()
  const unknown = (path: string, why: string) => void kept.set(path, { kind: 'unknown', why })
  const put = async (path: string, { facts }: Entry, bytes: Buffer) => {
    try {
      const hash = await objects.put(bytes)
      kept.set(path, { kind: 'file', mode: facts.mode, size: bytes.length, hash, ...inodeOf(facts) })
    } catch (error) {
      unknown(path, `its content could not be kept: ${errorMessage(error)}`)
    }
  }
  for (const [path, entry] of entries) {
    const { target, place, hash, blob, why } = entry
    const { mode, size } = entry.facts
    if (target !== undefined) kept.set(path, { kind: 'link', target })
    else if (place) {
      const bytes = from.mirror.read(place)
      if (bytes && hashOf(bytes) === hash) await put(path, entry, bytes)
      else unknown(path, 'the copy of it is damaged or gone')
    } else if (blob) blobs.set(blob, [...(blobs.get(blob) ?? []), [path, entry]])
    // What the turn itself had made, and kept when it did.
    else if (hash && objects.has(hash)) kept.set(path, { kind: 'file', mode, size, hash })
    else unknown(path, why ?? 'its content was not kept')
  }
  if (!blobs.size) return kept
  const tell = async (id: string, bytes: Buffer) => {
    for (const [path, entry] of blobs.get(id) ?? [])
      if (bytes.length === entry.facts.size) await put(path, entry, bytes)
  }
  // The command may have removed the repository, which then tells nothing.
  await from
    .git()
    .blobs([...blobs.keys()], tell)
    .catch(() => {})
  for (const [path] of [...blobs.values()].flat()) {
    if (!kept.has(path)) unknown(path, 'its content was in the repository, which does not have it any more')
  }
  return kept
}
