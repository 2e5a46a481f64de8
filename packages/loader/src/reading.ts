/** How a booted tree is read: once at the start, and again whenever its files may have changed. */

import type { TreeSource } from './load.ts'
import { type ReadOptions, readTree, type TreeFile } from './read.ts'

export class TreeReading {
  private readonly source: TreeSource
  private readonly options: ReadOptions
  /** What the tree was made from. */
  current: TreeFile
  /** Those of `current`, and all that a later reading looked for which was refused. */
  files: readonly string[]

  /** @throws as `readTree` */
  constructor(source: TreeSource, options: ReadOptions) {
    this.source = source
    this.options = options
    this.current = readTree(source, options)
    this.files = this.current.files
  }

  /** @throws as `readTree`; `current` stays */
  read(): TreeFile {
    const tried = new Set<string>()
    try {
      return readTree(this.source, { ...this.options, tried })
    } catch (error) {
      this.files = [...new Set([...this.current.files, ...tried])]
      throw error
    }
  }

  /** The tree is now what `file` says. */
  accept(file: TreeFile): void {
    this.current = file
    this.files = file.files
  }
}
