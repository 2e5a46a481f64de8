/** Where the parts of a YAML text stand, by the tokens that the parser kept. */

import type { CST, Document, Node, Pair } from 'yaml'
import { isMap, isSeq } from 'yaml'
import { keyOf } from './model.ts'

export type Item = CST.CollectionItem
export type Collection = CST.BlockMap | CST.BlockSequence | CST.FlowCollection

/** Where a value stands, or would. */
export interface Slot {
  /** Right behind the colon or the dash; in a list in brackets the beginning of the value. */
  readonly mark: number
  /** Beginning of the value, with its anchor and tag; undefined when nothing is written. */
  readonly start: number | undefined
  readonly end: number
  readonly anchor: string | undefined
  readonly token: CST.Token | undefined
  /** Column of the key or the dash. */
  readonly column: number
  /** In braces or brackets. */
  readonly flow: boolean
  /** Whether a blank is needed between the mark and the value, and a colon before it. */
  readonly lead: string
}

/** A text that cannot be edited there, for a reason that the caller gives a place. */
export class Uneditable extends Error {
  readonly at: number
  constructor(reason: string, at: number) {
    super(reason)
    this.at = at
  }
}

const BLANK = new Set(['space', 'newline', 'comment', 'comma'])
const solid = ({ type }: CST.SourceToken) => !BLANK.has(type)
const endOf = ({ offset, source }: CST.SourceToken) => offset + source.length

/** Where the text of a token ends, without the blanks and comments behind it. */
export function contentEnd(token: CST.Token): number {
  switch (token.type) {
    case 'block-map':
    case 'block-seq':
      return itemEnd(itemsOf(token).at(-1)!)
    case 'flow-collection':
      return token.end[0] ? endOf(token.end[0]) : token.offset
    case 'block-scalar':
      return blockScalarEnd(token)
    default:
      return token.offset + ('source' in token ? token.source.length : 0)
  }
}

function blockScalarEnd({ props, source }: CST.BlockScalar): number {
  const header = props.find(({ type }) => type === 'block-scalar-header') as CST.SourceToken
  const last = props.at(-1) as CST.SourceToken
  if (/^\s*$/.test(source)) return endOf(header)
  // With `+` the blank lines at the end are part of the text.
  const body = header.source.includes('+') ? source.replace(/\r?\n$/, '') : source.replace(/(\r?\n[ \t]*)+$/, '')
  return endOf(last) + body.length
}

/** Those that are entries; the others hold comments only. */
export function itemsOf(token: Collection): Item[] {
  return (token.items as Item[]).filter(({ start, key, sep, value }) => key || sep || value || start.some(solid))
}

export function itemStart({ start, key, sep, value }: Item): number {
  const mark = start.find(solid)
  return mark?.offset ?? key?.offset ?? sep?.[0]?.offset ?? value!.offset
}

export function itemEnd({ start, key, sep, value }: Item): number {
  if (value) return contentEnd(value)
  const mark = sep?.findLast(solid)
  if (mark) return endOf(mark)
  if (key) return contentEnd(key)
  return endOf(start.findLast(solid)!)
}

/** The comma before an item in braces or brackets. */
export const commaOf = ({ start }: Item) => start.find(({ type }) => type === 'comma')

export function collectionOf(node: Node): Collection {
  const token = node.srcToken
  if (token?.type === 'block-map' || token?.type === 'block-seq' || token?.type === 'flow-collection') return token
  throw new Uneditable('this is written in a way that cannot be edited', node.range?.[0] ?? 0)
}

export class Layout {
  readonly text: string
  readonly doc: Document
  readonly eol: '\n' | '\r\n'

  constructor(text: string, doc: Document) {
    this.text = text
    this.doc = doc
    this.eol = /\r?\n/.exec(text)?.[0] === '\r\n' ? '\r\n' : '\n'
  }

  lineStart(offset: number): number {
    return this.text.lastIndexOf('\n', offset - 1) + 1
  }

  /** Where the line breaks. */
  lineEnd(offset: number): number {
    const at = this.text.indexOf('\n', offset)
    if (at < 0) return this.text.length
    return this.text[at - 1] === '\r' && at > offset ? at - 1 : at
  }

  nextLine(offset: number): number {
    const at = this.text.indexOf('\n', offset)
    return at < 0 ? this.text.length : at + 1
  }

  column(offset: number): number {
    return offset - this.lineStart(offset)
  }

  /** Nothing but blanks stands before it on its line. */
  leads(offset: number): boolean {
    return /^[ \t]*$/.test(this.text.slice(this.lineStart(offset), offset))
  }

  /** The pair of a key that is written in the map itself. */
  pairOf(map: Node, key: string): Pair | undefined {
    if (!isMap(map)) return undefined
    const pairs = map.items.filter(pair => keyOf(pair as Pair, this.doc) === key)
    if (pairs.length > 1) throw new Uneditable('two keys read alike', map.range?.[0] ?? 0)
    return pairs[0] as Pair | undefined
  }

  slotOfPair(map: Node, pair: Pair): Slot {
    const item = pair.srcToken as Item | undefined
    if (!item?.key) throw new Uneditable('this is written in a way that cannot be edited', map.range?.[0] ?? 0)
    const flow = collectionOf(map).type === 'flow-collection'
    const colon = item.sep?.find(({ type }) => type === 'map-value-ind')
    const mark = colon ? endOf(colon) : itemEnd(item)
    const behind = colon ? item.sep!.slice(item.sep!.indexOf(colon) + 1) : []
    const column = this.column(itemStart(item))
    return { ...this.value(behind, item.value, mark), mark, column, flow, lead: colon ? ' ' : ': ' }
  }

  slotOfItem(list: Node, index: number): Slot {
    const collection = collectionOf(list)
    const item = itemsOf(collection)[index]
    if (!item || !isSeq(list))
      throw new Uneditable('this is written in a way that cannot be edited', list.range?.[0] ?? 0)
    const flow = collection.type === 'flow-collection'
    if (flow && (item.key || item.sep)) throw new Uneditable('a pair in brackets cannot be edited', itemStart(item))
    const dash = item.start.find(({ type }) => type === 'seq-item-ind')
    const mark = dash ? endOf(dash) : itemStart(item)
    const behind = item.start.slice(dash ? item.start.indexOf(dash) + 1 : 0)
    return {
      ...this.value(behind, item.value, mark),
      mark,
      column: this.column(itemStart(item)),
      flow,
      lead: dash ? ' ' : '',
    }
  }

  private value(behind: readonly CST.SourceToken[], token: CST.Token | undefined, mark: number) {
    const props = behind.filter(({ type }) => type === 'anchor' || type === 'tag')
    const end = token ? contentEnd(token) : props.length ? endOf(props.at(-1)!) : mark
    const start = props[0]?.offset ?? token?.offset
    return { start, end, token, anchor: props.find(({ type }) => type === 'anchor')?.source }
  }
}
