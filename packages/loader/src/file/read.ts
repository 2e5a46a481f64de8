/** From files to rows: includes followed, layers laid over, expressions evaluated, every mistake collected. */

import { realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { HarnessError, workingFolder } from '@cambium/core'
import { throwMistakes } from '../mistakes.ts'
import { fileNamed } from '../modules/resolve.ts'
import { draftRows, type FrontRow } from './drafts.ts'
import { createEvaluator, type Env } from './expression.ts'
import { type Layer, patchLayers, setLayer, unknownTarget } from './layers.ts'
import { type KeptTexts, TreeFiles, type TreeSource } from './load.ts'
import { inRow, type Row, type RowKeys, readKeys } from './row.ts'
import { createSource, placeOf, type Source, type Spot } from './source.ts'
import { ABSENT, describe, type Expression, locate, type MapValue, toData, type Value } from './value.ts'

export interface ReadOptions {
  /** What `!env` and the `env` of `!js` see; the process's environment by default. */
  env?: Env
  /** Layers, in order: a later one wins. */
  patches?: readonly TreeSource[]
  /** `id.path=value`, laid over last. */
  set?: readonly string[]
  /** A row that stands before all others, and what brings it; a tree that names the plugin itself does not get it. */
  front?: FrontRow
  /**
   * What to do with a layer whose row this tree does not have: a mistake by default, or left to the caller in `unmatched`,
   * since it may belong to another tree of the same start.
   */
  unmatched?: 'refuse' | 'report'
  /**
   * Evaluates no expression: what one decides stays open. A row whose `disabled` is one counts as enabled, an include
   * whose path is one has no rows, `config` leaves them out. For programs that show a tree instead of mounting it.
   */
  inspect?: boolean
  /** Takes all mistakes, which are not thrown then: the rows are those that could be read. */
  collect?: HarnessError[]
  /** Is given the path of every file that is looked for, also when the reading fails. */
  tried?: Set<string>
}

export interface TreeFile {
  /** How the tree is called in messages: its file as the user named it. */
  readonly label: string
  /** Absolute path of the tree's file. */
  readonly file: string
  readonly rows: readonly Row[]
  /** Every file that was read: the tree's own, includes and patches. */
  readonly files: readonly string[]
  /** The texts that were read, with whose each is. */
  readonly sources: readonly Source[]
  /** Layers that matched no row, by their place; only when they were not to be refused. */
  readonly unmatched: ReadonlyMap<string, HarnessError>
  /** Answers for the expressions that were read, each evaluated once. */
  readonly evaluate: (expression: Expression) => unknown
}

/** What a tree that is read another time brings along. */
export interface Rereading extends KeptTexts {
  /** Changes made while it runs, laid over last. */
  readonly layers?: readonly Layer[]
  /** Where no expression is to be evaluated anew. */
  readonly evaluate?: TreeFile['evaluate']
}

/**
 * Reads a tree.
 *
 * @throws HarnessError for a mistake, or `TREE_MISTAKES` listing several. Nothing is imported or mounted.
 */
export function readTree(source: TreeSource, options: ReadOptions = {}, again: Rereading = {}): TreeFile {
  return new TreeReader(options, again).read(source)
}

interface Above {
  readonly id: string
  readonly path: readonly number[]
  readonly disabled: boolean
  readonly required: boolean
  readonly inject: Readonly<Record<string, unknown>>
  readonly files: readonly string[]
}

const ROOT: Above = { id: '', path: [], disabled: false, required: true, inject: {}, files: [] }

class TreeReader {
  private readonly options: ReadOptions
  private readonly env: Env
  private readonly evaluate: (expression: Expression) => unknown
  private readonly files: TreeFiles
  private readonly unmatched = new Map<string, HarnessError>()
  private readonly mistakes: HarnessError[]
  /** Includes whose rows stay unknown: they are disabled, or their paths are expressions. */
  private readonly open = new Set<string>()
  private readonly last: readonly Layer[]
  private layers: readonly Layer[] = []
  /** Place of each id by its lower-case spelling: ids that differ by case only are told apart by nobody. */
  private ids = new Map<string, { id: string; at: string }>()

  constructor(options: ReadOptions, again: Rereading) {
    this.options = options
    this.last = again.layers ?? []
    for (const layer of this.last) layer.used = false
    this.mistakes = options.collect ?? []
    this.files = new TreeFiles(this.mistakes, options.tried, again)
    this.env = options.env ?? process.env
    this.evaluate = options.inspect ? () => ABSENT : (again.evaluate ?? createEvaluator(this.env))
  }

  read(source: TreeSource): TreeFile {
    const file = resolve(source.file ?? 'cordis.yml')
    const root = createSource(file, source.layer)
    const value = this.files.parse(source, root)
    if (this.mistakes.length) return this.refuse(root, file)
    const patches = (this.options.patches ?? []).flatMap(patch => {
      const patchSource = createSource(resolve(patch.file ?? 'patch.yml'), patch.layer)
      return patchLayers(this.files.parse(patch, patchSource), this.mistakes)
    })
    this.refuse({ label: 'the patches' }, file)

    this.layers = [...patches, ...this.last]
    let rows = this.rows(value, { ...ROOT, files: [file] })
    const { set } = this.options
    if (set?.length && !this.mistakes.length) {
      // Where the id of `--set` ends is known only once all ids are.
      const ids = [...this.ids.values()].map(({ id }) => id)
      for (const layer of this.layers) layer.used = false
      this.layers = [...patches, ...set.flatMap(option => this.setting(option, ids)), ...this.last]
      this.ids = new Map()
      rows = this.rows(value, { ...ROOT, files: [file] })
    }
    this.unusedLayers()
    return this.refuse(root, file, rows)
  }

  /** Throws what was found, unless the caller takes it; then it is what could be read. */
  private refuse({ label }: { label: string }, file: string, rows: readonly Row[] = []): TreeFile {
    if (!this.options.collect) throwMistakes(this.mistakes, label)
    return {
      label,
      file,
      rows,
      files: [...this.files.names],
      sources: this.files.sources,
      unmatched: this.unmatched,
      evaluate: this.evaluate,
    }
  }

  private rows(list: Value | undefined, above: Above): Row[] {
    if (!list || (list.kind === 'scalar' && list.value === null)) return this.drafts([], above)
    if (list.kind === 'list') return this.drafts(list.items, above)
    const what = above.id ? `the config of the group ${above.id}` : 'a tree'
    this.mistakes.push(
      new HarnessError('TREE_ROW_INVALID', `${what} is a list of rows, not ${describe(list)}`, {
        where: placeOf(list.spot),
        fix: 'begin each row with `- `: `- name: ./plugin.ts`',
      }),
    )
    return []
  }

  private drafts(items: readonly Value[], above: Above): Row[] {
    const front = above.id ? undefined : this.options.front
    return draftRows(items, above.id, this.layers, front).flatMap(({ value, id, born, index }) => {
      if (value.kind === 'map') return this.row(value, id, born, index, above) ?? []
      this.mistakes.push(
        new HarnessError('TREE_ROW_INVALID', `a row is a map, not ${describe(value)}`, {
          where: placeOf(value.spot),
          fix: 'write `- name: ./plugin.ts`',
        }),
      )
      return []
    })
  }

  private row(value: MapValue, id: string, born: number, index: number, above: Above): Row | undefined {
    const at = placeOf(value.spot)
    const clash = this.ids.get(id.toLowerCase())
    if (clash) {
      const problem =
        clash.id === id ? `the id "${id}" is taken` : `the id "${id}" differs from "${clash.id}" by case only`
      const fix = `the first one stands at ${clash.at}: rename or remove one of the two`
      this.mistakes.push(new HarnessError('TREE_ID_DUPLICATE', problem, { where: `${at} (row ${id})`, fix }))
      return undefined
    }
    this.ids.set(id.toLowerCase(), { id, at })
    const { changed, changes } = this.override(value, id, born)
    const keys = readKeys(changed, id, { mistakes: this.mistakes, evaluate: this.evaluate, env: this.env })
    if (!keys) return undefined
    const path = [...above.path, index]
    const disabled = above.disabled || keys.disabled
    const required = above.required && (keys.required ?? true)
    const inject = { ...above.inject, ...keys.inject }
    const kind = keys.name === 'group' || keys.name === 'include' ? keys.name : 'plugin'
    const below: Above = { id, path, disabled, required, inject, files: above.files }
    const environment = new Map<string, string | undefined>()
    return {
      id,
      parent: above.id || undefined,
      kind,
      name: keys.name,
      label: keys.label,
      at,
      nameAt: placeOf(keys.nameSpot),
      from: keys.nameSpot.source.file,
      config: kind === 'group' || disabled ? undefined : this.config(keys, id, environment),
      disabled,
      required,
      inject,
      isolate: keys.isolate,
      intercept: keys.intercept,
      path,
      children: kind === 'plugin' ? [] : this.children(kind, keys, id, below),
      written: changed,
      changes,
      locate: wanted => (keys.config ? locate(keys.config.value, wanted, keys.config.spot) : { place: at }),
      environment,
    }
  }

  private override(row: MapValue, id: string, born: number): { changed: MapValue; changes: Spot[] } {
    let changed = row
    const changes: Spot[] = []
    this.layers.forEach((layer, index) => {
      if (layer.kind !== 'override' || layer.id !== id || index < born) return
      layer.used = true
      try {
        changed = layer.change(changed)
        changes.push(layer.spot)
      } catch (error) {
        if (!(error instanceof HarnessError)) throw error
        this.mistakes.push(error)
      }
    })
    return { changed, changes }
  }

  private config({ config }: RowKeys, id: string, environment: Map<string, string | undefined>): unknown {
    if (!config) return undefined
    try {
      const data = toData(config.value, expression => {
        if (expression.tag !== '!js') environment.set(expression.text, this.env[expression.text])
        return this.evaluate(expression)
      })
      return data === ABSENT || data === null ? undefined : data
    } catch (error) {
      if (error instanceof HarnessError) {
        this.mistakes.push(inRow(error, id))
      } else {
        const where = `${placeOf(config.spot)} (row ${id})`
        const problem = `the config cannot be read: ${(error as Error).message}`
        this.mistakes.push(new HarnessError('TREE_SYNTAX', problem, { where, fix: 'use fewer aliases' }))
      }
      return undefined
    }
  }

  private children(kind: 'group' | 'include', keys: RowKeys, id: string, below: Above): Row[] {
    if (kind === 'group') return this.rows(keys.config?.value, below)
    if (below.disabled || !keys.config) {
      if (below.disabled) this.open.add(id)
      else this.includeMistake(keys, id, '`include` needs `config: { path: … }`')
      return []
    }
    const { value } = keys.config
    const entry = value.kind === 'map' ? value.entries.get('path') : undefined
    const extra = value.kind === 'map' ? [...value.entries.keys()].find(key => key !== 'path') : undefined
    if (extra) this.includeMistake(keys, id, `\`include\` has no setting \`${extra}\``)
    if (this.options.inspect && entry?.value.kind === 'expression') {
      this.open.add(id)
      return []
    }
    let path: unknown
    try {
      path = entry && toData(entry.value, this.evaluate)
    } catch {
      // Reported with the row's config already.
      return []
    }
    if (typeof path !== 'string' || !path) {
      this.includeMistake(keys, id, '`include` needs `config: { path: … }`')
      return []
    }
    return this.include(path, placeOf(entry!.spot), entry!.value.spot.source, id, below)
  }

  private include(path: string, at: string, from: Source, id: string, below: Above): Row[] {
    const where = `${at} (row ${id})`
    const file = fileNamed(path, from.file)
    if (below.files.some(open => sameFile(open, file))) {
      const chain = [...below.files, file].map(open => createSource(open).label).join(' → ')
      const fix = 'remove one of these includes'
      this.mistakes.push(new HarnessError('TREE_INCLUDE_CYCLE', `files include each other: ${chain}`, { where, fix }))
      return []
    }
    const included = this.files.include(file, where, from.layer)
    if (!included) return []
    return this.rows(included.value, { ...below, files: [...below.files, file] })
  }

  private includeMistake(keys: RowKeys, id: string, problem: string) {
    this.mistakes.push(
      new HarnessError('TREE_ROW_INVALID', problem, {
        where: `${placeOf(keys.config?.spot ?? keys.spot)} (row ${id})`,
        fix: 'write `config: { path: ./other.yml }`, relative to the file that says so',
      }),
    )
  }

  private setting(option: string, ids: readonly string[]): Layer[] {
    try {
      return [setLayer(option, ids, workingFolder())]
    } catch (error) {
      if (!(error instanceof HarnessError)) throw error
      this.strayLayer(error, option)
      return []
    }
  }

  private unusedLayers() {
    const ids = [...this.ids.values()].map(({ id }) => id)
    for (const layer of this.layers) {
      if (layer.used || layer.fleeting) continue
      const id = layer.kind === 'insert' ? layer.anchor?.id : layer.id
      if (id !== undefined) this.strayLayer(unknownTarget(id, ids, layer.spot), id)
    }
  }

  private strayLayer(mistake: HarnessError, target: string) {
    if ([...this.open].some(id => target.startsWith(`${id}:`))) return
    const report = this.options.unmatched === 'report' && mistake.code === 'TREE_TARGET_UNKNOWN'
    if (report) this.unmatched.set(mistake.where!, mistake)
    else this.mistakes.push(mistake)
  }
}

function sameFile(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b)
  } catch {
    // One of them does not exist, which reading it reports.
    return a === b
  }
}
