/** What public plugins look at to learn which row they are: `fiber.entry` and `ctx.loader`. */

import { type Context, type Fiber, Service } from '@cambium/core'
import type { Entry } from '@cordisjs/loader'
import type { Row } from './row.ts'

/** The key under which a row's context carries its entry; the one that @cordisjs/loader uses. */
export const ENTRY = Symbol.for('cordis.entry')

/** The part of an `Entry` that is read from outside; it is never driven. */
export class RowEntry {
  readonly loader: TreeLoader
  readonly parent: { readonly tree: TreeLoader; readonly ctx: Context }
  row: Row
  ctx: Context
  fiber: Fiber | undefined

  constructor(loader: TreeLoader, parent: Context, row: Row) {
    this.loader = loader
    this.parent = { tree: loader, ctx: parent }
    this.ctx = parent
    this.row = row
  }

  get id() {
    return this.row.id
  }

  get disabled() {
    return this.row.disabled
  }

  get options() {
    const { id, name, config, disabled, inject, isolate, intercept, kind } = this.row
    return { id: id.split(':').at(-1)!, name, config, disabled, inject, isolate, intercept, group: kind !== 'plugin' }
  }
}

/** `ctx.loader`, for reading: the rows that are mounted, and which of them a fiber belongs to. */
export class TreeLoader extends Service {
  readonly list: () => Iterable<RowEntry>

  constructor(ctx: Context, list: () => Iterable<RowEntry>) {
    super(ctx, 'loader')
    this.list = list
  }

  *entries(): Generator<RowEntry, void, void> {
    yield* this.list()
  }

  resolve(id: string): RowEntry {
    for (const entry of this.list()) if (entry.id === id) return entry
    throw new Error(`cannot resolve entry ${id}`)
  }

  /** The id of the row that `fiber`, by default the caller's, belongs to. */
  locate(fiber: Fiber = this.ctx.fiber): string | undefined {
    for (let at = fiber; ; at = at.parent.fiber) {
      const { entry } = at as { entry?: { id: string } }
      if (entry) return entry.id
      if (at === at.parent.fiber) return undefined
    }
  }

  getTasks(): Promise<void>[] {
    return [...this.list()].flatMap(({ fiber }) => fiber?.inertia ?? [])
  }

  async await(): Promise<void> {
    for (let tasks = this.getTasks(); tasks.length; tasks = this.getTasks()) await Promise.allSettled(tasks)
  }
}

/** Types of the public names come from @cordisjs/loader, whose classes are not driven here. */
export function tagFiber(fiber: Fiber, entry: RowEntry): void {
  ;(fiber as { entry?: Entry }).entry = entry as unknown as Entry
}
