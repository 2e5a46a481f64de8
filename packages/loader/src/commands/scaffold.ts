/** New folders for authors, made from the templates of the installation. */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { errorMessage, HarnessError } from '@cambium/core'
import { labelOf } from '../file/source.ts'
import type { ScaffoldSource } from '../modules/installation.ts'

export type ScaffoldKind = 'plugin' | 'app'

export interface Scaffold {
  readonly kind: ScaffoldKind
  readonly name: string
  /** Absolute path of a folder that does not exist yet, or is empty but for a `.git`. */
  readonly folder: string
}

export interface Scaffolded {
  readonly files: readonly string[]
  /** Why the folder could not be linked to the installation, if so. */
  readonly unlinked: string | undefined
}

/** One of Node's words, ours, or those of a tree: a package or a row of that name would be mistaken for it. */
const TAKEN = new Set(['node', 'node-modules', 'cambium', 'cordis', 'group', 'include', 'test', 'plugin', 'app', 'npm'])
const MAX_NAME = 60

/** What the name may be at best, when it is not one: `My Plugin` → `my-plugin`. */
export function nearestName(name: string, kind: ScaffoldKind): string {
  const words = name
    .normalize('NFKD')
    .replace(/([a-z0-9])([A-Z])/g, '$1-$2')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[-\d]+|-+$/g, '')
    .slice(0, MAX_NAME)
    .replace(/-+$/, '')
  if (!words) return `my-${kind}`
  return TAKEN.has(words) ? `my-${words}` : words
}

/** @throws `SCAFFOLD_NAME` with the nearest name that would do */
export function checkName(name: string, kind: ScaffoldKind): void {
  const nearest = nearestName(name, kind)
  if (nearest === name) return
  throw new HarnessError('SCAFFOLD_NAME', `"${name}" is no name for ${kind === 'app' ? 'an app' : 'a plugin'}`, {
    where: 'the command line',
    fix: `use lower-case words with dashes: cordis create ${kind} ${nearest}`,
  })
}

/** Writes the folder, all or nothing. @throws `SCAFFOLD_NAME`, `SCAFFOLD_FOLDER` */
export function writeScaffold({ kind, name, folder }: Scaffold, source: ScaffoldSource): Scaffolded {
  checkName(name, kind)
  refuseTaken(folder)
  // A folder that is there stays the one it is: a shell may stand in it.
  const there = existsSync(folder)
  const fresh = there ? join(folder, `.${process.pid}.new`) : `${folder}.${process.pid}.new`
  try {
    mkdirSync(fresh, { recursive: true })
    const template = join(source.templates, kind)
    const files = readdirSync(template).map(file => {
      const target = file === 'gitignore' ? '.gitignore' : file
      writeFileSync(join(fresh, target), named(readFileSync(join(template, file), 'utf8'), kind, name))
      return target
    })
    const unlinked = link(fresh, source)
    if (there) {
      for (const file of readdirSync(fresh)) renameSync(join(fresh, file), join(folder, file))
      rmdirSync(fresh)
    } else renameSync(fresh, folder)
    return { files: files.sort(), unlinked }
  } catch (cause) {
    rmSync(fresh, { recursive: true, force: true })
    throw new HarnessError('SCAFFOLD_FOLDER', `the folder cannot be written: ${errorMessage(cause)}`, {
      where: labelOf(folder),
      fix: 'choose another folder',
      cause,
    })
  }
}

function refuseTaken(folder: string) {
  const found = statSync(folder, { throwIfNoEntry: false })
  if (!found || (found.isDirectory() && readdirSync(folder).every(file => file === '.git'))) return
  const problem = found.isDirectory() ? 'the folder is not empty' : 'it is a file'
  const fix = 'choose another name, or another folder: cordis create <kind> <name> <folder>'
  throw new HarnessError('SCAFFOLD_FOLDER', problem, { where: labelOf(folder), fix })
}

/** Templates are about `sample-plugin` and `sample-app`, and are files that run as they are. */
function named(text: string, kind: ScaffoldKind, name: string): string {
  return text.replaceAll(`sample-${kind}`, name).replaceAll(`sample_${kind}`, name.replaceAll('-', '_'))
}

/** So that tests and types find the installation, as `npm link` would do. */
function link(folder: string, { links }: ScaffoldSource): string | undefined {
  try {
    for (const [name, target] of Object.entries(links)) {
      const path = join(folder, 'node_modules', name)
      mkdirSync(dirname(path), { recursive: true })
      symlinkSync(target, path, 'junction')
    }
    return undefined
  } catch (error) {
    return errorMessage(error)
  }
}
