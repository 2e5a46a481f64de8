/** Specifier to URL: relative to the file that names it, then through that file's node_modules, then our installation. */

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, extname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { errorMessage, nearest } from '@cambium/core'
import { labelOf } from '../file/source.ts'
import { installation, shippedPlugins } from './installation.ts'
import { suggestShipped } from './shipped.ts'

export type Resolution = { readonly url: string } | { readonly problem: string; readonly fix: string }

export async function resolveModule(specifier: string, from: string): Promise<Resolution> {
  if (/^(data|node):/.test(specifier)) return { url: specifier }
  const local = localPath(specifier, from)
  // No file has such a name, and Node throws at it.
  if (local?.includes('\0') || (specifier.startsWith('file:') && local === undefined)) {
    return { problem: `${JSON.stringify(specifier)} names no file of this machine`, fix: 'write its path' }
  }
  return local === undefined ? await resolveBare(specifier, from) : resolveFile(local)
}

function localPath(specifier: string, from: string): string | undefined {
  if (specifier.startsWith('file:')) return urlPath(specifier)
  if (/^\.{1,2}(\/|$)/.test(specifier)) return resolve(dirname(from), specifier)
  return isAbsolute(specifier) ? specifier : undefined
}

function resolveFile(path: string): Resolution {
  if (statSync(path, { throwIfNoEntry: false })?.isFile()) return { url: pathToFileURL(path).href }
  const folder = dirname(path)
  const name = basename(path)
  const label = labelOf(path)
  if (!existsSync(folder)) return { problem: `there is no folder ${labelOf(folder)}`, fix: 'correct the path' }
  if (existsSync(path)) return { problem: `${label} is a folder`, fix: 'name the file in it' }
  const files = readdirSync(folder)
  const meant = files.find(file => basename(file, extname(file)) === name) ?? nearest(name, files)
  const fix = meant ? `did you mean "./${meant}"?` : 'correct the path; it is relative to the file that names it'
  return { problem: `there is no file ${label}`, fix }
}

async function resolveBare(specifier: string, from: string): Promise<Resolution> {
  const name = packageName(specifier)
  let problem: string | undefined
  const ours = installation()
  if (!ours.owns?.(specifier) && reaches(name, from)) {
    // Loaded only when the package is near: the library costs more start-up than all of our own resolving.
    const { resolve } = await import('import-meta-resolve')
    try {
      const url = resolve(specifier, pathToFileURL(from).href)
      if (!url.startsWith('file:') || existsSync(fileURLToPath(url))) return { url }
      problem = `its file ${labelOf(fileURLToPath(url))} is missing`
    } catch (error) {
      // The library's message goes on with paths that the tree's author does not know.
      problem = errorMessage(error)
        .split('\n')[0]!
        .replace(/ (in|imported from) \/.*$/, '')
    }
  }
  const installed = await ours.resolve(specifier)
  if (installed && (!installed.startsWith('file:') || existsSync(fileURLToPath(installed)))) return { url: installed }
  const hint = suggestShipped(specifier, await shippedPlugins())
  if (problem) {
    const fix = hint ?? 'correct the name or the package'
    return { problem: `"${specifier}" cannot be resolved: ${problem}`, fix }
  }
  const bare = resolve(dirname(from), specifier)
  const fix = existsSync(bare)
    ? `did you mean "./${specifier}"? A relative file begins with ./`
    : (hint ?? `install ${name} beside the tree, or correct the name`)
  if (installed === undefined && (await shippedPlugins()).some(plugin => packageName(plugin.specifier) === name))
    return { problem: `the installation has no plugin "${specifier}"`, fix }
  return { problem: `no package "${name}" was found, neither beside the tree nor in the installation`, fix }
}

function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

/** Whether a `node_modules` above the file has the package, or the file belongs to it. */
function reaches(name: string, from: string): boolean {
  let scoped = false
  let found: boolean | undefined
  for (let folder = dirname(from); ; folder = dirname(folder)) {
    const manifest = manifestOf(folder)
    // The nearest one is read by the library that resolves.
    if (!scoped && manifest === 'unreadable') return false
    scoped ||= manifest !== 'absent'
    const installed = join(folder, 'node_modules', name)
    if (existsSync(installed)) found ??= manifestOf(installed) !== 'unreadable'
    else if (manifest === 'file' && ownName(folder) === name) found ??= true
    if ((scoped && found !== undefined) || folder === dirname(folder)) return found ?? false
  }
}

/** A pipe in its place would keep whoever reads it for ever. */
function manifestOf(folder: string): 'file' | 'absent' | 'unreadable' {
  const found = statSync(join(folder, 'package.json'), { throwIfNoEntry: false })
  return found ? (found.isFile() ? 'file' : 'unreadable') : 'absent'
}

function ownName(folder: string): string | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')).name
  } catch {
    // Not a readable manifest: the folder is no package of that name.
    return undefined
  }
}

/** The path of a file that another one names: relative to it, absolute, or a `file:` URL. */
export function fileNamed(name: string, from: string): string {
  return resolve(dirname(from), urlPath(name) ?? name)
}

/** The path of a `file:` URL; undefined for one that leads to no file here, and for what is none. */
export function urlPath(url: string): string | undefined {
  if (!url.startsWith('file:')) return undefined
  try {
    return fileURLToPath(url)
  } catch {
    return undefined
  }
}
