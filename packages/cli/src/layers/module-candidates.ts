/**
 * All files that a specifier may lead to, whoever loads it: `import` and `require` differ in conditions and endings, and
 * so do Node and what compiles TypeScript. Nothing is run, and of what is found here not all is there.
 */

import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, extname, join, resolve } from 'node:path'

export interface Specifier {
  readonly text: string
  /** It stands where a module is named, and not just anywhere as a text that begins like a relative path. */
  readonly imported: boolean
}

const GAP = String.raw`(?:\s|\/\*[^*]*\*+(?:[^/*][^*]*\*+)*\/|\/\/[^\n]*\n)*`
const IMPORTED = new RegExp(
  String.raw`\b(?:from|import|require|resolve|createRequire${GAP}\([^()]*\))${GAP}(?:\(${GAP})?(['"\`])([^'"\`\n]+)\1`,
  'g',
)

export function specifiersIn(text: string): Specifier[] {
  const imported = new Set([...text.matchAll(IMPORTED)].map(match => match[2]!))
  const others = [...text.matchAll(/(['"`])(\.{1,2}\/[^'"`\n$]*)\1/g)].map(match => match[2]!)
  return [
    ...[...imported].map(text => ({ text, imported: true })),
    ...[...new Set(others)].filter(text => !imported.has(text)).map(text => ({ text, imported: false })),
  ]
}

const TYPED: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
}
const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json', '.node']

/** Of a path: itself, with another ending, and what stands for a folder. */
export function pathCandidates(path: string): string[] {
  const main = manifestOf(path)?.['main']
  return [...plainCandidates(path), ...(typeof main === 'string' ? plainCandidates(resolve(path, main)) : [])]
}

function plainCandidates(path: string): string[] {
  const extension = extname(path)
  return [
    path,
    ...(TYPED[extension] ?? []).map(typed => `${path.slice(0, -extension.length)}${typed}`),
    ...EXTENSIONS.map(added => `${path}${added}`),
    ...EXTENSIONS.map(added => join(path, `index${added}`)),
  ]
}

/** Of `name` or `@scope/name/path`: in the nearest package of that name, by whatever conditions. */
export function packageCandidates(specifier: string, from: string): string[] {
  const [name, path] = parts(specifier)
  return packageFolders(name, from).flatMap(folder => {
    const exported = targets(manifestOf(folder)?.['exports'], path ? `./${path}` : '.')
    return [...exported.map(target => resolve(folder, target)), join(folder, path)].flatMap(pathCandidates)
  })
}

/** What `#name` stands for, and the manifest that says so: a path, or the specifier of another package. */
export function ownNameTargets(specifier: string, from: string): { manifest: string; targets: string[] } | undefined {
  for (let folder = dirname(from); ; folder = dirname(folder)) {
    const manifest = manifestOf(folder)
    if (manifest) return { manifest: join(folder, 'package.json'), targets: targets(manifest['imports'], specifier) }
    if (folder === dirname(folder)) return undefined
  }
}

function parts(specifier: string): [name: string, path: string] {
  const words = specifier.split('/')
  const name = words.splice(0, specifier.startsWith('@') ? 2 : 1).join('/')
  return [name, words.join('/')]
}

/** The nearest in a `node_modules`, and the one that the file itself belongs to. */
function packageFolders(name: string, from: string): string[] {
  const found: string[] = []
  for (let folder = dirname(from); ; folder = dirname(folder)) {
    if (manifestOf(folder)?.['name'] === name) found.push(folder)
    const installed = join(folder, 'node_modules', name)
    if (existsSync(installed)) return [...found, installed]
    if (folder === dirname(folder)) return found
  }
}

/** All that a manifest's `exports` or `imports` may mean by a key, under any conditions. */
function targets(map: unknown, key: string): string[] {
  if (!isRecord(map) || !Object.keys(map).some(name => /^[.#]/.test(name))) return key === '.' ? texts(map) : []
  return Object.entries(map).flatMap(([name, value]) => {
    const [before = '', after] = name.split('*')
    if (after === undefined) return name === key ? texts(value) : []
    if (!key.startsWith(before) || !key.endsWith(after) || key.length < before.length + after.length) return []
    const meant = key.slice(before.length, key.length - after.length)
    return texts(value).map(text => text.replaceAll('*', () => meant))
  })
}

const texts = (value: unknown): string[] =>
  typeof value === 'string' ? [value] : isRecord(value) ? Object.values(value).flatMap(texts) : []

function manifestOf(folder: string): Record<string, unknown> | undefined {
  const file = join(folder, 'package.json')
  try {
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return undefined
    const data = JSON.parse(readFileSync(file, 'utf8'))
    return isRecord(data) ? data : undefined
  } catch {
    // There is none, or none that Node would take.
    return undefined
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
