import {
  accessSync,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  fsyncSync,
  lstatSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { diskError } from './disk-error.ts'
import { temporaryName } from './temporary-name.ts'

const MAX_LINKS = 40

/**
 * Replaces the whole content of a file that others read: they see the old content or the new one. Its mode and owner
 * stay; of a symlink, what it leads to is replaced. A file that is not there yet gets `mode` (0600). The folder must exist.
 *
 * @throws as `diskError`: `STORE_READ_ONLY` when the file, its folder or the file system is, nothing is retried then
 */
export function replaceFile(path: string, text: string | Uint8Array, options: { mode?: number } = {}): void {
  explained(path, () => {
    const { target, former } = targetOf(path)
    replace(target, text, former, options.mode ?? 0o600)
  })
}

/** For who has something to lose before it comes to {@link replaceFile}. @throws as that, when it can be told already */
export function requireReplaceable(path: string): void {
  explained(path, () => targetOf(path))
}

function explained(path: string, work: () => void) {
  try {
    work()
  } catch (error) {
    throw diskError(error, 'cannot write the file', path, FIXES[(error as NodeJS.ErrnoException).code ?? ''])
  }
}

function targetOf(path: string): { target: string; former: Stats | undefined } {
  const target = followLinks(resolve(path))
  const former = statSync(target, { throwIfNoEntry: false })
  if (former && !former.isFile()) throw failure(former.isDirectory() ? 'EISDIR' : 'EEXIST')
  if (former) requireWritable(target, former)
  requireWritable(dirname(target), statSync(dirname(target)))
  return { target, former }
}

const writable = 'make the file and its folder writable, or change it where it comes from'
const FIXES: Record<string, string> = {
  EACCES: writable,
  EPERM: writable,
  EROFS: writable,
  ENOENT: 'create its folder first',
  ENOTDIR: 'correct the path',
  EISDIR: 'name a file',
  EEXIST: 'name a regular file',
}

/** Where a path ends, a dangling link too. */
function followLinks(path: string): string {
  let at = path
  for (let hops = 0; lstatSync(at, { throwIfNoEntry: false })?.isSymbolicLink(); hops++) {
    if (hops === MAX_LINKS) throw failure('ELOOP')
    at = resolve(dirname(at), readlinkSync(at))
  }
  return at
}

/** Replacing needs no leave of the file itself, and root needs none at all: a file marked as read-only stays as it is. */
function requireWritable(path: string, { mode }: Stats) {
  if (!(mode & 0o222)) throw failure('EACCES')
  accessSync(path, constants.W_OK)
}

function replace(target: string, text: string | Uint8Array, former: Stats | undefined, mode: number) {
  const temporary = temporaryName(target)
  try {
    const file = openSync(temporary, 'wx', former ? 0o600 : mode)
    try {
      writeFileSync(file, text)
      // Without this a machine that stops may come back with the new name and no content.
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    if (former) adopt(temporary, former)
    renameSync(temporary, target)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

function adopt(path: string, { mode, uid, gid }: Stats) {
  try {
    const made = statSync(path)
    if (made.uid !== uid || made.gid !== gid) chownSync(path, uid, gid)
  } catch {
    // Only root may give files away; the content is what was asked for.
  }
  chmodSync(path, mode & 0o7777)
}

const failure = (code: string) => Object.assign(new Error(code), { code })
