/** All that a project's layer can make happen: the files that have to stay as they were for a trust in it to hold. */

import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync, statSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, extname, isAbsolute, join, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HarnessError } from '@cambium/core'
import { placeOf, type Row, readTree, resolveModule, type TreeFile, type TreeSource, type Value } from '@cambium/loader'
import { installed } from '../installation.ts'

export interface ProjectRequest {
  /** Is given every file that is looked for while the tree is read, also when that fails. */
  readonly tried?: Set<string>
  readonly folder: string
  /** The layer, as it was read. */
  readonly layer: TreeSource & { readonly file: string }
  readonly tree: TreeSource
  /** Layers below and above it: which rows there are decides what the project's layer can name. */
  readonly below: readonly TreeSource[]
  readonly above?: readonly TreeSource[]
  readonly set?: readonly string[]
}

export interface ContentFile {
  /** As it was named, absolute. */
  readonly path: string
  readonly real: string
  /** What leads to it: `the module of greeter`, or `imported by` the file `by`. */
  readonly why: string
  readonly by?: string
}

export type FoundIn = 'project' | 'installation' | 'elsewhere' | 'nowhere'

export interface ProjectContent {
  /** The layer first; each file once. */
  readonly files: readonly ContentFile[]
  /** Packages that rows name, and which of them lie outside of the project. */
  readonly packages: readonly { readonly row: string; readonly name: string; readonly found: FoundIn }[]
  /** The tree with the layer, inspected: nothing of it was evaluated. */
  readonly tree: TreeFile
}

/** More than a plugin and its libraries have; a start reads them all. */
const MAX_FILES = 2_000
const MAX_BYTES = 32 * 2 ** 20

/** Runs nothing. @throws the loader's mistakes; `CLI_PROJECT_TOO_LARGE` */
export async function readProject(request: ProjectRequest): Promise<ProjectContent> {
  const { layer } = request
  const patches = [...request.below, layer, ...(request.above ?? [])]
  const { set = [], tried = new Set() } = request
  const tree = readTree(request.tree, { patches, set, tried, inspect: true, env: {} })
  const content = new Content(request.folder)
  content.add(layer.file, 'the layer')
  for (const { layer: whose, file } of tree.sources) {
    if (whose === 'project' && file !== layer.file) content.add(file, 'included')
  }
  for (const row of allRows(tree.rows)) {
    if (row.kind === 'include') refuseOpenPath(row)
    const named = row.written.entries.get('name')?.value
    if (row.kind === 'plugin' && named?.spot.source.layer === 'project') {
      await content.module(row.name, row.from, `the module of ${row.id}`, { row: row.id })
    }
    for (const text of ownTexts(row)) content.named(text.value, text.from, `named at ${text.at}`)
  }
  await content.followImports()
  return { files: content.files, packages: content.packages, tree }
}

/** What such a path leads to is known only once the expression has run, and it must not run before. */
function refuseOpenPath(row: Row) {
  const config = row.written.entries.get('config')?.value
  const path = config?.kind === 'map' ? config.entries.get('path')?.value : undefined
  if (path?.kind !== 'expression' || path.spot.source.layer !== 'project') return
  throw new HarnessError('CLI_PROJECT_OPEN', `the row ${row.id} includes a file whose path is an expression`, {
    where: placeOf(path.spot),
    fix: "write the path itself: what a project's layer reads must be known before it is trusted",
  })
}

export const allRows = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...allRows(row.children)])

/** Every text that a project's file wrote into the row, those of the rows in it apart. */
const ownTexts = ({ kind, written }: Row) =>
  [...written.entries].flatMap(([key, { value }]) =>
    key === 'name' || (key === 'config' && kind === 'group') ? [] : projectTexts(value),
  )

function projectTexts(value: Value): { value: string; from: string; at: string }[] {
  if (value.kind === 'map') return [...value.entries.values()].flatMap(entry => projectTexts(entry.value))
  if (value.kind === 'list') return value.items.flatMap(projectTexts)
  const { layer, file } = value.spot.source
  if (layer !== 'project' || value.kind !== 'scalar' || typeof value.value !== 'string') return []
  return [{ value: value.value, from: file, at: placeOf(value.spot) }]
}

class Content {
  readonly files: ContentFile[] = []
  readonly packages: { row: string; name: string; found: FoundIn }[] = []
  private readonly folder: string
  private readonly root: string
  private readonly installation = dirname(realpathSync(installed('package.json')))
  private readonly known = new Set<string>()
  private bytes = 0

  constructor(folder: string) {
    this.folder = folder
    this.root = realpathSync(folder)
  }

  /** Takes in a file if it is one. */
  add(path: string, why: string, by?: string): void {
    const size = fileSize(path)
    if (size === undefined) return
    const real = realpathSync(path)
    if (this.known.has(real)) return
    this.known.add(real)
    this.bytes += size
    this.files.push({ path, real, why, ...(by ? { by } : {}) })
    if (this.files.length <= MAX_FILES && this.bytes <= MAX_BYTES) return
    throw new HarnessError('CLI_PROJECT_TOO_LARGE', `its layer leads to more than ${MAX_FILES} files or 32 MiB`, {
      where: this.folder,
      fix: 'name fewer packages in it, or built ones: every file is looked at when cambium starts',
    })
  }

  /**
   * A path in the project's own texts, which a plugin may take as relative to the file or to the project. Programs and
   * configuration count; notes, logs and databases do not, since whoever named them may mean to write there.
   */
  named(text: string, from: string, why: string): void {
    if (!/^\.{0,2}\//.test(text) || text.includes('\n')) return
    for (const path of [resolve(dirname(from), text), resolve(this.folder, text)]) {
      if (!isProgram(path) || (isAbsolute(text) && !within(realpathSync(path), this.root))) continue
      this.add(path, why)
    }
  }

  async module(specifier: string, from: string, why: string, { row, by }: { row?: string; by?: string }) {
    if (/^(data|node):/.test(specifier) || builtinModules.includes(specifier)) return
    const resolution = await resolveModule(specifier, from)
    const url = 'url' in resolution ? resolution.url : undefined
    const path = url?.startsWith('file:') ? fileURLToPath(url) : undefined
    const isPath = /^(\.{0,2}\/|\.{1,2}$|file:)/.test(specifier)
    const found = url === undefined ? 'nowhere' : path === undefined ? 'installation' : this.placeOf(path)
    if (row !== undefined && !isPath) this.packages.push({ row, name: specifier, found })
    if (path !== undefined && (isPath || found === 'project')) this.add(path, why, by)
  }

  private placeOf(path: string): FoundIn {
    const real = existsSync(path) ? realpathSync(path) : path
    if (within(real, this.installation)) return 'installation'
    return within(real, this.root) ? 'project' : 'elsewhere'
  }

  /** `#name` leads where the nearest manifest says. */
  private ownImports(from: string): void {
    for (let folder = dirname(from); folder !== dirname(folder); folder = dirname(folder)) {
      const manifest = join(folder, 'package.json')
      if (fileSize(manifest) === undefined) continue
      this.add(manifest, 'says what # means in', from)
      for (const path of specifiersIn(readFileSync(manifest, 'utf8')))
        this.add(resolve(folder, path), 'named in', manifest)
      return
    }
  }

  async followImports(): Promise<void> {
    // The list grows while it is walked.
    for (const { path, real } of this.files) {
      if (!/^\.[cm]?[jt]sx?$/.test(extname(real))) continue
      const why = 'imported by'
      const text = readFileSync(real, 'utf8')
      for (const specifier of new Set(specifiersIn(text))) {
        if (isAbsolute(specifier)) this.add(specifier, why, path)
        else if (specifier.startsWith('#')) this.ownImports(real)
        else if (!specifier.startsWith('.')) await this.module(specifier, real, why, { by: path })
        else {
          const leads = candidates(resolve(dirname(real), specifier)).filter(isProgram)
          for (const candidate of leads) this.add(candidate, why, path)
        }
      }
    }
  }
}

/** Texts that begin like a relative path, wherever they stand, and what is imported. */
function* specifiersIn(text: string): Generator<string> {
  for (const [, , path] of text.matchAll(/(['"`])(\.{1,2}\/[^'"`\n$]*)\1/g)) yield path!
  for (const [, , name] of text.matchAll(/\b(?:from|import|require|resolve)\s*\(?\s*(['"])([^'"\n]+)\1/g)) yield name!
}

const TYPED: Readonly<Record<string, readonly string[]>> = {
  '.js': ['.ts', '.tsx'],
  '.jsx': ['.tsx'],
  '.mjs': ['.mts'],
  '.cjs': ['.cts'],
}
const EXTENSIONS = ['.ts', '.tsx', '.mts', '.cts', '.js', '.jsx', '.mjs', '.cjs', '.json']

/** All files that a relative specifier may lead to: which one is taken depends on who loads it. */
function candidates(path: string): string[] {
  const extension = extname(path)
  return [
    path,
    ...(TYPED[extension] ?? []).map(typed => `${path.slice(0, -extension.length)}${typed}`),
    ...EXTENSIONS.map(added => `${path}${added}`),
    ...EXTENSIONS.map(added => join(path, `index${added}`)),
  ]
}

const PROGRAMS = /\.([cm]?[jt]sx?|json5?|ya?ml|toml|sh|bash|zsh|fish|py|rb|pl|php|lua|ps1|bat|cmd|wasm|node|so)$/i

/** By its name, by its mode or by its first two bytes. */
function isProgram(path: string): boolean {
  if (fileSize(path) === undefined) return false
  if (PROGRAMS.test(path) || statSync(path).mode & 0o111) return true
  try {
    const file = openSync(path, 'r')
    const start = Buffer.alloc(2)
    readSync(file, start)
    closeSync(file)
    return start.toString('latin1') === '#!'
  } catch {
    // It cannot be read, so nobody runs it.
    return false
  }
}

function fileSize(path: string): number | undefined {
  try {
    const stats = statSync(path)
    return stats.isFile() ? stats.size : undefined
  } catch {
    // Not there, or not to be reached: whoever loads it says so.
    return undefined
  }
}

const within = (path: string, folder: string) => path === folder || path.startsWith(`${folder}${sep}`)
