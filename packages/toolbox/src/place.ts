/** Where a call takes place, and how a path is spelt for the model. */

import { basename, dirname, isAbsolute, join, relative } from 'node:path'
import { HarnessError, nearest } from '@cambium/core'
import type { FileSystem } from '@cambium/machine'
import type { ToolExecution } from '@cambium/tools'

/** The folder that relative paths of a call start at. */
export function cwdOf(exec: Pick<ToolExecution, 'agent'>): string {
  return exec.agent?.session.header.cwd ?? process.cwd()
}

/** Relative when it lies in `cwd`; quoted where it has to be. */
export function displayPath(path: string, cwd: string): string {
  const inside = relative(cwd, path)
  const shown = inside && inside !== '..' && !inside.startsWith('../') && !isAbsolute(inside) ? inside : path
  return quotedPath(shown)
}

/** Quoted when it holds characters that could pass for something else. */
export const quotedPath = (path: string): string => (/[\p{Cc}\u2028\u2029]/u.test(path) ? JSON.stringify(path) : path)

const MAX_COMPARED = 2_000

/** The error for a file that is not there, with what may have been meant. */
export async function notFound(fs: FileSystem, path: string, shown: string): Promise<HarnessError> {
  const entries = await fs.list(dirname(path)).catch(() => undefined)
  const name = basename(path)
  const own = entries?.find(entry => entry.name === name)
  if (own?.kind === 'link') {
    return new HarnessError('FS_NOT_FOUND', `${shown} is a link to something that does not exist`, {
      fix: 'look where it leads with ls -l in bash',
    })
  }
  if (own && name.includes('\ufffd')) {
    return new HarnessError('FS_NOT_FOUND', `${shown} has a name that is not valid UTF-8, so that it cannot be named`, {
      fix: 'reach it with a wildcard in bash',
    })
  }
  const names = entries?.map(entry => entry.name)
  const close = names && names.length <= MAX_COMPARED && nearest(name, names)
  const fix = close ? `did you mean ${join(dirname(shown), close)}?` : 'look for it with glob'
  return new HarnessError('FS_NOT_FOUND', `${shown} does not exist${entries ? '' : ', nor does its directory'}`, {
    fix,
  })
}
