/** What rows hand over to their next run: `ctx.loader.keep`. */

import type { Row } from '../file/row.ts'

interface Kept {
  /** The plugin that made it; another one under the same id starts afresh. */
  readonly name: string
  readonly values: Map<string, unknown>
}

export class KeptState {
  private rows = new Map<string, Kept>()
  private names = new Map<string, string>()

  keep<T>(row: string, key: string, create: () => T): T {
    const kept = this.rows.get(row) ?? { name: this.names.get(row) ?? '', values: new Map() }
    this.rows.set(row, kept)
    if (!kept.values.has(key)) kept.values.set(key, create())
    return kept.values.get(key) as T
  }

  /** `rows` are about to run; the undo brings back what there was before, for a change that fails. */
  expect(rows: readonly Row[]): () => void {
    const before = { rows: copy(this.rows), names: this.names }
    this.names = new Map(rows.map(({ id, name }) => [id, name]))
    for (const [id, { name }] of this.rows) if (this.names.get(id) !== name) this.rows.delete(id)
    return () => Object.assign(this, before)
  }
}

function copy(rows: ReadonlyMap<string, Kept>): Map<string, Kept> {
  return new Map([...rows].map(([id, { name, values }]) => [id, { name, values: new Map(values) }]))
}
