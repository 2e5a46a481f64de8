/** One row of a tree: its keys, their shapes, and what is said when they are wrong. */

import { HarnessError, nearest } from '@cambium/core'
import type { Env } from './expression.ts'
import { placeOf, type Spot } from './source.ts'
import { describe, type Entry, type Expression, type Located, type MapValue, toData, type Value } from './value.ts'

export const ROW_KEYS = [
  'id',
  'name',
  'config',
  'disabled',
  'inject',
  'isolate',
  'intercept',
  'required',
  'label',
] as const

export interface Row {
  /** Unique in its tree; the ids of the groups and includes above it come first: `tools:bash`. */
  readonly id: string
  /** The id of the group or include that the row lies in. */
  readonly parent: string | undefined
  readonly kind: 'plugin' | 'group' | 'include'
  /** The specifier as written. */
  readonly name: string
  readonly label: string | undefined
  /** Where the row stands: `cordis.yml:12:3`. */
  readonly at: string
  /** Where its name stands. */
  readonly nameAt: string
  /** Absolute path of the file that names the plugin; the specifier is resolved from there. */
  readonly from: string
  /** Evaluated data, undefined when absent or when the row is disabled. Not to be mutated. */
  readonly config: unknown
  /** Its own `disabled`, or that of a row above. */
  readonly disabled: boolean
  readonly required: boolean
  /** Services that are required on top of the plugin's own, with their intercept config or null. */
  readonly inject: Readonly<Record<string, unknown>>
  readonly isolate: Readonly<Record<string, true | string>>
  readonly intercept: Readonly<Record<string, unknown>>
  /** Position in the tree, outermost first. */
  readonly path: readonly number[]
  /** Rows of a group or include. */
  readonly children: readonly Row[]
  /** The whole row as its file and the layers wrote it: each part knows its place, expressions are not evaluated. */
  readonly written: MapValue
  /** Where the layers stand that changed it, in order. */
  readonly changes: readonly Spot[]
  /** The place of a part of `config`. */
  locate(path: readonly PropertyKey[]): Located
  /** The variables that `config` refers to. Their values are kept out of messages. */
  readonly environment: ReadonlyMap<string, string | undefined>
}

/** What the keys of a row say, before groups and includes are followed. */
export interface RowKeys {
  readonly spot: Spot
  readonly name: string
  readonly nameSpot: Spot
  readonly config: Entry | undefined
  readonly disabled: boolean
  readonly required: boolean | undefined
  readonly label: string | undefined
  readonly inject: Record<string, unknown>
  readonly isolate: Record<string, true | string>
  readonly intercept: Record<string, unknown>
}

export interface RowReading {
  readonly mistakes: HarnessError[]
  readonly evaluate: (expression: Expression) => unknown
  readonly env: Env
}

class Misshapen extends Error {}

/** Reads the keys of the row `id`, or undefined when it cannot be used at all. */
export function readKeys(row: MapValue, id: string, reading: RowReading): RowKeys | undefined {
  const { mistakes, evaluate } = reading
  const report = (code: string, problem: string, spot: Spot, fix: string) => {
    mistakes.push(new HarnessError(code, problem, { where: `${placeOf(spot)} (row ${id})`, fix }))
  }
  for (const [key, { spot }] of row.entries) {
    if ((ROW_KEYS as readonly string[]).includes(key)) continue
    const meant = nearest(key, ROW_KEYS)
    const fix = meant ? `did you mean \`${meant}\`?` : `the keys of a row are ${ROW_KEYS.join(', ')}.`
    report(
      'TREE_KEY_UNKNOWN',
      `a row has no key \`${key}\``,
      spot,
      `${fix} A plugin's own settings go under \`config\`.`,
    )
  }

  const read = <T>(key: string, absent: T, expected: string, parse: (data: unknown) => T): T => {
    const entry = row.entries.get(key)
    if (!entry) return absent
    const { value } = entry
    try {
      const data = toData(value, expression => {
        if (key === 'disabled') return evaluate(expression)
        throw new HarnessError('TREE_EXPRESSION', `\`${expression.tag}\` in \`${key}\``, {
          where: placeOf(expression.spot),
          fix: 'expressions are allowed in `config` and `disabled` only: write the value itself',
        })
      })
      return data === null || typeof data === 'symbol' ? absent : parse(data)
    } catch (error) {
      if (error instanceof HarnessError) mistakes.push(inRow(error, id))
      else report('TREE_ROW_INVALID', `\`${key}\` must be ${expected}, not ${describe(value)}`, entry.spot, hint(key))
      return absent
    }
  }

  read('id', '', 'text', data => (typeof data === 'number' ? String(data) : text(data)))
  const name = read('name', '', 'a module specifier', text)
  if (!row.entries.has('name') || (row.entries.get('name')?.value.kind === 'scalar' && !name)) {
    report(
      'TREE_ROW_INVALID',
      'a row needs a `name`',
      row.spot,
      'name a package path, a relative file, group or include',
    )
  }
  const keys: RowKeys = {
    spot: row.spot,
    name,
    nameSpot: row.entries.get('name')?.value.spot ?? row.spot,
    config: row.entries.get('config'),
    disabled: read('disabled', false, 'true or false', data => flag(data, row.entries.get('disabled')!.value)),
    required: read<boolean | undefined>('required', undefined, 'true or false', boolean),
    label: read<string | undefined>('label', undefined, 'text', text),
    inject: read('inject', {}, 'a list of service names, or a map of them', services),
    isolate: read('isolate', {}, 'a map of service names to true or a label', realms),
    intercept: read('intercept', {}, 'a map of service names to their config', record),
  }
  return name ? keys : undefined
}

/** The same mistake, with the row in its place. */
export function inRow(mistake: HarnessError, id: string): HarnessError {
  const { code, problem, where, fix, cause } = mistake
  return new HarnessError(code, problem, { where: `${where} (row ${id})`, fix, cause })
}

function hint(key: string): string {
  if (key === 'disabled' || key === 'required') return 'YAML 1.2 reads yes, no, on and off as text: write true or false'
  if (key === 'isolate') return 'write `isolate: { fs: true }`, or a label that other rows share'
  if (key === 'inject') return 'write `inject: [fs]`'
  return `correct \`${key}\``
}

function text(data: unknown): string {
  if (typeof data !== 'string') throw new Misshapen()
  return data
}

function boolean(data: unknown): boolean {
  if (typeof data !== 'boolean') throw new Misshapen()
  return data
}

/** `!js` may answer anything; text from the environment other than true, false or a number is no answer. */
function flag(data: unknown, value: Value): boolean {
  if (value.kind === 'expression' && (value.tag === '!js' || typeof data === 'number')) return Boolean(data)
  return boolean(data)
}

function record(data: unknown): Record<string, unknown> {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) throw new Misshapen()
  return data as Record<string, unknown>
}

function services(data: unknown): Record<string, unknown> {
  if (!Array.isArray(data)) return record(data)
  return Object.fromEntries(data.map(name => [text(name), null]))
}

function realms(data: unknown): Record<string, true | string> {
  for (const label of Object.values(record(data))) if (label !== true) text(label)
  return data as Record<string, true | string>
}

/** The rows with all that lie in them, each after the group that it lies in. */
export function flatten(rows: readonly Row[]): Row[] {
  return rows.flatMap(row => [row, ...flatten(row.children)])
}
