/** What trusting a project would mean, as it is shown before somebody does. */

import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Row, Spot } from '@cambium/loader'
import { PROJECT_FOLDER } from '@cambium/store'
import type { TrustState, TrustStore } from '@cambium/store/trust'
import { escapeControls, jsonText, oneLine, plural } from '../printable.ts'
import type { LayerOptions } from './layer.ts'
import { isPresent, projectLayer, shippedTree, userLayer } from './layers.ts'
import { allRows, type ContentFile, type FoundIn, readProject } from './project-content.ts'
import { TreeView } from './show-tree.ts'
import { expressionText, scalarText, type Written } from './tree-yaml.ts'

export interface PlanFile extends ContentFile {
  /** Against what was trusted before. */
  readonly state: 'new' | 'changed' | 'same'
}

export interface PlanRow {
  readonly id: string
  readonly action: 'adds' | 'changes'
  readonly at: string
  /** What the project's files say of it: its name, the values, expressions as they are written. */
  readonly values: readonly { readonly path: string; readonly value: string; readonly at: string }[]
}

export interface Plan {
  /** Real path. */
  readonly folder: string
  readonly state: TrustState
  readonly files: readonly PlanFile[]
  readonly rows: readonly PlanRow[]
  readonly packages: readonly { readonly row: string; readonly name: string; readonly found: FoundIn }[]
  /** Of the content of all files, in order. */
  readonly digest: string
}

/** Undefined when the project has nothing that would need trust. Runs nothing. @throws the mistakes of the layers */
export async function planOf(folder: string, store: TrustStore, env: LayerOptions['env']): Promise<Plan | undefined> {
  const layer = projectLayer(folder)
  const settings = join(folder, PROJECT_FOLDER, 'settings.yml')
  const own: ContentFile[] = existsSync(settings)
    ? // Known by its own name, which is how the plugin asks for it.
      [{ path: settings, real: settings, why: "the project's settings" }]
    : []
  const user = userLayer(env)
  const content = isPresent(layer)
    ? await readProject({
        folder,
        layer: { file: layer, layer: 'project' },
        tree: shippedTree(),
        below: isPresent(user) ? [{ file: user, layer: 'user' }] : [],
      })
    : undefined
  if (!content && !own.length) return undefined
  const found = [
    ...(content?.files ?? []),
    ...own.filter(file => !content?.files.some(({ real }) => real === file.real)),
  ]
  const before = new Set(store.list().find(entry => entry.folder === folder)?.files)
  const files = found.map((file): PlanFile => {
    const state = store.check(folder, [file.real])
    return {
      ...file,
      state: state === 'trusted' ? 'same' : before.has(relativeTo(folder, file.real)) ? 'changed' : 'new',
    }
  })
  const view = new TreeView({ env, cwd: folder })
  return {
    folder,
    state: store.check(
      folder,
      found.map(({ real }) => real),
    ),
    files,
    rows: content ? allRows(content.tree.rows).flatMap(row => rowOf(row, view)) : [],
    packages: content?.packages ?? [],
    digest: digestOf(found),
  }
}

const relativeTo = (folder: string, file: string) =>
  file.startsWith(`${folder}/`) ? file.slice(folder.length + 1) : file

function digestOf(files: readonly ContentFile[]): string {
  const hash = createHash('sha256')
  for (const { real } of files) {
    const content = readFileSync(real)
    hash.update(`${real}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex')
}

function rowOf(row: Row, view: TreeView): PlanRow[] {
  const added = isProject(row.written.spot)
  const { entries } = view.alone(row)
  const values = entries.flatMap(([key, part]) => (key === 'id' ? [] : [...leaves(key, part)]))
  const own = values.filter(({ spot }) => isProject(spot))
  if (!added && !own.length) return []
  return [
    {
      id: row.id,
      action: added ? 'adds' : 'changes',
      at: view.at(added ? row.written.spot : own[0]!.spot),
      values: own.map(({ path, value, spot }) => ({ path, value, at: view.at(spot) })),
    },
  ]
}

const isProject = ({ source }: Spot) => source.layer === 'project'

function* leaves(path: string, part: Written): Generator<{ path: string; value: string; spot: Spot }> {
  if (part.kind === 'map' && part.entries.length) {
    for (const [key, item] of part.entries) yield* leaves(`${path}.${key}`, item)
  } else if (part.kind === 'list' && part.items.length) {
    for (const [index, item] of part.items.entries()) yield* leaves(`${path}.${index}`, item)
  } else if (part.spot) {
    const value =
      part.kind === 'scalar'
        ? scalarText(part.value)
        : part.kind === 'expression'
          ? expressionText(part.source)
          : part.kind === 'map'
            ? '{}'
            : '[]'
    yield { path, value, spot: part.spot }
  }
}

/** Longer ones are cut: the file is there to be read. */
const MAX_VALUE = 120

export function describePlan({ folder, state, files, rows, packages }: Plan, view: TreeView): string {
  const lines = [`${escapeControls(folder)}: ${STATES[state]}`]
  const marks = { new: state === 'changed' ? '  (new)' : '', changed: '  (changed)', same: '' }
  lines.push('', `${plural(files.length, 'file')}:`)
  for (const { path, why, by, state: own } of files) {
    lines.push(`  ${view.path(path)}  ${escapeControls(why)}${by ? ` ${view.path(by)}` : ''}${marks[own]}`)
  }
  if (rows.length) lines.push('', 'what the layer does:')
  for (const { id, action, at, values } of rows) {
    lines.push(`  ${action} ${escapeControls(id)}  (${at})`)
    for (const { path, value } of values) lines.push(`    ${escapeControls(path)}: ${oneLine(value, MAX_VALUE)}`)
  }
  const others = packages.filter(({ found }) => found !== 'installation')
  if (others.length) lines.push('', 'packages that rows name:')
  for (const { row, name, found } of others)
    lines.push(`  ${escapeControls(name)}  (row ${escapeControls(row)}) ${FOUND[found]}`)
  if (rows.length) {
    lines.push(
      '',
      'Code that a row names runs as you, with your files and keys, each time cambium works in this folder.',
    )
  }
  return `${lines.join('\n')}\n`
}

const STATES: Readonly<Record<TrustState, string>> = {
  trusted: 'trusted',
  changed: 'has changed since it was trusted',
  unknown: 'not trusted',
}

const FOUND: Readonly<Record<FoundIn, string>> = {
  installation: 'comes with cambium',
  project: 'is in the project: its files count',
  elsewhere: 'lies outside of the project: its files do not count, and may change without a question',
  nowhere: 'is not there yet',
}

export const planReport = ({ folder, state, files, rows, packages }: Plan, trusted: boolean): string =>
  jsonText({ folder, state, trusted, files, rows, packages }, 2)
