/**
 * Which text says a change for good: the file of the row, or the patch file for such changes. Of several ways to write
 * it, the first one is taken that, read afresh, gives exactly the rows that are wanted.
 */

import { HarnessError, isHarnessError } from '@cambium/core'
import { editYaml, type Model, parseYaml, Tagged, type YamlEdit } from '@cambium/store/yaml'
import type { TreeFile } from './read.ts'
import type { TreeReading } from './reading.ts'
import type { Row } from './row.ts'
import { type RowEdit, sameValue } from './row-edits.ts'
import {
  type Creation,
  includedFile,
  listFileOf,
  type RuntimeChange,
  type Takeaway,
  type Update,
  without,
} from './runtime-change.ts'
import { labelOf, type Spot } from './source.ts'
import { readTextFile } from './text-file.ts'
import type { Expression, Value } from './value.ts'

export interface Writing {
  readonly file: string
  /** What the file says now; undefined when it is not there yet. */
  readonly before: string | undefined
  readonly text: string
  /** The tree as it is read then. */
  readonly read: TreeFile
  /** What stays in effect of the changes that are in no file. */
  readonly changes: readonly RuntimeChange[]
}

/** One way to write a change. */
interface Way {
  readonly file: string
  readonly edits: readonly YamlEdit[]
}

/**
 * @param file the files as they are
 * @throws `LOADER_PERSIST` when no text says the change and nothing else, and what reading or editing one is refused with
 */
export function writingOf(reading: TreeReading, file: TreeFile, change: RuntimeChange): Writing {
  const texts = new Texts(reading, file)
  const changes = without(reading.changes, change)
  const wanted = change.kind === 'create' ? undefined : reading.read([...changes, change])
  let failure: HarnessError | undefined
  for (const way of waysTo(change, texts, file)) {
    try {
      const { file: path, edits } = way()
      const before = texts.get(path)
      const text = editYaml(before ?? '', edits, { label: labelOf(path) })
      const read = reading.read(changes, new Map([[path, text]]))
      if (wanted ? sameRows(read.rows, wanted.rows) : addsOnly(read.rows, file.rows, change as Creation)) {
        return { file: path, before, text, read, changes }
      }
    } catch (error) {
      if (!isHarnessError(error)) throw error
      failure ??= error
    }
  }
  throw (
    failure ??
    cannot(change, 'no place in its files says this row and nothing else: another layer or an alias has a part in it')
  )
}

function* waysTo(change: RuntimeChange, texts: Texts, file: TreeFile): Generator<() => Way> {
  const { writeTo } = texts
  if (change.kind === 'create') {
    yield () => (writeTo === undefined ? asListItem(change, texts, file) : asInsertion(change, writeTo))
  } else if (change.kind === 'remove') {
    yield () => takenOut(change, texts)
  } else if (writeTo !== undefined && change.row.written.spot.source.file !== writeTo) {
    yield () => asOverride(change, texts, writeTo)
  } else {
    yield () => atTheValues(change, texts)
    yield () => atTheRow(change, texts)
  }
}

/** Each value where it stands now, be that in a patch that has the last word on it. */
function atTheValues(change: Update, texts: Texts): Way {
  return inOneFile(
    change,
    change.edits.map(edit => {
      const spot = entryAt(change.row, edit.path)?.spot
      return spot ? edited(texts.placeOfKey(spot, edit.path.at(-1)!, change), edit) : editInRow(change, edit, texts)
    }),
  )
}

function atTheRow(change: Update, texts: Texts): Way {
  return inOneFile(
    change,
    change.edits.map(edit => editInRow(change, edit, texts)),
  )
}

function editInRow(change: Update, edit: RowEdit, texts: Texts): Way {
  const { file, path } = texts.placeOfMap(change.row.written.spot, change)
  return edited({ file, path: [...path, ...edit.path] }, edit)
}

function edited({ file, path }: Place, { value }: RowEdit): Way {
  return { file, edits: [value ? { path, value: yamlOf(value) } : { path, remove: true }] }
}

/** Two files cannot be replaced at the same moment. */
function inOneFile(change: RuntimeChange, ways: readonly Way[]): Way {
  const [first, ...others] = ways
  const other = others.find(({ file }) => file !== first?.file)
  if (!first || other) throw cannot(change, 'its values stand in several files; change those of one file at a time')
  return { file: first.file, edits: ways.flatMap(({ edits }) => edits) }
}

/** An item of the patch file for such changes that has the last word on the row. */
function asOverride(change: Update, texts: Texts, file: string): Way {
  const { id, written } = change.row
  const items = texts.items(file)
  const at = items.findLastIndex(item => scalarAt(item, 'id') === id && !entriesOf(item)?.has('insert'))
  const edits = change.edits.map(({ path, value }): RowEdit & { yaml: unknown } => {
    const yaml = value && yamlOf(value)
    // In a patch, maps are merged.
    const merged = path[0] === 'config' && value?.kind === 'map' && entryAt({ written }, path)?.value.kind === 'map'
    return { path, value, yaml: merged ? { $replace: yaml } : yaml }
  })
  const gone = edits.find(({ path, value }) => !value && !(at >= 0 && modelAt(items[at]!, path)))
  if (gone) throw cannot(change, `a patch cannot take \`${gone.path.join('.')}\` away; give it another value`)
  if (at < 0) {
    const item: Record<string, unknown> = { id }
    for (const { path, yaml } of edits) put(item, path, yaml)
    return { file, edits: [{ path: [], insert: item }] }
  }
  return {
    file,
    edits: edits.map(({ path, value, yaml }) => {
      const inside = [at, ...throughReplace(items[at]!, path)]
      return value ? { path: inside, value: yaml } : { path: inside, remove: true }
    }),
  }
}

/** The same path, through the `$replace` that stands on its way in the patch. */
function throughReplace(item: Model, path: readonly string[]): string[] {
  let at: Model | undefined = item
  return path.flatMap(key => {
    const replaced: Model | undefined = entriesOf(at)?.get('$replace')?.value
    at = entriesOf(replaced ?? at)?.get(key)?.value
    return replaced ? ['$replace', key] : [key]
  })
}

function asInsertion({ row, parent, anchor }: Creation, file: string): Way {
  const place = anchor ? { [anchor.relation]: anchor.row.id } : parent ? { into: parent.id } : {}
  return { file, edits: [{ path: [], insert: { insert: [withoutUndefined(row)], ...place } }] }
}

function asListItem(change: Creation, texts: Texts, tree: TreeFile): Way {
  const { parent, anchor } = change
  const insert = withoutUndefined(change.row)
  if (anchor) {
    const { file, path } = texts.placeOfMap(anchor.row.written.spot, change)
    const index = Number(path.at(-1)) + (anchor.relation === 'after' ? 1 : 0)
    return { file, edits: [{ path: path.slice(0, -1), insert, index }] }
  }
  if (parent?.kind !== 'group') {
    const file = parent ? (includedFile(parent) ?? '') : tree.file
    if (!tree.files.includes(file)) throw cannot(change, 'the rows there stand in no file')
    return { file: listFileOf(parent, tree), edits: [{ path: [], insert }] }
  }
  const list = entryAt(parent, ['config'])
  if (list && list.value.kind === 'list') {
    const { file, path } = texts.placeOfKey(list.spot, 'config', change)
    return { file, edits: [{ path, insert }] }
  }
  const { file, path } = texts.placeOfMap(parent.written.spot, change)
  return { file, edits: [{ path: [...path, 'config'], value: [insert] }] }
}

function takenOut(change: Takeaway, texts: Texts): Way {
  const { id, written } = change.row
  const { file, path } = texts.placeOfMap(written.spot, change)
  if (path[1] !== 'insert') return { file, edits: [{ path, remove: true }] }
  // In a patch: what is laid over the row goes with it, and so does an insertion of nothing else.
  const items = texts.items(file)
  const about = items.flatMap((item, index) => {
    const target = scalarAt(item, 'id')
    const within = target === id || (typeof target === 'string' && target.startsWith(`${id}:`))
    return within && !entriesOf(item)?.has('insert') ? [[index]] : []
  })
  const rows = entriesOf(items[Number(path[0])])?.get('insert')?.value
  const gone = rows?.kind === 'list' && rows.items.length === 1 ? path.slice(0, 1) : path
  const last = [...about, gone].sort(([a], [b]) => Number(b) - Number(a))
  return { file, edits: last.map(item => ({ path: item, remove: true })) }
}

interface Place {
  readonly file: string
  readonly path: readonly (string | number)[]
}

/** The texts of the tree's files, and where things stand in them. */
class Texts {
  readonly writeTo: string | undefined
  private readonly tree: TreeFile
  private readonly texts = new Map<string, string | undefined>()
  private readonly models = new Map<string, Model>()

  constructor({ writeTo }: TreeReading, tree: TreeFile) {
    this.writeTo = writeTo
    this.tree = tree
  }

  /** Undefined when there is no such file. */
  get(file: string): string | undefined {
    if (!this.texts.has(file)) this.texts.set(file, readIfThere(file))
    return this.texts.get(file)
  }

  /** The items of the list that the file is. */
  items(file: string): readonly Model[] {
    const model = this.model(file)
    return model.kind === 'list' ? model.items : []
  }

  placeOfMap(spot: Spot, change: RuntimeChange): Place {
    return this.place(spot, change, ({ at, kind }) => kind === 'map' && at === spot.offset)
  }

  placeOfKey(spot: Spot, key: string, change: RuntimeChange): Place {
    return this.place(spot, change, (_value, own, at) => own === key && at === spot.offset)
  }

  private place({ source }: Spot, change: RuntimeChange, fits: Fits): Place {
    const { file, text, label } = source
    if (text === undefined || !this.tree.files.includes(file)) {
      throw cannot(change, `it is said by ${label}, which is no file and would go on overruling what a file says`)
    }
    const path = this.get(file)?.replace(/^\ufeff/, '') === text ? pathTo(this.model(file), fits) : undefined
    if (!path) throw cannot(change, `its place in ${label} cannot be found any more`)
    return { file, path }
  }

  private model(file: string): Model {
    const text = (this.get(file) ?? '').replace(/^\ufeff/, '')
    const model = this.models.get(file) ?? parseYaml(text, labelOf(file)).model
    this.models.set(file, model)
    return model
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readTextFile(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new HarnessError('TREE_FILE_UNREADABLE', `${labelOf(file)} cannot be read`, {
      where: labelOf(file),
      cause: error,
    })
  }
}

type Fits = (value: Model, key: string | number | undefined, keyAt: number | undefined) => boolean

/** The first path whose end fits; an alias is followed only where its anchor was not seen, so at the anchor itself. */
function pathTo(root: Model, fits: Fits): (string | number)[] | undefined {
  const seen = new Set<Model>()
  const search = (model: Model, path: (string | number)[], keyAt?: number): (string | number)[] | undefined => {
    if (fits(model, path.at(-1), keyAt)) return path
    if (model.kind === 'scalar' || seen.has(model)) return undefined
    seen.add(model)
    if (model.kind === 'list') {
      for (const [index, item] of model.items.entries()) {
        const found = search(item, [...path, index])
        if (found) return found
      }
      return undefined
    }
    for (const [key, { at, value }] of model.entries) {
      const found = search(value, [...path, key], at)
      if (found) return found
    }
    return undefined
  }
  return search(root, [])
}

const entriesOf = (model: Model | undefined) => (model?.kind === 'map' ? model.entries : undefined)

function scalarAt(model: Model, key: string): unknown {
  const value = entriesOf(model)?.get(key)?.value
  return value?.kind === 'scalar' ? value.value : undefined
}

function modelAt(model: Model, path: readonly string[]): Model | undefined {
  const way = throughReplace(model, path)
  return way.reduce<Model | undefined>((at, key) => entriesOf(at)?.get(key)?.value, model)
}

function entryAt({ written }: Pick<Row, 'written'>, path: readonly string[]) {
  let value: Value | undefined = written
  let entry: { readonly spot: Spot; readonly value: Value } | undefined
  for (const key of path) {
    entry = value?.kind === 'map' ? value.entries.get(key) : undefined
    value = entry?.value
  }
  return entry
}

function put(item: Record<string, unknown>, [key, ...rest]: readonly string[], value: unknown): void {
  if (!rest.length) {
    item[key!] = value
    return
  }
  item[key!] ??= {}
  put(item[key!] as Record<string, unknown>, rest, value)
}

/** A value as it is to be written, expressions as such. */
function yamlOf(value: Value): unknown {
  if (value.kind === 'scalar') return value.value
  if (value.kind === 'list') return value.items.map(yamlOf)
  if (value.kind === 'map') {
    return Object.fromEntries([...value.entries].map(([key, entry]) => [key, yamlOf(entry.value)]))
  }
  const { tag, text, fallback }: Expression = value
  return new Tagged(tag, fallback ? [text, fallback.value] : text)
}

const withoutUndefined = (row: object) =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined))

function sameRows(a: readonly Row[], b: readonly Row[]): boolean {
  const others = flatten(b)
  const rows = flatten(a)
  return rows.length === others.length && rows.every((row, at) => sameRow(row, others[at]!))
}

/** The new row is there as it was given, and nothing else is different. */
function addsOnly(rows: readonly Row[], before: readonly Row[], { id, parent, layer }: Creation): boolean {
  const isNew = (row: Row) => row.id === id || row.id.startsWith(`${id}:`)
  const all = flatten(rows)
  const added = all.find(row => row.id === id)
  if (added?.parent !== parent?.id || !sameValue(added?.written, layer.rows.items[0])) return false
  const others = all.filter(row => !isNew(row))
  const former = flatten(before)
  return others.length === former.length && others.every((row, at) => sameRow(row, former[at]!))
}

function sameRow(a: Row, b: Row): boolean {
  if (a.id !== b.id || a.kind !== b.kind || a.disabled !== b.disabled || a.required !== b.required) return false
  if (a.from !== b.from && /^\.{1,2}\//.test(a.name)) return false
  const keys = new Set([...a.written.entries.keys(), ...b.written.entries.keys()])
  // The rows of a group are compared by themselves.
  if (a.kind === 'group') keys.delete('config')
  return [...keys].every(key => sameValue(a.written.entries.get(key)?.value, b.written.entries.get(key)?.value))
}

function cannot(change: RuntimeChange, problem: string): HarnessError {
  const row = change.kind === 'create' ? undefined : change.row
  return new HarnessError('LOADER_PERSIST', `the change cannot be written to a file: ${problem}`, {
    where: row ? `${row.at} (row ${row.id})` : `the new row ${(change as Creation).id}`,
    fix: 'edit the file by hand; nothing was written, and the tree is as before',
  })
}

const flatten = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flatten(row.children)])
