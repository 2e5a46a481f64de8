/** Replaces a file's content in one step, keeping what belongs to the file and not to its content. */

import { type BigIntStats, constants } from 'node:fs'
import { access, open, rename, unlink } from 'node:fs/promises'
import { temporaryName } from './temporary-name.ts'

const PERMISSIONS = 0o7777

/**
 * `target` is a real path. `before` is what is there now, undefined for nothing. A new file gets `0666` less the umask.
 * `check` runs right before the new content takes its place and may throw.
 */
export async function replaceFile(
  target: string,
  content: string | Uint8Array,
  before: BigIntStats | undefined,
  check: () => Promise<void>,
): Promise<void> {
  // A rename needs leave of the folder only; a read-only file must not be replaced through that door.
  if (before) await access(target, constants.W_OK)
  // Other names of a hard-linked file must go on naming the same content.
  if (before && before.nlink > 1n) return writeInPlace(target, content, check)
  const temporary = temporaryName(target)
  let file: Awaited<ReturnType<typeof open>>
  try {
    file = await open(temporary, 'wx', before ? 0o600 : 0o666)
  } catch (error) {
    // A file that may be written in a folder that may not.
    if (before && (error as NodeJS.ErrnoException).code === 'EACCES') return writeInPlace(target, content, check)
    throw error
  }
  try {
    try {
      await file.writeFile(content)
      if (before && !(await keep(file, before))) {
        await unlink(temporary)
        return await writeInPlace(target, content, check)
      }
    } finally {
      await file.close()
    }
    await check()
    await rename(temporary, target)
  } catch (error) {
    await unlink(temporary).catch(() => {})
    throw error
  }
}

/** Gives the new file the old one's owner and mode; false when the owner cannot be kept. */
async function keep(file: Awaited<ReturnType<typeof open>>, before: BigIntStats): Promise<boolean> {
  const now = await file.stat({ bigint: true })
  if (now.uid !== before.uid || now.gid !== before.gid) {
    try {
      await file.chown(Number(before.uid), Number(before.gid))
    } catch {
      return false
    }
  }
  // After chown, which clears setuid and setgid.
  await file.chmod(Number(before.mode) & PERMISSIONS)
  return true
}

async function writeInPlace(target: string, content: string | Uint8Array, check: () => Promise<void>): Promise<void> {
  await check()
  const file = await open(target, 'r+')
  try {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content
    await file.writeFile(bytes)
    await file.truncate(bytes.length)
  } finally {
    await file.close()
  }
}
