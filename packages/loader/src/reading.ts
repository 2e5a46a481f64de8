/** How a booted tree is read: once at the start, and again whenever its files may have changed. */

import { lstatSync } from 'node:fs'
import { resolve } from 'node:path'
import type { KeptTexts, TreeSource } from './load.ts'
import { type ReadOptions, type Rereading, readTree, type TreeFile } from './read.ts'
import type { RuntimeChange } from './runtime-change.ts'

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
    const options = this.now(texts)
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
    const texts = new Map(sources.flatMap(({ file, text }) => (text === undefined ? [] : [[file, text]])))
    const again: Rereading = { layers: changes.map(({ layer }) => layer), texts, parses: this.parses, evaluate }
    return readTree(this.source, this.now(texts), again)
  }

  /** The tree is now what `file` says, read with `changes`; those that found nothing any more are over. */
  accept(file: TreeFile, changes = this.changes): void {
    this.current = file
    this.files = this.filesOf(file.files)
    this.changes = changes.filter(({ layer }) => layer.used)
  }

  /** The options, with the file for persisted changes in its place when it is there. */
  private now(texts?: ReadonlyMap<string, string>): ReadOptions {
    const { writeTo, options } = this
    if (writeTo === undefined) return options
    const patches = options.patches ?? []
    const named = patches.some(
      patch => patch.file !== undefined && resolve(patch.file) === writeTo && !('data' in patch),
    )
    const there = texts?.has(writeTo) || isPresent(writeTo)
    const own: TreeSource = { file: writeTo, layer: 'user' }
    if (named)
      return there
        ? options
        : { ...options, patches: patches.filter(({ file }) => file === undefined || resolve(file) !== writeTo) }
    return there ? { ...options, patches: [own, ...patches] } : options
  }

  private filesOf(files: readonly string[]): string[] {
    return [...new Set([...files, ...(this.writeTo === undefined ? [] : [this.writeTo])])]
  }
}

/** Whatever else is wrong with it, reading it tells. */
function isPresent(file: string): boolean {
  try {
    return lstatSync(file, { throwIfNoEntry: false }) !== undefined
  } catch (error) {
    // A part of its path is a file.
    return (error as NodeJS.ErrnoException).code !== 'ENOTDIR'
  }
}
