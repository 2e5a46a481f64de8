/** All that is wrong with a tree, found without running a plugin. Modules are imported: their top level does run. */

import type { HarnessError } from '@cambium/core'
import { type BootOptions, type LoadedTree, loadTree } from '../boot.ts'
import { strayLayers } from '../file/layers.ts'
import type { TreeSource } from '../file/load.ts'
import { readTree, type TreeFile } from '../file/read.ts'
import { flatten, type Row } from '../file/row.ts'
import { listing } from '../listing.ts'
import { shippedPlugins } from '../modules/installation.ts'
import type { ShippedPlugin } from '../modules/shipped.ts'
import { neededBy } from '../tree/guard.ts'
import { findMissing, type KnownRow } from '../tree/missing.ts'
import { type Prepared, prepareRows, usesOf } from '../tree/prepare.ts'
import { findCycles } from '../tree/services.ts'

export interface TreeCheck {
  /** The tree, as the user named it. */
  readonly label: string
  readonly rows: number
  /** What a start would fail for. */
  readonly mistakes: readonly HarnessError[]
  /** What it would go on with, and what nobody can tell beforehand. */
  readonly warnings: readonly HarnessError[]
}

/** Checks each tree; a layer may concern one of several. @throws only for what is not a mistake of a tree */
export async function checkTrees(sources: readonly TreeSource[], options: BootOptions = {}): Promise<TreeCheck[]> {
  const readings = sources.map(source => readAll(source, { ...options, unmatched: 'report' }))
  const stray = strayLayers(readings.map(({ file }) => file))
  const shipped = await shippedPlugins()
  const { level, write } = options
  const empty = loadTree({ data: [] }, { ...(level && { level }), ...(write && { write }) })
  try {
    const checks: TreeCheck[] = []
    for (const [index, { file, mistakes }] of readings.entries()) {
      const found = await checkRows(file, mistakes, { options, shipped, empty })
      // Of several trees the last one is as good a place as any to say that none has the row.
      const layers = index === readings.length - 1 ? stray : []
      checks.push({ ...found, mistakes: [...mistakes, ...layers, ...found.mistakes] })
    }
    return checks
  } finally {
    await empty.dispose()
  }
}

interface Reading {
  readonly file: TreeFile
  readonly mistakes: readonly HarnessError[]
}

function readAll(source: TreeSource, options: BootOptions): Reading {
  const collect: HarnessError[] = []
  return { file: readTree(source, { ...options, collect }), mistakes: collect }
}

interface CheckContext {
  readonly options: BootOptions
  readonly shipped: readonly ShippedPlugin[]
  /** A tree without rows: it has the services that every tree has. */
  readonly empty: LoadedTree
}

async function checkRows(
  file: TreeFile,
  misread: readonly HarnessError[],
  { options, shipped, empty }: CheckContext,
): Promise<TreeCheck> {
  const all = flatten(file.rows)
  const enabled = all.filter(row => !row.disabled)
  // The first of two rows with one id is sound; the second one was not read.
  const places = misread.flatMap(({ code, where }) => (code === 'TREE_ID_DUPLICATE' ? [] : (where ?? [])))
  const wrong = new Set(enabled.filter(row => places.some(where => where.includes(`(row ${row.id})`))))
  const prepared = await prepareRows(
    enabled.filter(row => !wrong.has(row)),
    { ...options, reloadable: false },
    slow => empty.ctx.logger('loader').warn(`still loading: ${listing(slow.map(({ id, at }) => `${id} (${at})`))}`),
  )
  const byRow = new Map(prepared.map(one => [one.plan.row, one]))
  const rows = enabled.map(row => knownRow(row, byRow.get(row), shipped))
  const offers = { disabled: all.filter(row => row.disabled), shipped }
  const builtin = new Map<string, boolean>()
  const isBuiltin = (service: string) => {
    const known = builtin.get(service) ?? empty.ctx.get(service) !== undefined
    builtin.set(service, known)
    return known
  }
  const wants = findMissing(rows, isBuiltin, offers)
  const told = (required: boolean) =>
    prepared.filter(({ plan }) => plan.row.required === required).flatMap(({ mistakes }) => mistakes)
  return {
    label: file.label,
    rows: all.length,
    mistakes: [...told(true), ...findCycles(usesOf(prepared.map(({ plan }) => plan))), ...wants.mistakes],
    warnings: [...told(false), ...wants.warnings],
  }
}

function knownRow(row: Row, prepared: Prepared | undefined, shipped: readonly ShippedPlugin[]): KnownRow {
  if (row.kind !== 'plugin') return { row, needs: [], provides: [], failed: false }
  // The released package's own paths lead to the same plugins.
  const name = row.name.replace(/^cambium\//, '@cambium/')
  const ours = shipped.find(({ specifier }) => specifier === name)
  const loaded = prepared?.plan.loaded
  const failed = !loaded
  const needs = loaded ? Object.keys(neededBy(loaded.inject, row.inject)) : []
  // Ours declare everything; one from elsewhere that declares nothing, not even an empty list, may still provide.
  const declares = loaded && (loaded.plugin as { provide?: unknown }).provide !== undefined
  const provides = declares ? loaded.provide : ours?.provide
  return { row, needs, provides, failed }
}
