/** `cambium config show`: the tree after all layers, with the source of every value. */

import { nearest } from '@cambium/core'
import { type Row, readTree } from '@cambium/loader'
import { EXIT } from './exit-code.ts'
import { usageError } from './flags.ts'
import type { Host } from './host.ts'
import type { LayerOptions } from './layers/layer.ts'
import { findLayers, type Layers, withWayOut } from './layers/layers.ts'
import { allRows } from './layers/project-content.ts'
import { TreeView } from './layers/show-tree.ts'
import { yamlOf } from './layers/tree-yaml.ts'
import { jsonText } from './printable.ts'
import { lookAt } from './surface.ts'

export interface ConfigRequest {
  readonly layers: LayerOptions
  readonly json: boolean
  /** Of the rows that are asked for; none means all. */
  readonly ids: readonly string[]
}

/** @throws the mistakes of the layers, as a run does; `CLI_USAGE` for a row that there is not */
export async function show({ layers: options, json, ids }: ConfigRequest, host: Host): Promise<number> {
  const layers = await findLayers(options)
  let rows: readonly Row[]
  try {
    if (layers.failure) throw layers.failure
    rows = readTree(layers.tree, { patches: layers.patches, set: layers.set, env: options.env, inspect: true }).rows
  } catch (error) {
    throw withWayOut(error, layers)
  }
  const wanted = ids.length ? ids.map(id => find(id, rows)) : rows
  const view = new TreeView({ env: options.env, cwd: options.cwd, rows })
  if (json) {
    const files = layers.files.map(({ layer, file, state, problem }) => ({ layer, file, state, problem }))
    host.stdout.write(jsonText({ layers: files, rows: wanted.map(row => view.json(row)) }, 2))
    return EXIT.done
  }
  const { color } = lookAt(host.stdout, host.env)
  const dim = color ? (await import('picocolors')).default.createColors(true).dim : (text: string) => text
  const text = yamlOf(
    wanted.map(row => view.row(row, row.parent === undefined ? undefined : row.id)),
    dim,
  )
  host.stdout.write(`${header(layers, view).map(dim).join('\n')}\n\n${text}`)
  return EXIT.done
}

function header({ files, notice }: Layers, view: TreeView): string[] {
  const width = Math.max(...files.map(({ layer }) => layer.length))
  return [
    '# The tree that `cambium run` mounts here, with one row more that has the task. Nothing was evaluated or run.',
    ...files.map(({ layer, file, state }) => {
      const fate = state === 'applied' ? '' : `  (${state})`
      return `#   ${layer.padEnd(width)}  ${view.path(file)}${fate}`
    }),
    ...(notice ? [`# Note: ${notice}`] : []),
  ]
}

function find(id: string, rows: readonly Row[]): Row {
  const all = allRows(rows)
  const found = all.find(row => row.id === id)
  if (found) return found
  const known = all.map(row => row.id)
  const meant = known.find(full => full.endsWith(`:${id}`)) ?? nearest(id, known)
  throw usageError(`no row has the id ${id}`, meant ? `did you mean ${meant}?` : `the ids are ${known.join(', ')}`)
}
