import { errorMessage, HarnessError, isHarnessError } from '@cambium/core'

const KNOWN: Record<string, readonly [code: string, cause: string, fix: string]> = {
  ENOSPC: [
    'STORE_FULL',
    'the disk is full',
    'free some space; what is pending is kept and written with the next attempt',
  ],
  EDQUOT: ['STORE_FULL', 'the disk quota is used up', 'free some space, or set CAMBIUM_HOME to another disk'],
  EFBIG: ['STORE_FULL', 'the file may not grow any further', 'raise the limit of file sizes (ulimit -f)'],
  EROFS: ['STORE_READ_ONLY', 'the file system is read-only', 'set CAMBIUM_HOME to a folder that can be written'],
  EACCES: [
    'STORE_READ_ONLY',
    'permission denied',
    'set CAMBIUM_HOME to a folder that can be written, or fix the permissions',
  ],
  EPERM: [
    'STORE_READ_ONLY',
    'permission denied',
    'set CAMBIUM_HOME to a folder that can be written, or fix the permissions',
  ],
  ENOENT: ['STORE_PATH', 'nothing can be created there', 'set CAMBIUM_HOME to a folder that can be written'],
  ENOTDIR: ['STORE_PATH', 'a part of the path is a file', 'move that file away, or set CAMBIUM_HOME to another folder'],
  EEXIST: ['STORE_PATH', 'a file is in the way', 'move that file away, or set CAMBIUM_HOME to another folder'],
  EISDIR: ['STORE_PATH', 'a folder is in the way', 'move that folder away, or set CAMBIUM_HOME to another folder'],
  ELOOP: ['STORE_PATH', 'its links lead round in a circle', 'correct the links'],
  EMFILE: ['STORE_FAILED', 'too many files are open', 'raise the limit (ulimit -n)'],
  EIO: ['STORE_FAILED', 'the disk reports an error', 'check the disk'],
}

/** A failed file operation in words for a person: what, why, where, and what to do about it, unless `advice` knows better. */
export function diskError(error: unknown, what: string, path: string, advice?: string): HarnessError {
  if (isHarnessError(error)) return error
  const [code, cause, fix] = KNOWN[(error as NodeJS.ErrnoException)?.code ?? ''] ?? [
    'STORE_FAILED',
    errorMessage(error),
  ]
  return new HarnessError(code, `${what}: ${cause}`, { where: path, fix: advice ?? fix, cause: error })
}
