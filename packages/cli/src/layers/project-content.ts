/** All that a project's layer can make happen: the files that have to stay as they were for a trust in it to hold. */

import { closeSync, existsSync, openSync, readFileSync, readSync, realpathSync, statSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, extname, isAbsolute, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { HarnessError } from '@cambium/core'
import {
  type Expression,
  placeOf,
  type Row,
  readTree,
  resolveModule,
  type TreeFile,
  type TreeSource,
  type Value,
} from '@cambium/loader'
import { installed } from '../installation.ts'
import { ownNameTargets, packageCandidates, pathCandidates, type Specifier, specifiersIn } from './module-candidates.ts'

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
function ownTexts({ kind, written }: Row) {
  const seen = new Set<Value>()
  return [...written.entries].flatMap(([key, { value }]) =>
    key === 'name' || (key === 'config' && kind === 'group') ? [] : projectTexts(value, seen),
  )
}

/** Once of a value that aliases repeat. */
function projectTexts(value: Value, seen: Set<Value>): { value: string; from: string; at: string }[] {
  if (seen.has(value)) return []
  seen.add(value)
  if (value.kind === 'map') return [...value.entries.values()].flatMap(entry => projectTexts(entry.value, seen))
  if (value.kind === 'list') return value.items.flatMap(item => projectTexts(item, seen))
  const { layer, file } = value.spot.source
  if (layer !== 'project') return []
  return textsOf(value).map(text => ({ value: text, from: file, at: placeOf(value.spot) }))
}

/** Of an expression, what it may come to as far as that is written in it. */
function textsOf(value: Expression | Extract<Value, { kind: 'scalar' }>): string[] {
  if (value.kind === 'expression' && value.tag === '!js') {
    return [...value.text.matchAll(/(['"`])((?:\\.|(?!\1)[^\\])*)\1/gs)].map(match => match[2]!)
  }
  const text = value.kind === 'expression' ? value.fallback?.value : value.value
  return typeof text === 'string' ? [text] : []
}

/** Longer ones no system takes. */
const MAX_PATH = 4096

/** A text that is a path, and the paths in a line for a shell; in prose of several lines only what can be nothing else. */
function pathsIn(text: string): string[] {
  const words = text.split(/[\s"'`=,;:|&()<>]+/).filter(word => /^\.{0,2}\//.test(word) || !text.includes('\n'))
  const named = words.filter(word => /[./]/.test(word) && word.length <= MAX_PATH)
  return [...new Set([...(text.length <= MAX_PATH && !text.includes('\n') ? [text] : []), ...named])]
}

class Content {
  readonly files: ContentFile[] = []
  readonly packages: { row: string; name: string; found: FoundIn }[] = []
  private readonly folder: string
  private readonly root: string
  private readonly installation = dirname(realpathSync(installed('package.json')))
  private readonly known = new Set<string>()
  /** Real paths of what is loaded as a module, whatever its name ends in. */
  private readonly code = new Set<string>()
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
   * Paths in the project's own texts, which a plugin may take as relative to the file or to the project. Programs and
   * configuration count; notes, logs and databases do not, since whoever named them may mean to write there.
   */
  named(text: string, from: string, why: string): void {
    for (const name of pathsIn(text)) {
      for (const path of [resolve(dirname(from), name), resolve(this.folder, name)]) {
        if (!isProgram(path) || (isAbsolute(name) && !within(realpathSync(path), this.root))) continue
        this.add(path, why)
      }
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
    if (path !== undefined && (isPath || found === 'project')) this.addCode(path, why, by)
    if (isPath || found === 'installation') return
    for (const candidate of packageCandidates(specifier, from)) {
      if (isProgram(candidate) && this.placeOf(candidate) === 'project') this.addCode(candidate, why, by)
    }
  }

  private addCode(path: string, why: string, by?: string): void {
    this.add(path, why, by)
    if (fileSize(path) !== undefined) this.code.add(realpathSync(path))
  }

  private placeOf(path: string): FoundIn {
    const real = existsSync(path) ? realpathSync(path) : path
    if (within(real, this.installation)) return 'installation'
    return within(real, this.root) ? 'project' : 'elsewhere'
  }

  async followImports(): Promise<void> {
    // The list grows while it is walked.
    for (const { path, real } of this.files) {
      if (!this.code.has(real) && !/^\.[cm]?[jt]sx?$/.test(extname(real))) continue
      for (const specifier of specifiersIn(readFileSync(real, 'utf8'))) await this.follow(specifier, real, path)
    }
  }

  private async follow({ text, imported }: Specifier, from: string, by: string): Promise<void> {
    const why = 'imported by'
    if (text.startsWith('.')) {
      const path = resolve(dirname(from), text)
      if (imported) this.addCode(path, why, by)
      for (const candidate of pathCandidates(path).filter(isProgram)) this.add(candidate, why, by)
    } else if (text.startsWith('#')) {
      const own = ownNameTargets(text, from)
      if (!own) return
      this.add(own.manifest, 'says what # means in', by)
      for (const target of own.targets) await this.follow({ text: target, imported: true }, own.manifest, by)
    } else if (isAbsolute(text)) this.addCode(text, why, by)
    else await this.module(text, from, why, { by })
  }
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
