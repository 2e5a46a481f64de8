/** Values as YAML text, in the manner of the file that they go into. */

import { Document, isMap, isSeq, Scalar, type ToStringOptions, visit, YAMLMap, YAMLSeq } from 'yaml'
import type { Model } from './model.ts'

export interface Manner {
  /** Blanks per level. */
  readonly step: number
  /** Whether the dashes of a list stand further right than the key above them. */
  readonly indentSeq: boolean
  readonly singleQuote: boolean
  /** Everything is to be JSON. */
  readonly json: boolean
}

type Quoting = Scalar.Type | undefined

/** Lines of `key: value`, the first one without indentation. */
export function renderPair(key: string, value: Model, manner: Manner, quoting?: Quoting): string[] {
  const map = new YAMLMap()
  map.set(new Scalar(key), nodeOf(value, quoting))
  return lines(map, manner)
}

/** Lines of `- value`. */
export function renderItem(value: Model, manner: Manner, quoting?: Quoting): string[] {
  const list = new YAMLSeq()
  list.add(nodeOf(value, quoting))
  return lines(list, manner)
}

/** Lines of a value that stands alone. */
export function renderRoot(value: Model, manner: Manner): string[] {
  return manner.json ? json(value, manner, '\n').split('\n') : lines(nodeOf(value), manner)
}

/**
 * For braces and brackets: on one line, but JSON that is written in lines gets more of them, those after the first
 * behind `below` (a line break and the indentation).
 */
export function renderFlow(value: Model, manner: Manner, below: string | undefined, quoting?: Quoting): string {
  if (manner.json) return json(value, manner, below)
  const list = new YAMLSeq()
  list.add(nodeOf(value, quoting))
  return inside(list, manner)
}

export function renderFlowPair(key: string, value: Model, manner: Manner, below: string | undefined): string {
  if (manner.json) return `${JSON.stringify(key)}: ${json(value, manner, below)}`
  const map = new YAMLMap()
  map.set(new Scalar(key), nodeOf(value))
  return inside(map, manner)
}

/** Without the brackets. */
function inside(node: YAMLMap | YAMLSeq, manner: Manner): string {
  const [line = ''] = lines(node, manner, { collectionStyle: 'flow' })
  return line.slice(2, -2)
}

function json(value: Model, { step }: Manner, below: string | undefined): string {
  const rows = JSON.stringify(dataOf(value), null, below === undefined ? 0 : step).split('\n')
  return rows.join(below ?? '')
}

function lines(node: YAMLMap | YAMLSeq | Scalar, manner: Manner, more: ToStringOptions = {}): string[] {
  const flow = more.collectionStyle === 'flow'
  visit(node, {
    Scalar(_, scalar) {
      const { value } = scalar
      if (typeof value !== 'string') return
      // Characters that some take for a line break or a byte order mark; and several lines: only quotes keep them on one,
      // a block that begins with a blank says rightly how far it is indented for two blanks per level alone, and one
      // that ends with empty lines would take those that follow for its own.
      const odd = /[\ufeff\u0085\u2028\u2029]/.test(value)
      if (odd || (value.includes('\n') && (flow || /^\n*[ \t]|(^|\n)\n$/.test(value))))
        scalar.type = Scalar.QUOTE_DOUBLE
    },
  })
  // Text that an older reader would take for something else is quoted: `yes`, `on`, `0o17`.
  const doc = new Document(node, { version: '1.2', compat: 'yaml-1.1', merge: true })
  const text = doc.toString({
    indent: manner.step,
    indentSeq: manner.indentSeq,
    singleQuote: manner.singleQuote ? true : null,
    lineWidth: 0,
    doubleQuotedMinMultiLineLength: Number.MAX_SAFE_INTEGER,
    ...more,
  })
  const all = text.split('\n')
  // A text that keeps its last line breaks needs them.
  if (all.at(-1) === '') all.pop()
  return all
}

function nodeOf(model: Model, quoting?: Quoting): YAMLMap | YAMLSeq | Scalar {
  const node = bare(model, quoting)
  if (model.tag) node.tag = model.tag
  return node
}

function bare(model: Model, quoting?: Quoting): YAMLMap | YAMLSeq | Scalar {
  if (model.kind === 'list') {
    const list = new YAMLSeq()
    for (const item of model.items) list.add(nodeOf(item))
    // `!env [NAME, default]` is one expression.
    if (model.tag) list.flow = true
    return list
  }
  if (model.kind === 'map') {
    const map = new YAMLMap()
    for (const [key, { value }] of model.entries) map.set(new Scalar(key), nodeOf(value))
    return map
  }
  const scalar = new Scalar(model.value)
  if (quoting && typeof model.value === 'string') scalar.type = quoting
  return scalar
}

/** Plain data. A map has no prototype that a key of the file could reach; what has a tag is given to `tagged`. */
export function dataOf(model: Model, tagged?: (model: Model) => unknown): unknown {
  if (model.tag && tagged) return tagged(model)
  if (model.kind === 'scalar') return model.value
  if (model.kind === 'list') return model.items.map(item => dataOf(item, tagged))
  return Object.fromEntries([...model.entries].map(([key, { value }]) => [key, dataOf(value, tagged)]))
}

/** How a file is written, from what is in it. */
export function mannerOf(doc: Document, text: string, label: string): Manner {
  const found = { step: 0, indentSeq: undefined as boolean | undefined }
  const column = (offset: number) => offset - (text.lastIndexOf('\n', offset - 1) + 1)
  const look = (node: unknown, depth: number) => {
    if (depth > 8 || (found.step && found.indentSeq !== undefined)) return
    if (isSeq(node)) for (const item of node.items) look(item, depth + 1)
    if (!isMap(node)) return
    for (const { key, value } of node.items) {
      const inner = isMap(value) || isSeq(value) ? value : undefined
      const above = (key as Scalar | null)?.range?.[0]
      if (inner?.range && above !== undefined && !inner.flow && text.slice(above, inner.range[0]).includes('\n')) {
        const deeper = column(inner.range[0]) - column(above)
        if (deeper > 0) found.step ||= deeper
        if (isSeq(inner)) found.indentSeq ??= deeper > 0
      }
      look(value, depth + 1)
    }
  }
  look(doc.contents, 0)
  const count = (quote: string) => text.split(quote).length
  // `[]` alone is as good YAML.
  const json = label.endsWith('.json') || (text.includes('"') && isJson(text))
  const jsonStep = json ? /\n( +)["[{]/.exec(text)?.[1]?.length : undefined
  return {
    step: jsonStep ?? (found.step || 2),
    indentSeq: found.indentSeq ?? true,
    singleQuote: count("'") > count('"'),
    json,
  }
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === 'object'
  } catch {
    return false
  }
}
