import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { diskError } from './disk-error.ts'

/** Creates a folder and those above it, for the owner's eyes only; leaves one that is there as it is. @throws as `diskError` */
export function ensureFolder(path: string): void {
  try {
    makeFolders(path)
  } catch (error) {
    throw diskError(error, 'cannot create a folder', path)
  }
}

/** Step by step: Node's own recursive form never ends where a file system says that the folder cannot exist, as /proc does. */
function makeFolders(path: string, again = true): void {
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && statSync(path).isDirectory()) return
    if (code !== 'ENOENT' || !again || dirname(path) === path) throw error
    makeFolders(dirname(path))
    makeFolders(path, false)
  }
}
