/** How a booted tree is read: once at the start, and again whenever its files may have changed. */

import { lstatSync } from 'node:fs'
import { resolve } from 'node:path'
import type { RuntimeChange } from '../edit/runtime-change.ts'
import type { KeptTexts, TreeSource } from '../file/load.ts'
import { type ReadOptions, type Rereading, readTree, type TreeFile } from '../file/read.ts'

export interface ReadingOptions extends ReadOptions {
  /**
   * A patch file, the user's own say, that takes the changes which `ctx.loader` is to persist. It need not exist yet;
   * unless it is one of `patches`, it is the first of them.
   */
  writeTo?: string
}

export class TreeReading {
  readonly writeTo: string | undefined
  private readonly source: TreeSource
  private readonly options: ReadingOptions
  private readonly parses: NonNullable<KeptTexts['parses']> = new Map()
  /** What the tree was made from. */
  current: TreeFile
  /** Those of `current`, and all that a later reading looked for which was refused. */
  files: readonly string[]
  /** Made while the tree runs, and in no file. */
  changes: readonly RuntimeChange[] = []

  /** @throws as `readTree` */
  constructor(source: TreeSource, options: ReadingOptions) {
    this.source = source
    this.options = options
    this.writeTo = options.writeTo === undefined ? undefined : resolve(options.writeTo)
    this.current = readTree(source, this.now(), { parses: this.parses })
    this.files = this.filesOf(this.current.files)
  }

  /** Reads the files as they are. @throws as `readTree`; `current` stays */
  read(changes = this.changes, texts?: ReadonlyMap<string, string>): TreeFile {
    const tried = new Set<string>()
    const layers = changes.map(({ layer }) => layer)
    const options = this.now(texts?.has(this.writeTo ?? '') || isPresent(this.writeTo))
    try {
      return readTree(this.source, { ...options, tried }, { layers, parses: this.parses, ...(texts && { texts }) })
    } catch (error) {
      this.files = this.filesOf([...this.current.files, ...tried])
      throw error
    }
  }

  /** What `current` would be with other changes: from the texts and values that it was read from. */
  again(changes: readonly RuntimeChange[]): TreeFile {
    const { sources, evaluate } = this.current
    const read = sources.filter(({ file, text }) => text !== undefined && this.current.files.includes(file))
    const texts = new Map(read.map(({ file, text }) => [file, text!]))
    const again: Rereading = { layers: changes.map(({ layer }) => layer), texts, parses: this.parses, evaluate }
    return readTree(this.source, this.now(texts.has(this.writeTo ?? '')), again)
  }

  /** The tree is now what `file` says, read with `changes`; those that found nothing any more are over. */
  accept(file: TreeFile, changes = this.changes): void {
    this.current = file
    this.files = this.filesOf(file.files)
    this.changes = changes.filter(({ layer }) => layer.used)
    const read = new Set(file.sources.map(source => source.file))
    for (const name of this.parses.keys()) if (!read.has(name)) this.parses.delete(name)
  }

  /** The options, with the file for persisted changes in its place when it is there. */
  private now(there = isPresent(this.writeTo)): ReadOptions {
    const { writeTo, options } = this
    if (writeTo === undefined) return options
    const isOwn = (patch: TreeSource) => !('data' in patch) && resolve(patch.file ?? '') === writeTo
    const { patches = [] } = options
    const all = patches.some(isOwn) ? patches : [{ file: writeTo, layer: 'user' }, ...patches]
    return { ...options, patches: there ? all : all.filter(patch => !isOwn(patch)) }
  }

  private filesOf(files: readonly string[]): string[] {
    return [...new Set([...files, ...(this.writeTo === undefined ? [] : [this.writeTo])])]
  }
}

/** Whatever else is wrong with it, reading it tells. */
function isPresent(file: string | undefined): boolean {
  try {
    return file !== undefined && lstatSync(file, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    // A part of its path is a file.
    return (error as NodeJS.ErrnoException).code !== 'ENOTDIR'
  }
}
