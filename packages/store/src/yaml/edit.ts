/** Changes of a YAML text that touch only the lines meant. */

import { HarnessError, isHarnessError } from '@cambium/core'
import { Layout, Uneditable } from './layout.ts'
import { Misplaced, type Model, type ModelEntry, modelFrom, NOTHING, sameModel } from './model.ts'
import { type ParsedYaml, parseYaml } from './parse.ts'
import { mannerOf } from './render.ts'
import { applySplices, type Path, Splicer } from './splice.ts'

/**
 * `path` are keys and indexes from the root of the document. `value` is data, and may have `Tagged` in it; what is there
 * is changed in place as far as it differs, what is not there is created, maps above it too. An index that is the length
 * of a list appends. Removing what is not there changes nothing. `index` of an insertion is the end when absent.
 */
export type YamlEdit =
  | { readonly path: Path; readonly value: unknown }
  | { readonly path: Path; readonly remove: true }
  | { readonly path: Path; readonly insert: unknown; readonly index?: number }

export interface EditOptions {
  /** The file's name in messages. */
  readonly label: string
}

/** How many single changes one edit may come to before the value is written anew as a whole. */
const MAX_CHANGES = 100

/**
 * The text after the edits. Comments, order, anchors, tags, quotes, line breaks, a byte order mark and the style of what
 * is around stay; JSON stays JSON.
 *
 * @throws `STORE_YAML_SYNTAX` when the text is broken, `STORE_EDIT_PATH` when a path leads through what is no map or list,
 * `STORE_EDIT_UNSAFE` when an edit cannot be written without changing something else, as a value shared by an alias
 */
export function editYaml(text: string, edits: readonly YamlEdit[], { label }: EditOptions): string {
  const mark = text.startsWith('\ufeff') ? '\ufeff' : ''
  let parsed = parseYaml(text.slice(mark.length), label)
  for (const edit of edits) parsed = edited(parsed, edit, label)
  return mark + parsed.text
}

function edited(parsed: ParsedYaml, edit: YamlEdit, label: string): ParsedYaml {
  const intended = intend(parsed, parsed.model, edit, 0)
  if (sameModel(intended, parsed.model)) return parsed
  let failure: unknown
  for (const changes of [detailed(parsed.model, edit), [edit]]) {
    if (changes.length > MAX_CHANGES) continue
    try {
      const next = changes.reduce((before, change) => perform(before, change, label), parsed)
      if (sameModel(intended, next.model)) return next
    } catch (error) {
      failure ??= error
    }
  }
  throw unsafe(parsed, edit, failure)
}

function perform(parsed: ParsedYaml, edit: YamlEdit, label: string): ParsedYaml {
  const { text, doc } = parsed
  const splicer = new Splicer(new Layout(text, doc), mannerOf(doc, text, label))
  const splices =
    'value' in edit
      ? splicer.set(edit.path, modelFrom(edit.value))
      : 'remove' in edit
        ? splicer.remove(edit.path)
        : splicer.insertAt(edit.path, edit.index ?? Number.POSITIVE_INFINITY, modelFrom(edit.insert))
  return parseYaml(applySplices(text, splices), label)
}

/** What the document is to say afterwards. */
function intend(parsed: ParsedYaml, model: Model, edit: YamlEdit, depth: number): Model {
  const key = edit.path[depth]
  if (key === undefined) {
    if ('value' in edit) return modelFrom(edit.value)
    if ('remove' in edit) return NOTHING
    return inserted(parsed, model, edit)
  }
  if (key === '<<') throw pathError(parsed, model, edit, '`<<` is no key of its own')
  const last = depth === edit.path.length - 1
  const next = (inner: Model | undefined) => intend(parsed, inner ?? NOTHING, edit, depth + 1)
  if (model.kind === 'list') {
    const index = Number(key)
    if (!Number.isInteger(index) || index < 0 || index > model.items.length) {
      throw pathError(parsed, model, edit, `a list of ${model.items.length} has no place ${JSON.stringify(key)}`)
    }
    if ('remove' in edit && index === model.items.length) return model
    const items = [...model.items]
    if (last && 'remove' in edit) items.splice(index, 1)
    else items[index] = next(items[index])
    return { ...model, items }
  }
  if (model.kind === 'scalar' && (model.value !== null || model.tag)) {
    throw pathError(parsed, model, edit, 'its path leads through what is neither a map nor a list')
  }
  const entries = model.kind === 'map' ? model.entries : new Map<string, ModelEntry>()
  if ('remove' in edit && !entries.has(`${key}`)) return model
  const changed = new Map(entries)
  if (last && 'remove' in edit) changed.delete(`${key}`)
  else changed.set(`${key}`, { at: model.at, value: next(entries.get(`${key}`)?.value) })
  return { kind: 'map', at: model.at, tag: model.tag, entries: changed }
}

function inserted(parsed: ParsedYaml, model: Model, edit: { path: Path; insert: unknown; index?: number }): Model {
  const isNothing = model.kind === 'scalar' && model.value === null && !model.tag
  if (!isNothing && model.kind !== 'list') throw pathError(parsed, model, edit, 'there is no list to insert into')
  const items = model.kind === 'list' ? [...model.items] : []
  const index = edit.index ?? items.length
  if (!Number.isInteger(index) || index < 0 || index > items.length) {
    throw pathError(parsed, model, edit, `a list of ${items.length} has no place ${index}`)
  }
  items.splice(index, 0, modelFrom(edit.insert))
  return { kind: 'list', at: model.at, tag: model.tag, items }
}

/** One edit as the single changes that it comes to, so that what stays the same is not written again. */
function detailed(model: Model, edit: YamlEdit): YamlEdit[] {
  if (!('value' in edit)) return [edit]
  let at: Model | undefined = model
  for (const key of edit.path) {
    at = at?.kind === 'map' ? at.entries.get(`${key}`)?.value : at?.kind === 'list' ? at.items[Number(key)] : undefined
  }
  return at ? difference(at, edit.value, edit.path) : [edit]
}

function difference(model: Model, value: unknown, path: Path): YamlEdit[] {
  const wanted = modelFrom(value)
  if (sameModel(model, wanted)) return []
  if (model.kind === 'map' && wanted.kind === 'map' && model.tag === wanted.tag && !model.tag) {
    const data = value as Record<string, unknown>
    const gone = [...model.entries.keys()].filter(key => !wanted.entries.has(key))
    // Added first: a map that is emptied in between would lose its place.
    const kept = [...wanted.entries.keys()].flatMap((key): YamlEdit[] => {
      const inner = model.entries.get(key)?.value
      return inner ? difference(inner, data[key], [...path, key]) : [{ path: [...path, key], value: data[key] }]
    })
    return [...kept, ...gone.map((key): YamlEdit => ({ path: [...path, key], remove: true }))]
  }
  if (model.kind === 'list' && wanted.kind === 'list' && model.tag === wanted.tag && !model.tag) {
    return listDifference(model.items, wanted.items, value as unknown[], path)
  }
  return [{ path, value }]
}

function listDifference(
  before: readonly Model[],
  after: readonly Model[],
  data: readonly unknown[],
  path: Path,
): YamlEdit[] {
  const most = Math.min(before.length, after.length)
  let head = 0
  while (head < most && sameModel(before[head]!, after[head]!)) head++
  let tail = 0
  while (tail < most - head && sameModel(before.at(-1 - tail)!, after.at(-1 - tail)!)) tail++
  const gone = before.length - head - tail
  const come = after.length - head - tail
  const both = Math.min(gone, come)
  const edits: YamlEdit[] = []
  for (let i = head; i < head + both; i++) edits.push(...difference(before[i]!, data[i] ?? null, [...path, i]))
  for (let i = head + both; i < head + come; i++) edits.push({ path, insert: data[i] ?? null, index: i })
  for (let i = head + gone - 1; i >= head + both; i--) edits.push({ path: [...path, i], remove: true })
  return edits
}

function pathError(parsed: ParsedYaml, model: Model, { path }: { path: Path }, problem: string) {
  return new HarnessError('STORE_EDIT_PATH', `${pathText(path)} cannot be edited: ${problem}`, {
    where: parsed.placeOf(model.at),
    fix: 'edit the file by hand, or name another path',
  })
}

function unsafe(parsed: ParsedYaml, edit: YamlEdit, failure: unknown) {
  if (isHarnessError(failure) && failure.code === 'JSON_UNSUPPORTED') return failure
  const placed = failure instanceof Uneditable || failure instanceof Misplaced
  const reason = placed ? failure.message : 'something else would change with it'
  return new HarnessError('STORE_EDIT_UNSAFE', `${pathText(edit.path)} cannot be edited safely: ${reason}`, {
    where: parsed.placeOf(failure instanceof Uneditable ? failure.at : placeIn(parsed.model, edit.path)),
    fix: 'edit the file by hand; it is left as it was',
    cause: failure,
  })
}

/** The offset of a path, or the nearest above it that is written. */
export function placeIn(model: Model, path: Path): number {
  let { at } = model
  let here: Model | undefined = model
  for (const key of path) {
    if (here.kind === 'scalar') break
    const entry: ModelEntry | undefined = here.kind === 'map' ? here.entries.get(`${key}`) : undefined
    here = here.kind === 'map' ? entry?.value : here.items[Number(key)]
    if (!here) break
    at = entry?.at ?? here.at
  }
  return at
}

export function pathText(path: Path): string {
  if (!path.length) return 'the document'
  return path.map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i ? '.' : ''}${key}`)).join('')
}
