import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { temporaryName } from './temporary-name.ts'

/**
 * Writes a whole small file so that readers, and a process that dies half-way, see the old content or the new one.
 * For the owner's eyes only. @throws what the file system says
 */
export function writeAtomic(path: string, content: string | Uint8Array): void {
  const temporary = temporaryName(path)
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx' })
    renameSync(temporary, path)
  } catch (error) {
    try {
      rmSync(temporary, { force: true })
    } catch {
      // The first failure is the one to tell.
    }
    throw error
  }
}
