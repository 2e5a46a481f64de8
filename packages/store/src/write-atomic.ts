import { renameSync, rmSync, writeFileSync } from 'node:fs'

let count = 0

/**
 * Writes a whole small file so that readers, and a process that dies half-way, see the old content or the new one.
 * For the owner's eyes only. @throws what the file system says
 */
export function writeAtomic(path: string, content: string | Uint8Array): void {
  const temporary = `${path}.${process.pid}.${count++}.tmp`
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx' })
    renameSync(temporary, path)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}
