/** Which file imports which, as far as imports have been seen. Files are their URLs, without versions. */

import type { Edge } from './hook.ts'

interface FileRecord {
  /** What it imports, by its own version: what runs may import other files than what a reload tried. */
  readonly imports: Map<number, Set<string>>
  /** Of the last import. */
  version: number
  /** Of the last import that a reload did not give up. */
  live: number
  /** When its last version was first asked for, in milliseconds since 1970. */
  at: number
}

export class ModuleGraph {
  private readonly records = new Map<string, FileRecord>()

  record({ parent, parentVersion, child, childVersion, at }: Edge): void {
    if (parent) this.importsOf(parent, parentVersion).add(child)
    const record = this.get(child)
    if (record.version === childVersion) return
    record.version = childVersion
    record.at = at
  }

  /** An edge that no hook saw. */
  add(parent: string, child: string): void {
    this.importsOf(parent, this.get(parent).version).add(child)
    this.get(child)
  }

  files(): Iterable<string> {
    return this.records.keys()
  }

  has(file: string): boolean {
    return this.records.has(file)
  }

  /** When what is loaded of the file may have been read. */
  loadedAt(file: string): number | undefined {
    return this.records.get(file)?.at
  }

  /** `files`, and all that import them, directly or through others. `more` are edges from other sources. */
  above(files: Iterable<string>, more: Iterable<readonly [parent: string, child: string]> = []): Set<string> {
    const importers = new Map<string, Set<string>>()
    const add = (parent: string, child: string) => {
      const known = importers.get(child)
      if (known) known.add(parent)
      else importers.set(child, new Set([parent]))
    }
    for (const [parent, { imports }] of this.records)
      for (const children of imports.values()) for (const child of children) add(parent, child)
    for (const [parent, child] of more) add(parent, child)
    const above = new Set(files)
    // A set is iterated to what is added meanwhile, and holds each file once: cycles end.
    for (const file of above) for (const parent of importers.get(file) ?? []) above.add(parent)
    return above
  }

  /** The reload by these versions has succeeded: what the files imported before counts no longer. */
  commit(versions: readonly number[]): void {
    for (const record of this.records.values()) {
      if (!versions.includes(record.version)) continue
      record.live = record.version
      this.prune(record)
    }
  }

  /** The reload was given up: what it tried to import is mended perhaps, and is kept till the next one. */
  discard(versions: readonly number[]): void {
    for (const record of this.records.values()) if (versions.includes(record.version)) this.prune(record)
  }

  private prune({ imports, live, version }: FileRecord): void {
    for (const other of imports.keys()) if (other !== live && other !== version) imports.delete(other)
  }

  private importsOf(file: string, version: number): Set<string> {
    const { imports } = this.get(file)
    const children = imports.get(version) ?? new Set()
    imports.set(version, children)
    return children
  }

  private get(file: string): FileRecord {
    const record = this.records.get(file) ?? { imports: new Map(), version: 0, live: 0, at: Date.now() }
    this.records.set(file, record)
    return record
  }
}
