/** Takes a session's files away. */

import { rmSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { inSlices } from './parallel.ts'
import { filesOf, noteOf, packedOf, partialOf, segmentsOf, unfinished } from './places.ts'

/** The log itself goes last: whoever stops in between leaves a session that can be seen, and deleted again. @throws what the file system says */
export function removeLog(path: string): void {
  for (const folder of [filesOf(path), segmentsOf(path)]) rmSync(folder, { recursive: true, force: true })
  const packed = packedOf(path)
  const files = [partialOf(path), noteOf(path), unfinished(packed), packed, unfinished(path), path]
  for (const file of files) rmSync(file, { force: true })
}

/** What the session's own files take; its log is not among them. */
export async function bytesOfFiles(path: string): Promise<number> {
  const entries = await readdir(filesOf(path), { recursive: true, withFileTypes: true }).catch(() => [])
  const sizes = await inSlices(entries, entry => {
    return entry.isFile() ? (statSync(join(entry.parentPath, entry.name), { throwIfNoEntry: false })?.size ?? 0) : 0
  })
  return sizes.reduce((sum, size) => sum + size, 0)
}
