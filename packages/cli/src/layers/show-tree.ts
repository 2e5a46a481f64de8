/** A tree as a person or a program reads it: every value with its source, secrets masked, nothing evaluated. */

import { homedir } from 'node:os'
import { basename, dirname, isAbsolute, relative, resolve } from 'node:path'
import { HarnessError } from '@cambium/core'
import { type Expression, placeOf, ROW_KEYS, type Row, type Spot, urlPath, type Value } from '@cambium/loader'
import { homeFolder } from '@cambium/store'
import { escapeControls } from '../printable.ts'
import type { LayerName, LayerOptions } from './layer.ts'
import { shippedTree } from './layers.ts'
import { allRows } from './project-content.ts'
import { isSecretKey, isSecretOption, MASK, maskLiterals, maskLooks, maskText } from './secrets.ts'
import { expressionText, type Written } from './tree-yaml.ts'

export interface ShowOptions {
  /** Of the whole tree, to say what a row is disabled with. */
  readonly rows?: readonly Row[]
  readonly env: LayerOptions['env']
  readonly cwd: string
}

/** Aliases can describe more than anybody reads. */
const MAX_VALUES = 100_000

export class TreeView {
  private readonly env: LayerOptions['env']
  private readonly cwd: string
  private readonly home: string
  private readonly known: ReadonlyMap<string, Row>
  private readonly shipped = shippedTree().file
  private count = 0

  constructor({ env, cwd, rows = [] }: ShowOptions) {
    this.known = new Map(allRows(rows).map(row => [row.id, row]))
    this.env = env
    this.cwd = cwd
    this.home = homeFolder(env)
  }

  /** As short as the reader knows it: what is the user's own begins with `~`. */
  path(file: string): string {
    const own = below(file, homedir())
    if (own !== undefined && below(file, this.home) !== undefined) return escapeControls(`~/${own}`)
    return escapeControls(below(file, this.cwd) ?? (own === undefined ? file : `~/${own}`))
  }

  /** `user ~/.cambium/cordis.patch.yml:3:5`; of the shipped tree, whose path everybody knows, its name. */
  private source(spot: Spot): string {
    const { source } = spot
    if (source.layer === 'option') return escapeControls(source.label)
    const name = source.file === this.shipped ? basename(source.file) : this.path(source.file)
    return `${source.layer} ${name}${position(spot)}`
  }

  /** Its place for a person. */
  at({ source, offset }: Spot): string {
    return `${this.path(source.file)}${position({ source, offset })}`
  }

  /** The row with all that lies in it, as the loader would read it. */
  row(row: Row, above?: string): Written & { kind: 'map' } {
    const { entries } = row.written
    const off = this.disabledBy(row)
    const remarks = [entries.has('id') ? '' : 'has no id', off && off.id !== row.id ? `disabled with ${off.id}` : '']
    const id = entries.get('id')
    const own = row.parent === undefined ? row.id : row.id.slice(row.parent.length + 1)
    const shown: [string, Written][] = [
      ['id', { kind: 'scalar', value: own, ...this.noted(id?.value.spot ?? row.written.spot, ...remarks) }],
    ]
    const group = row.kind === 'include' && row.children.length > 0
    for (const key of ROW_KEYS) {
      const entry = entries.get(key)
      if (!entry || key === 'id') continue
      if (key === 'name') shown.push([key, this.name(row, entry.value, group)])
      else if (key === 'config' && (row.kind === 'group' || group)) {
        shown.push([key, { kind: 'list', items: row.children.map(child => this.row(child)) }])
      } else if (key === 'config' && row.kind === 'include') shown.push([key, this.includeConfig(entry.value)])
      else shown.push([key, this.value(entry.value, entry.spot, key, false)])
    }
    return { kind: 'map', entries: shown, ...(above ? { comment: above } : {}) }
  }

  /** The row without those in it. */
  alone = (row: Row): Written & { kind: 'map' } => this.row({ ...row, children: [] })

  /** The row, itself or one above, that says so. */
  private disabledBy(row: Row): Row | undefined {
    if (!row.disabled) return undefined
    const above = row.parent === undefined ? undefined : this.known.get(row.parent)
    return above?.disabled ? this.disabledBy(above) : row
  }

  /** A name that is relative to its file leads to the same module from anywhere. */
  private name(row: Row, { spot }: Value, group: boolean): Written {
    if (group) return { kind: 'scalar', value: 'group', ...this.noted(spot, 'an include, its rows follow') }
    return { kind: 'scalar', value: absoluteName(row.name, row.from), ...this.noted(spot) }
  }

  private includeConfig(value: Value): Written {
    const shown = this.value(value, value.spot, 'config', false)
    if (shown.kind !== 'map' || value.kind !== 'map') return shown
    const entries = shown.entries.map(([key, part]): [string, Written] => {
      const from = value.entries.get(key)!.value.spot.source.file
      const isPath = key === 'path' && part.kind === 'scalar' && typeof part.value === 'string'
      return [key, isPath ? { ...part, value: absoluteName(`./${part.value}`, from) } : part]
    })
    return { ...shown, entries }
  }

  /** `at` is where its key stands, `secret` whether a key above it says that it is one. */
  private value(value: Value, at: Spot, key: string, secret: boolean): Written {
    if (++this.count > MAX_VALUES) {
      throw new HarnessError('CLI_TREE_TOO_LARGE', `the tree has more than ${MAX_VALUES} values`, {
        where: placeOf(at),
        fix: 'name the rows to show',
      })
    }
    const hidden = secret || isSecretKey(key)
    if (value.kind === 'expression') return this.expression(value, hidden)
    if (value.kind === 'scalar') {
      const text = value.value
      const masked =
        typeof text === 'string'
          ? hidden && text
            ? MASK
            : maskText(text)
          : hidden && typeof text === 'number'
            ? MASK
            : text
      return { kind: 'scalar', value: masked, ...this.noted(value.spot, masked === text ? '' : 'masked') }
    }
    if (value.kind === 'list') {
      const items = value.items.map((item, index) => {
        const before = value.items[index - 1]
        const follows = before?.kind === 'scalar' && typeof before.value === 'string' && isSecretOption(before.value)
        return this.value(item, item.spot, '', hidden || follows)
      })
      return { kind: 'list', items, ...(items.length ? {} : this.noted(value.spot)) }
    }
    const entries = [...value.entries].map(([name, entry]): [string, Written] => [
      maskLooks(name),
      this.value(entry.value, entry.spot, name, hidden),
    ])
    return { kind: 'map', entries, ...(entries.length ? {} : this.noted(value.spot)) }
  }

  private expression({ tag, text, fallback, spot }: Expression, hidden: boolean): Written {
    if (tag === '!js') {
      const source = maskLiterals(text, hidden)
      return { kind: 'expression', source: { tag, text: source }, ...this.noted(spot, source === text ? '' : 'masked') }
    }
    const set = this.env[text] !== undefined
    const secret = fallback !== undefined && (hidden || isSecretKey(text)) && typeof fallback.value === 'string'
    const plain = typeof fallback?.value === 'string' ? maskText(fallback.value) : fallback?.value
    const source = { tag, text, ...(fallback ? { fallback: { value: secret ? MASK : plain } } : {}) }
    return { kind: 'expression', source, ...this.noted(spot, `${text} is ${set ? 'set' : 'not set'}`), set }
  }

  private noted(spot: Spot, ...notes: string[]) {
    return { spot, comment: [this.source(spot), ...notes.filter(Boolean).map(escapeControls)].join('; ') }
  }

  /** The row for a program: plain data, with the source of each value by its path. */
  json(row: Row): Record<string, unknown> {
    const sources: Record<string, unknown> = {}
    const data = (part: Written, path: string): unknown => {
      if (part.kind === 'list') {
        if (!part.items.length && part.spot) sources[path] = placed(part.spot)
        return part.items.map((item, index) => data(item, `${path}/${index}`))
      }
      if (part.kind === 'map') {
        if (!part.entries.length && part.spot) sources[path] = placed(part.spot)
        return Object.fromEntries(
          part.entries.map(([key, item]) => [
            key,
            data(item, `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`),
          ]),
        )
      }
      if (part.spot) sources[path] = placed(part.spot)
      if (part.kind === 'scalar') return part.value
      return { expression: expressionText(part.source), ...(part.set === undefined ? {} : { set: part.set }) }
    }
    const keys = this.alone(row).entries.filter(([key]) => key !== 'id' && !(key === 'config' && row.kind === 'group'))
    const written = Object.fromEntries(keys.map(([key, part]) => [key, data(part, `/${key}`)]))
    const off = this.disabledBy(row)
    return {
      id: row.id,
      ...written,
      ...placed(row.written.spot),
      state: off ? 'disabled' : written['disabled'] instanceof Object ? 'depends' : 'enabled',
      ...(off ? { disabledBy: { id: off.id, ...placed(off.written.entries.get('disabled')!.spot) } } : {}),
      changedBy: row.changes.map(placed),
      sources,
      ...(row.kind === 'plugin' ? {} : { rows: row.children.map(child => this.json(child)) }),
    }
  }
}

/** `:3:5`, or nothing for what was not written in lines. */
const position = (spot: Spot) => placeOf(spot).slice(spot.source.label.length)

/** Whose it is and where, for a program. */
function placed(spot: Spot): { readonly layer: LayerName; readonly at: string } {
  const { source } = spot
  const layer = (source.layer ?? 'shipped') as LayerName
  return { layer, at: source.layer === 'option' ? source.label : `${source.file}${position(spot)}` }
}

function absoluteName(name: string, from: string): string {
  if (name.startsWith('file:')) return urlPath(name) ?? name
  return /^\.{1,2}(\/|$)/.test(name) ? resolve(dirname(from), name) : name
}

function below(file: string, folder: string): string | undefined {
  const path = relative(folder, file)
  return path && !path.startsWith('..') && !isAbsolute(path) ? path : undefined
}
