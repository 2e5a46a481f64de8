/** Single changes of a YAML text, as pieces of it that are replaced. What they lead to is checked by the caller. */

import { isAlias, isMap, isScalar, isSeq, type Node, type Pair, Scalar } from 'yaml'
import {
  collectionOf,
  commaOf,
  contentEnd,
  type Item,
  itemEnd,
  itemStart,
  itemsOf,
  type Layout,
  type Slot,
  Uneditable,
} from './layout.ts'
import { listOf, type Model, mapOf } from './model.ts'
import { type Manner, renderFlow, renderFlowPair, renderItem, renderPair, renderRoot } from './render.ts'

export interface Splice {
  readonly from: number
  readonly to: number
  readonly text: string
}

export type Path = readonly (string | number)[]

const QUOTING: Record<string, Scalar.Type> = {
  'single-quoted-scalar': Scalar.QUOTE_SINGLE,
  'double-quoted-scalar': Scalar.QUOTE_DOUBLE,
}

export class Splicer {
  private readonly layout: Layout
  private readonly manner: Manner

  constructor(layout: Layout, manner: Manner) {
    this.layout = layout
    this.manner = manner
  }

  /** Writes a value where `path` leads: what is there is replaced, a key or the end of a list is added. */
  set(path: Path, value: Model): Splice[] {
    const { node, rest, slot } = this.walk(path)
    const [key] = rest
    if (key === undefined) return this.replace(slot, node, value)
    const wrapped = rest.slice(1).reduceRight<Model>((inner, name) => mapWith(`${name}`, inner), value)
    if (isSeq(node)) return this.insert(node, slot, node.items.length, wrapped)
    if (isMap(node)) return this.add(node, slot, `${key}`, wrapped)
    return this.replace(slot, node, mapWith(`${key}`, wrapped))
  }

  insertAt(path: Path, index: number, value: Model): Splice[] {
    const { node, rest, slot } = this.walk(path)
    if (isSeq(node) && !rest.length) return this.insert(node, slot, index, value)
    return this.set(path, listOf([value]))
  }

  remove(path: Path): Splice[] {
    const above = this.walk(path.slice(0, -1))
    const last = path.at(-1)!
    const { node } = above
    if (above.rest.length || !(isMap(node) || isSeq(node)))
      throw new Uneditable('it is not written here', node?.range?.[0] ?? 0)
    const collection = collectionOf(node)
    const items = itemsOf(collection)
    const index = isMap(node) ? items.indexOf(this.pair(node, `${last}`).srcToken as Item) : Number(last)
    const item = items[index]
    if (!item) throw new Uneditable('it is not written here', node.range?.[0] ?? 0)
    if (items.length === 1) {
      const empty = isMap(node) ? mapOf([]) : listOf([])
      return this.replace(above.slot, node, empty)
    }
    return collection.type === 'flow-collection'
      ? this.removeFlow(items, index)
      : this.removeLines(item, items[index + 1])
  }

  private pair(map: Node, key: string): Pair {
    const pair = this.layout.pairOf(map, key)
    if (!pair) throw new Uneditable('it comes from elsewhere, by `<<`', map.range?.[0] ?? 0)
    return pair
  }

  /** As far as the path is written; `rest` is what is not. */
  private walk(path: Path): { node: Node | null; rest: Path; slot: Slot } {
    const { doc } = this.layout
    let node = doc.contents as Node | null
    let slot = this.rootSlot(node)
    for (const [depth, key] of path.entries()) {
      const next = this.step(node, key)
      if (!next) {
        if (node && !isMap(node) && !isSeq(node) && !isNull(node)) {
          const reason = isAlias(node)
            ? `it is *${node.source}, which stands elsewhere`
            : 'there is neither a map nor a list'
          throw new Uneditable(reason, node.range?.[0] ?? 0)
        }
        return { node, rest: path.slice(depth), slot }
      }
      node = next.node
      slot = next.slot
    }
    return { node, rest: [], slot }
  }

  private step(node: Node | null, key: string | number): { node: Node | null; slot: Slot } | undefined {
    if (isMap(node)) {
      const pair = this.layout.pairOf(node, `${key}`)
      return pair && { node: pair.value as Node | null, slot: this.layout.slotOfPair(node, pair) }
    }
    if (!isSeq(node) || !node.items[Number(key)]) return undefined
    return { node: node.items[Number(key)] as Node, slot: this.layout.slotOfItem(node, Number(key)) }
  }

  private rootSlot(node: Node | null): Slot {
    const token = node?.srcToken
    const start =
      token && (token.type === 'block-map' || token.type === 'block-seq' ? itemStart(itemsOf(token)[0]!) : token.offset)
    const mark = start ?? this.layout.text.length
    return {
      mark,
      start,
      end: token ? contentEnd(token) : mark,
      anchor: undefined,
      token,
      column: -1,
      flow: false,
      lead: '',
    }
  }

  private replace(slot: Slot, node: Node | null, value: Model): Splice[] {
    const quoting = isScalar(node) && value.kind === 'scalar' ? QUOTING[slot.token?.type ?? ''] : undefined
    if (slot.column < 0) return this.replaceRoot(slot, value)
    if (slot.flow || this.manner.json) {
      const below = this.below(slot.mark)
      const text = `${slot.anchor ? `${slot.anchor} ` : ''}${renderFlow(value, this.manner, below, quoting)}`
      return [
        {
          from: slot.start ?? slot.mark,
          to: slot.start === undefined ? slot.mark : slot.end,
          text: slot.start === undefined ? `${slot.lead || ' '}${text}` : text,
        },
      ]
    }
    return this.replaceBlock(slot, value, quoting)
  }

  private replaceRoot(slot: Slot, value: Model): Splice[] {
    const { text, eol } = this.layout
    const single = value.kind === 'scalar' && !this.manner.json
    // At the beginning of a line these would end the document.
    const quoting = single && /^(---|\.\.\.)/.test(String(value.value)) ? Scalar.QUOTE_DOUBLE : undefined
    const body = single ? renderFlow(value, this.manner, undefined, quoting) : renderRoot(value, this.manner).join(eol)
    if (slot.start !== undefined) {
      // A comment behind it would become part of a text at its end.
      const to = body.includes('\n') ? this.layout.lineEnd(slot.end) : slot.end
      return [{ from: slot.start, to, text: body }]
    }
    const before = text && !text.endsWith('\n') ? eol : ''
    return [{ from: text.length, to: text.length, text: `${before}${body}${eol}` }]
  }

  private replaceBlock(slot: Slot, value: Model, quoting: Scalar.Type | undefined): Splice[] {
    const { layout } = this
    const isItem = layout.text[slot.mark - 1] === '-'
    const [first = '', ...tail] = isItem
      ? renderItem(value, this.manner, quoting)
      : renderPair('k', value, this.manner, quoting)
    // `- ` and `k:` are there already.
    const head = first.slice(2).replace(/^ +| +$/g, '')
    const start = slot.start ?? slot.mark
    const below = slot.start !== undefined && layout.lineStart(start) !== layout.lineStart(slot.mark)
    const commented =
      layout.text.slice(below ? slot.mark : slot.end, layout.lineEnd(below ? slot.mark : slot.end)).trim() !== ''
    const compact = isItem && tail.length > 0 && value.kind !== 'scalar'
    const splices: Splice[] = []
    let rows = tail.map(row => (row ? `${' '.repeat(slot.column)}${row}` : row))
    let text = head ? ` ${head}` : ''
    if (compact && commented) {
      // The comment stays on the line of the dash.
      rows = [`${' '.repeat(slot.column + 2)}${head}`, ...rows]
      text = ''
    }
    if (slot.anchor) text = ` ${slot.anchor}${text}`
    const block = rows.map(row => layout.eol + row).join('')
    if (below) {
      const from = layout.lineEnd(slot.mark)
      splices.push({ from: slot.mark, to: slot.mark, text })
      splices.push({ from, to: layout.lineEnd(slot.end), text: block })
    } else {
      splices.push({ from: slot.mark, to: slot.end, text })
      if (block) splices.push({ from: layout.lineEnd(slot.end), to: layout.lineEnd(slot.end), text: block })
    }
    return splices
  }

  private add(map: Node, slot: Slot, key: string, value: Model): Splice[] {
    const items = itemsOf(collectionOf(map))
    if (!items.length) return this.replace(slot, map, mapWith(key, value))
    if (collectionOf(map).type === 'flow-collection') {
      return this.addFlow(items, items.length, below => renderFlowPair(key, value, this.manner, below))
    }
    return this.addLines(items, items.length, renderPair(key, value, this.manner))
  }

  private insert(list: Node, slot: Slot, index: number, value: Model): Splice[] {
    const items = itemsOf(collectionOf(list))
    const at = Math.min(index, items.length)
    if (!items.length) return this.replace(slot, list, listOf([value]))
    if (collectionOf(list).type === 'flow-collection')
      return this.addFlow(items, at, below => renderFlow(value, this.manner, below))
    return this.addLines(items, at, renderItem(value, this.manner))
  }

  private addLines(items: readonly Item[], index: number, rows: readonly string[]): Splice[] {
    const { layout } = this
    const { eol, text } = layout
    const column = layout.column(itemStart(items[0]!))
    const pad = ' '.repeat(column)
    const padded = rows.map(row => (row ? pad + row : row))
    if (index === 0) {
      const at = itemStart(items[0]!)
      // After what stands before the first one on its line: a dash, perhaps.
      return [{ from: at, to: at, text: `${padded.join(eol).slice(column)}${eol}${pad}` }]
    }
    const end = itemEnd(items[index - 1]!)
    const at = layout.nextLine(end)
    const body = padded.join(eol)
    if (at === text.length && !text.endsWith('\n')) return [{ from: at, to: at, text: eol + body }]
    return [{ from: at, to: at, text: body + eol }]
  }

  private addFlow(items: readonly Item[], index: number, render: (below: string | undefined) => string): Splice[] {
    const { layout } = this
    const next = items[index]
    if (index === 0) {
      const at = itemStart(items[0]!)
      const below = layout.leads(at) ? this.below(at) : undefined
      return [{ from: at, to: at, text: `${render(below)},${below ?? ' '}` }]
    }
    const before = items[index - 1]!
    const end = itemEnd(before)
    const comma = (next && commaOf(next)?.offset) ?? this.commaAfter(end)
    const behind = comma === undefined ? end : comma + 1
    const start = itemStart(before)
    const alone = layout.leads(start) && /^[ \t]*(#.*)?\r?$/.test(layout.text.slice(behind, layout.lineEnd(behind)))
    const added: Splice[] = comma === undefined ? [{ from: end, to: end, text: ',' }] : []
    const trailing = comma === undefined ? '' : ','
    if (!alone) {
      return [...added, { from: behind, to: behind, text: ` ${render(undefined)}${trailing}` }]
    }
    const at = layout.lineEnd(behind)
    const below = this.below(start)
    return [...added, { from: at, to: at, text: `${below}${render(below)}${trailing}` }]
  }

  /** A line break, and the indentation of the line. */
  private below(offset: number): string {
    const { text, eol } = this.layout
    return eol + /^[ \t]*/.exec(text.slice(this.layout.lineStart(offset)))![0]
  }

  /** A comma after the last item. */
  private commaAfter(end: number): number | undefined {
    const match = /^(?:\s|#[^\n]*\n)*,/.exec(this.layout.text.slice(end))
    return match ? end + match[0].length - 1 : undefined
  }

  private removeLines(item: Item, next: Item | undefined): Splice[] {
    const { layout } = this
    const start = itemStart(item)
    const end = itemEnd(item)
    if (layout.leads(start)) return [{ from: layout.lineStart(start), to: layout.nextLine(end), text: '' }]
    // The first one, behind a dash: the next one, or its comment, takes its place.
    if (!next) throw new Uneditable('it shares its line with something else', start)
    const line = layout.nextLine(end)
    const blank = /^\s*/.exec(layout.text.slice(line))![0].length
    return [{ from: start, to: line + blank, text: '' }]
  }

  private removeFlow(items: readonly Item[], index: number): Splice[] {
    const { layout } = this
    const item = items[index]!
    const next = items[index + 1]
    const start = itemStart(item)
    const end = itemEnd(item)
    const own = commaOf(item)
    const comma = next ? commaOf(next)!.offset : this.commaAfter(end)
    const behind = comma === undefined ? end : comma + 1
    const last = !next && comma === undefined && own ? [{ from: own.offset, to: own.offset + 1, text: '' }] : []
    const line = layout.text.slice(behind, layout.lineEnd(behind))
    if (layout.leads(start) && /^[ \t]*(#.*)?\r?$/.test(line)) {
      return [...last, { from: layout.lineStart(start), to: layout.nextLine(behind), text: '' }]
    }
    if (next) {
      const blank = /^[ \t]*/.exec(line)![0].length
      return [{ from: start, to: behind + blank, text: '' }]
    }
    const blank = /[ \t]*$/.exec(layout.text.slice(0, start))![0].length
    return [...last, { from: start - (layout.leads(start) ? 0 : blank), to: behind, text: '' }]
  }
}

const isNull = (node: Node) => isScalar(node) && node.value === null
const mapWith = (key: string, value: Model) => mapOf([[key, value]])

/** Of two that begin at the same place the earlier one of the list comes first in the text. */
export function applySplices(text: string, splices: readonly Splice[]): string {
  return splices
    .map((splice, order) => ({ ...splice, order }))
    .sort((a, b) => b.from - a.from || b.order - a.order)
    .reduce((body, { from, to, text: piece }) => body.slice(0, from) + piece + body.slice(to), text)
}
