/** The rows of one list while it is put together: what its file says, what layers add to it and take away. */

import { workingFolder } from '@cambium/core'
import type { Insertion, Layer } from './layers.ts'
import { optionSource } from './source.ts'
import { fromData, type Value } from './value.ts'

/** A row that stands first unless there is one of its name, because of an option. */
export interface FrontRow {
  readonly id: string
  readonly name: string
  readonly option: string
}

export interface Draft {
  readonly value: Value
  /** The number of layers that came before the row. */
  readonly born: number
}

export interface NamedDraft extends Draft {
  /** With those of the groups above it. */
  readonly id: string
  readonly index: number
}

/** `group` is the id of the row whose list it is, `''` for the tree's own. */
export function draftRows(
  items: readonly Value[],
  group: string,
  layers: readonly Layer[],
  front?: FrontRow,
): NamedDraft[] {
  const list = new DraftList(items, group, layers)
  if (front) list.begin(front)
  layers.forEach((layer, index) => {
    if (layer.kind === 'insert') list.insert(layer, index + 1)
  })
  return list.named()
}

class DraftList {
  private readonly drafts: Draft[]
  private readonly group: string
  private readonly layers: readonly Layer[]

  constructor(items: readonly Value[], group: string, layers: readonly Layer[]) {
    this.drafts = items.map(value => ({ value, born: 0 }))
    this.group = group
    this.layers = layers
  }

  begin({ option, ...row }: FrontRow): void {
    if (this.drafts.some(({ value }) => scalar(value, 'name') === row.name)) return
    this.drafts.unshift({ value: fromData(row, optionSource(option, workingFolder())), born: 0 })
  }

  insert(layer: Insertion, born: number): void {
    const added = layer.rows.items.map(value => ({ value, born }))
    if (layer.fleeting && this.taken(added, born)) return
    if (!layer.anchor || layer.anchor.relation === 'into') {
      if ((layer.anchor?.id ?? '') !== this.group) return
      this.drafts.push(...added)
    } else {
      const at = this.ids().indexOf(layer.anchor.id)
      if (at >= 0) this.drafts.splice(layer.anchor.relation === 'before' ? at : at + 1, 0, ...added)
      else if (layer.otherwise === this.group) this.drafts.push(...added)
      else return
    }
    layer.used = true
  }

  named(): NamedDraft[] {
    const ids = this.ids()
    return this.drafts.flatMap((draft, index) => {
      const id = ids[index]!
      return this.removed(id, draft.born, this.layers.length) ? [] : { ...draft, id, index }
    })
  }

  private ids(drafts: readonly Draft[] = this.drafts): string[] {
    return idsOf(drafts, this.group)
  }

  /** A row that a file has by now takes the place of one that was added at run time. */
  private taken(added: readonly Draft[], born: number): boolean {
    const [own] = this.ids(added)
    return this.ids().some((id, at) => id === own && !this.removed(id, this.drafts[at]!.born, born - 1))
  }

  /** Whether a layer from `born` on, and before `end`, takes the row away. */
  private removed(id: string, born: number, end: number): boolean {
    const removals = this.layers.slice(born, end).filter(layer => layer.kind === 'remove' && layer.id === id)
    if (!removals.length) return false
    // What is laid over a row that is taken away, or over rows in it, has found it.
    for (const layer of this.layers) {
      const target = layer.kind === 'insert' ? layer.anchor?.id : layer.id
      if (target === id || target?.startsWith(`${id}:`)) layer.used = true
    }
    return true
  }
}

/** The full id of each row of one list; one without an id of its own is the n-th of its name. */
function idsOf(drafts: readonly Draft[], group: string): string[] {
  const counts = new Map<string, number>()
  return drafts.map(({ value }) => {
    const own = scalar(value, 'id')
    const name = scalar(value, 'name') ?? 'row'
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    const id = own ?? `${name}#${count}`
    return group ? `${group}:${id}` : id
  })
}

function scalar(value: Value, key: string): string | undefined {
  const entry = value.kind === 'map' ? value.entries.get(key)?.value : undefined
  if (entry?.kind !== 'scalar' || entry.value === null || entry.value === '') return undefined
  return String(entry.value)
}
