import { realpathSync, statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { type Environment, homeFolder } from './home-folder.ts'

/** What a project keeps for the harness is in a folder of this name. */
export const PROJECT_FOLDER = '.cambium'

/**
 * The nearest folder at or above `cwd` that has a folder `.cambium` in it which is not the harness's home; undefined if
 * there is none.
 */
export function projectFolder(cwd: string, env?: Environment): string | undefined {
  const home = realPath(homeFolder(env))
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const own = join(folder, PROJECT_FOLDER)
    if (isFolder(own) && realPath(own) !== home) return folder
    if (dirname(folder) === folder) return undefined
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  } catch {
    return false
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
