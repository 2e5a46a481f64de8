/** What `ctx.loader.create`, `update` and `remove` ask for, as a layer over the rows that were read. */

import { HarnessError } from '@cambium/core'
import { type Insertion, type Override, type Removal, unknownTarget } from '../file/layers.ts'
import type { TreeFile } from '../file/read.ts'
import type { Row } from '../file/row.ts'
import type { Source, Spot } from '../file/source.ts'
import { fromData } from '../file/value.ts'
import { fileNamed } from '../modules/resolve.ts'
import type { CreateOptions, RowInput } from '../tree/tree-change.ts'
import { applyEdits, editsOf, type RowEdit } from './row-edits.ts'

export interface Creation {
  readonly kind: 'create'
  readonly id: string
  /** The row as it is to be written, with its id. */
  readonly row: RowInput
  /** The group or include that it lies in. */
  readonly parent: Row | undefined
  readonly anchor: { readonly relation: 'before' | 'after'; readonly row: Row } | undefined
  readonly layer: Insertion
}

export interface Update {
  readonly kind: 'update'
  readonly row: Row
  readonly edits: readonly RowEdit[]
  readonly layer: Override
}

export interface Takeaway {
  readonly kind: 'remove'
  readonly row: Row
  readonly layer: Removal
}

export type RuntimeChange = Creation | Update | Takeaway

/** Who asks, for messages about what was not written in a file. */
export interface Asking {
  readonly file: TreeFile
  readonly by: string | undefined
}

export function creation(input: RowInput, options: CreateOptions, asking: Asking): Creation {
  const { file } = asking
  const { into, before, after } = options
  if ([into, before, after].filter(id => id !== undefined).length > 1) {
    throw misuse('create', 'a new row stands in one place', 'pass one of `into`, `before` and `after`', asking)
  }
  const relation = before === undefined ? 'after' : 'before'
  const beside = before ?? after
  const anchor = beside === undefined ? undefined : ({ relation, row: rowOf(beside, 'create', asking) } as const)
  const parentId = into ?? anchor?.row.parent
  const parent = parentId === undefined ? undefined : rowOf(parentId, 'create', asking)
  if (parent?.kind === 'plugin') {
    throw misuse('create', `${parent.id} is no group`, '`into` names a group or an include', asking)
  }
  const rows = flatten(file.rows)
  const own = input.id ?? freeId(input.name, parent, rows)
  const id = parent ? `${parent.id}:${own}` : own
  const clash = rows.find(other => other.id.toLowerCase() === id.toLowerCase())
  if (clash) {
    throw new HarnessError('TREE_ID_DUPLICATE', `the id "${clash.id}" is taken`, {
      where: `${clash.at} (row ${clash.id})`,
      fix: 'give the new row another id, or update the one that is there',
    })
  }
  const source = sourceOf(anchor ? fileOf(anchor.row) : listFileOf(parent, file), 'create', asking)
  const spot = { source, offset: 0 }
  const { id: _given, ...rest } = input
  const row = { id: own, ...rest }
  const layer: Insertion = {
    kind: 'insert',
    spot,
    rows: { kind: 'list', spot, items: [fromData(row, source)] },
    anchor: anchor ? { relation, id: anchor.row.id } : parent && { relation: 'into', id: parent.id },
    otherwise: parent?.id ?? '',
    fleeting: true,
    used: false,
  }
  return { kind: 'create', id, row, parent, anchor, layer }
}

export function update(id: string, changes: Partial<RowInput>, asking: Asking): Update {
  const row = rowOf(id, 'update', asking)
  if ('id' in changes) {
    throw misuse(
      'update',
      'the id of a row cannot be changed',
      'remove the row, and create one with the new id',
      asking,
    )
  }
  if (row.kind === 'group' && 'config' in changes) {
    const fix = 'create, update and remove the rows in it'
    throw misuse('update', `the config of the group ${id} are its rows`, fix, asking)
  }
  const source = sourceOf(fileOf(row), 'update', asking)
  const edits = editsOf(row.written, changes, { evaluate: asking.file.evaluate, source })
  return updateOf(row, edits, { source, offset: 0 })
}

function updateOf(row: Row, edits: readonly RowEdit[], spot: Spot): Update {
  const change: Override['change'] = map => applyEdits(map, edits, spot)
  const layer: Override = { kind: 'override', id: row.id, spot, change, fleeting: true, used: false }
  return { kind: 'update', row, edits, layer }
}

export function takeaway(id: string, asking: Asking): Takeaway {
  const row = rowOf(id, 'remove', asking)
  const spot = { source: sourceOf(fileOf(row), 'remove', asking), offset: 0 }
  return { kind: 'remove', row, layer: { kind: 'remove', id, spot, fleeting: true, used: false } }
}

/** What is in effect once `change` is made at run time. */
export function laidOver(changes: readonly RuntimeChange[], change: RuntimeChange): RuntimeChange[] {
  if (change.kind !== 'remove') return [...changes, change]
  const left = without(changes, change)
  // A row that was only added at run time is gone with the change that added it.
  return isFleeting(change.row) ? left : [...left, change]
}

/** What stays in effect once `change` is written to a file, whose word the others must not overrule. */
export function without(changes: readonly RuntimeChange[], change: RuntimeChange): RuntimeChange[] {
  if (change.kind === 'create') return [...changes]
  const { id } = change.row
  if (change.kind === 'remove') {
    return changes.filter(other => !isWithin(other.kind === 'create' ? other.id : other.row.id, id))
  }
  return changes.flatMap(other => {
    if (other.kind !== 'update' || other.row.id !== id) return other
    const edits = other.edits.filter(({ path }) => !change.edits.some(edit => overlap(edit.path, path)))
    return edits.length ? updateOf(other.row, edits, other.layer.spot) : []
  })
}

const isWithin = (id: string, group: string) => id === group || id.startsWith(`${group}:`)

function overlap(a: readonly string[], b: readonly string[]): boolean {
  const shared = Math.min(a.length, b.length)
  return a.slice(0, shared).every((key, at) => key === b[at])
}

/** Whether a row stands in no file: it was added at run time. */
export const isFleeting = ({ written }: Row): boolean => written.spot.source.layer === RUNTIME

/** Whose text it is that no file has. */
const RUNTIME = 'runtime'

function rowOf(id: string, what: RuntimeChange['kind'], asking: Asking): Row {
  const rows = flatten(asking.file.rows)
  const row = rows.find(other => other.id === id)
  if (row) return row
  const spot = { source: sourceOf(asking.file.file, what, asking), offset: 0 }
  throw unknownTarget(
    id,
    rows.map(other => other.id),
    spot,
  )
}

function sourceOf(file: string, what: RuntimeChange['kind'], { by }: Asking): Source {
  return { file, label: `ctx.loader.${what}()${by === undefined ? '' : ` of ${by}`}`, layer: RUNTIME }
}

/** The file that a row was written in, which its relative names are relative to. */
const fileOf = ({ written }: Row): string => written.spot.source.file

/** The file whose list the rows of `parent` are. */
export function listFileOf(parent: Row | undefined, { file }: TreeFile): string {
  if (!parent) return file
  if (parent.kind === 'group') return parent.written.entries.get('config')?.value.spot.source.file ?? fileOf(parent)
  return includedFile(parent) ?? fileOf(parent)
}

/** The file that an include names. */
export function includedFile({ written, config }: Row): string | undefined {
  const value = written.entries.get('config')?.value
  const spot = value?.kind === 'map' ? value.entries.get('path')?.value.spot : undefined
  const path = (config as { path?: unknown } | undefined)?.path
  return spot && typeof path === 'string' ? fileNamed(path, spot.source.file) : undefined
}

/** `bash` for `@cambium/toolbox/bash` and for `./bash.ts`, with a number when that is taken. */
function freeId(name: string, parent: Row | undefined, rows: readonly Row[]): string {
  const base =
    String(name)
      .split('/')
      .at(-1)!
      .replace(/\.\w+$/, '')
      .replaceAll(':', '-') || 'row'
  const taken = new Set(rows.map(({ id }) => id.toLowerCase()))
  const full = (own: string) => (parent ? `${parent.id}:${own}` : own).toLowerCase()
  let own = base
  for (let count = 2; taken.has(full(own)); count++) own = `${base}-${count}`
  return own
}

function misuse(what: RuntimeChange['kind'], problem: string, fix: string, asking: Asking): HarnessError {
  const { label } = sourceOf(asking.file.file, what, asking)
  return new HarnessError('LOADER_CHANGE', problem, { where: label, fix })
}

const flatten = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flatten(row.children)])
