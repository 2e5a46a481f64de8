/** Takes a session's files away. */

import { rmSync } from 'node:fs'
import { filesOf, noteOf, packedOf, partialOf, segmentsOf } from './places.ts'

/** The log itself goes last: whoever stops in between leaves a session that can be seen, and deleted again. @throws what the file system says */
export function removeLog(path: string): void {
  for (const folder of [filesOf(path), segmentsOf(path)]) rmSync(folder, { recursive: true, force: true })
  for (const file of [partialOf(path), noteOf(path), packedOf(path), path]) rmSync(file, { force: true })
}
