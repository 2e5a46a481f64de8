import { rename, rm, writeFile } from 'node:fs/promises'
import { temporaryName } from '../temporary-name.ts'

/** Writes a file of the harness's own, for its owner's eyes: it is there as a whole or not at all. @throws what the file system says */
export async function writeWhole(path: string, bytes: Uint8Array): Promise<void> {
  const temporary = temporaryName(path)
  try {
    await writeFile(temporary, bytes, { mode: 0o600, flag: 'wx' })
    await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw error
  }
}
