import { linkSync, rmSync, writeFileSync } from 'node:fs'
import { temporaryName } from './temporary-name.ts'

/** Answers of file systems that have no hard links. */
const NO_LINKS = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK', 'EINVAL', 'EXDEV'])

/**
 * Creates a file that is not there yet, whole or not at all: of many who try at once, exactly one succeeds, and nobody
 * ever sees half of it. False when something is there already. For the owner's eyes only. @throws what the file system says
 */
export function createWhole(path: string, content: string | Uint8Array): boolean {
  const temporary = temporaryName(path)
  try {
    writeFileSync(temporary, content, { mode: 0o600, flag: 'wx' })
    linkSync(temporary, path)
    return true
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return false
    if (!NO_LINKS.has(code)) throw error
  } finally {
    remove(temporary)
  }
  return createDirectly(path, content)
}

/** Without links a reader may meet the file half written; still only one creates it. */
function createDirectly(path: string, content: string | Uint8Array): boolean {
  try {
    writeFileSync(path, content, { mode: 0o600, flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    remove(path)
    throw error
  }
}

/** What cannot be removed lies about; what was asked for has been done, or has failed for a better reason. */
function remove(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch {}
}
