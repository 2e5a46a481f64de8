/** The ways to write a change: which file, and which edits of its text. Each fails by throwing. */

import { type Model, Tagged, type YamlEdit } from '@cambium/store/yaml'
import type { TreeFile } from '../file/read.ts'
import type { Row } from '../file/row.ts'
import type { Spot } from '../file/source.ts'
import type { Expression, Value } from '../file/value.ts'
import type { RowEdit } from './row-edits.ts'
import {
  type Creation,
  includedFile,
  listFileOf,
  type RuntimeChange,
  type Takeaway,
  type Update,
} from './runtime-change.ts'
import { cannot, entriesOf, type Place, scalarAt, type Texts } from './yaml-places.ts'

/** One way to write a change. */
interface Way {
  readonly file: string
  readonly edits: readonly YamlEdit[]
}

export function* waysTo(change: RuntimeChange, texts: Texts, file: TreeFile): Generator<() => Way> {
  const { writeTo } = texts
  if (change.kind === 'create') {
    yield () => (writeTo === undefined ? asListItem(change, texts, file) : asInsertion(change, texts, writeTo))
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
  texts.requireLasting(change.row, change)
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

function asInsertion(change: Creation, texts: Texts, file: string): Way {
  const { row, parent, anchor } = change
  for (const other of [parent, anchor?.row]) if (other) texts.requireLasting(other, change)
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
  const { tag, spelt = tag, text, fallback }: Expression = value
  return new Tagged(spelt, fallback ? [text, fallback.value] : text)
}

const withoutUndefined = (row: object) =>
  Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined))
