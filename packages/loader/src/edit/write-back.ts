/**
 * Which text says a change for good: the file of the row, or the patch file for such changes. Of several ways to write
 * it, the first one is taken that, read afresh, gives exactly the rows that are wanted.
 */

import { type HarnessError, isHarnessError } from '@cambium/core'
import { editYaml } from '@cambium/store/yaml'
import type { TreeFile } from '../file/read.ts'
import type { Row } from '../file/row.ts'
import { labelOf } from '../file/source.ts'
import type { TreeReading } from '../tree/reading.ts'
import { sameValue } from './row-edits.ts'
import { type Creation, type RuntimeChange, without } from './runtime-change.ts'
import { waysTo } from './ways.ts'
import { cannot, Texts } from './yaml-places.ts'

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

const flatten = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flatten(row.children)])
