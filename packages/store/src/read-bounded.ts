import { readFileSync, statSync } from 'node:fs'
import { diskError } from './disk-error.ts'

/**
 * The content of a regular file, undefined when there is none. Nothing waits for a pipe, and no file fills the memory.
 *
 * @throws as `diskError`
 */
export function readBounded(path: string, maxBytes: number): Buffer | undefined {
  try {
    const stats = statSync(path, { throwIfNoEntry: false })
    if (!stats) return undefined
    if (!stats.isFile()) throw Object.assign(new Error('it is no file'), { code: stats.isDirectory() ? 'EISDIR' : '' })
    if (stats.size > maxBytes) throw new Error(`it is larger than ${maxBytes / 2 ** 20} MiB`)
    return readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return undefined
    throw diskError(error, 'cannot read the file', path, 'make it a readable file')
  }
}
