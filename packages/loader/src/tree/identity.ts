/** What public plugins look at to learn which row they are: `fiber.entry`. */

import type { Context, Fiber } from '@cambium/core'
import type { Row } from '../file/row.ts'

declare module 'cordis' {
  interface Fiber {
    entry?: RowEntry
  }
}

/** The key under which a row's context carries its entry; the one that `@cordisjs/loader` uses. */
export const ENTRY = Symbol.for('cordis.entry')

/** The part of an `Entry` that is read from outside; it is never driven. */
export class RowEntry {
  readonly loader: Context['loader']
  readonly parent: { readonly tree: Context['loader']; readonly ctx: Context }
  row: Row
  ctx: Context
  fiber: Fiber | undefined

  constructor(loader: Context['loader'], parent: Context, row: Row) {
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

/** The fiber of a row carries its entry under the name that public plugins look at. */
export function tagFiber(fiber: Fiber, entry: RowEntry): void {
  fiber.entry = entry
}
