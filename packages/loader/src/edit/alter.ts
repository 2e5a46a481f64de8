/** A change that a plugin asks for while the tree runs: made in memory, or in the files as well. */

import { dirname } from 'node:path'
import { HarnessError } from '@cambium/core'
import type { TreeFile } from '../file/read.ts'
import type { Row } from '../file/row.ts'
import { labelOf } from '../file/source.ts'
import { readTextFile } from '../file/text-file.ts'
import type { TreeReading } from '../tree/reading.ts'
import type { ChangeOptions, CreateOptions, RowInput, TreeChange } from '../tree/tree-change.ts'
import { creation, isFleeting, laidOver, type RuntimeChange, takeaway, update } from './runtime-change.ts'
import type { Writing } from './write-back.ts'

export type Request =
  | { readonly what: 'create'; readonly row: RowInput; readonly options: CreateOptions }
  | {
      readonly what: 'update'
      readonly id: string
      readonly changes: Partial<RowInput>
      readonly options: ChangeOptions
    }
  | { readonly what: 'remove'; readonly id: string; readonly options: ChangeOptions }

/** Makes the tree what the rows say; `commit` is the last thing that can fail. */
type Apply = (rows: readonly Row[], commit?: () => void) => Promise<TreeChange>

/** @throws HarnessError; the tree and the files are as before then */
export async function alter(
  reading: TreeReading,
  request: Request,
  by: string | undefined,
  apply: Apply,
): Promise<TreeChange> {
  return request.options.persist ? persist(reading, request, by, apply) : remember(reading, request, by, apply)
}

async function remember(reading: TreeReading, request: Request, by: string | undefined, apply: Apply) {
  const change = changeOf(request, reading.current, by)
  const changes = laidOver(reading.changes, change)
  const file = reading.again(changes)
  const done = await apply(file.rows)
  reading.accept(file, changes)
  return done
}

async function persist(reading: TreeReading, request: Request, by: string | undefined, apply: Apply) {
  // What is written is laid over the files as they are, not as they were.
  const file = reading.read()
  const change = changeOf(inPatch(request, reading, file), file, by)
  if (change.kind !== 'create' && isFleeting(change.row)) {
    if (change.kind === 'remove') return remember(reading, request, by, apply)
    throw new HarnessError('LOADER_PERSIST', `the row ${change.row.id} stands in no file yet`, {
      where: change.row.at,
      fix: 'create it with `persist`, or change it without',
    })
  }
  if (change.kind === 'update' && !change.edits.length) return apply(file.rows, () => reading.accept(file))
  const { writingOf } = await import('./write-back.ts')
  const { ensureFolder, replaceFile, requireReplaceable } = await import('@cambium/store')
  const writing = writingOf(reading, file, change)
  if (writing.before === undefined) ensureFolder(dirname(writing.file))
  requireReplaceable(writing.file)
  return apply(writing.read.rows, () => {
    requireUnchanged(writing)
    replaceFile(writing.file, writing.text)
    reading.accept(writing.read, writing.changes)
  })
}

function changeOf(request: Request, file: TreeFile, by: string | undefined): RuntimeChange {
  const asking = { file, by }
  if (request.what === 'create') return creation(request.row, request.options, asking)
  return request.what === 'update' ? update(request.id, request.changes, asking) : takeaway(request.id, asking)
}

/** A patch cannot take a row away that another file has: there it is disabled. */
function inPatch(request: Request, { writeTo }: TreeReading, file: TreeFile): Request {
  if (request.what !== 'remove' || writeTo === undefined) return request
  const row = flatten(file.rows).find(({ id }) => id === request.id)
  if (!row || isFleeting(row) || row.written.spot.source.file === writeTo) return request
  return { ...request, what: 'update', changes: { disabled: true } }
}

/** Draining and starting takes time, in which somebody else may save the file. */
function requireUnchanged({ file, before }: Writing): void {
  let now: string | undefined
  try {
    now = readTextFile(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  if (now === before) return
  throw new HarnessError('LOADER_PERSIST', 'the file was changed by somebody else meanwhile', {
    where: labelOf(file),
    fix: 'try again; the file is as they saved it, and the tree is as before',
  })
}

const flatten = (rows: readonly Row[]): Row[] => rows.flatMap(row => [row, ...flatten(row.children)])
