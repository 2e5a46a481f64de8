/** Files named on the command line: patterns that no shell expanded, and environment files. */

import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { HarnessError, workingFolder } from '@cambium/core'
import { labelOf } from '../file/source.ts'
import { readTextFile } from '../file/text-file.ts'

/** The files that `pattern` names, sorted; `*` and `?` stand for text within one folder's names. */
export function expandPattern(pattern: string, cwd = workingFolder()): string[] {
  if (!/[*?]/.test(pattern) || existsSync(resolve(cwd, pattern))) return [pattern]
  let found = [pattern.startsWith('/') ? '/' : '']
  for (const part of pattern.split('/').filter(Boolean)) {
    found = found.flatMap(folder => {
      if (!/[*?]/.test(part)) return existsSync(resolve(cwd, folder, part)) ? [join(folder, part)] : []
      const matches = new RegExp(
        `^${part
          .replace(/[\\^$.|+()[\]{}]/g, '\\$&')
          .replace(/\*/g, '.*')
          .replace(/\?/g, '.')}$`,
      )
      const hidden = part.startsWith('.')
      return namesIn(resolve(cwd, folder))
        .filter(name => matches.test(name) && (hidden || !name.startsWith('.')))
        .map(name => join(folder, name))
    })
  }
  if (found.length) return found.sort()
  throw new HarnessError('TREE_FILE_UNREADABLE', `no file matches ${pattern}`, {
    where: labelOf(dirname(resolve(cwd, pattern))),
    fix: 'name an existing file, or another pattern',
  })
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    // Not a folder, so nothing in it matches.
    return []
  }
}

/** Adds a file's variables to `env`; those that exist already keep their value. */
export function loadEnvFile(file: string, env: Record<string, string | undefined> = process.env): void {
  let text: string
  try {
    text = readTextFile(file)
  } catch (cause) {
    throw new HarnessError('TREE_FILE_UNREADABLE', `${labelOf(resolve(file))} cannot be read`, {
      where: '--env-file',
      fix: 'name an existing file of lines `NAME=value`',
      cause,
    })
  }
  for (const [name, value] of Object.entries(parseEnv(text))) env[name] ??= value
}
