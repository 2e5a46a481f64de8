/** The texts of a tree: its own file, patches and includes. */

import { HarnessError } from '@cambium/core'
import { createSource, type Source } from './source.ts'
import { readTextFile } from './text-file.ts'
import { fromData, type Value } from './value.ts'
import { parseYaml } from './yaml.ts'

/**
 * A tree's text: a file, or text that is treated as if it stood in `file` (`./cordis.yml` by default). A program may
 * give the data that such a text would have.
 */
export type TreeSource = (
  | { readonly file: string }
  | { readonly text: string; readonly file?: string }
  | { readonly data: unknown; readonly file?: string }
) & {
  /** A name for whose text it is; what is read from it tells it in its provenance. */
  readonly layer?: string
}

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EACCES: 'there is no permission to read it',
  EISDIR: 'it is a folder',
  EFBIG: 'it has more than 64 MiB, or no end',
  EILSEQ: 'it is not UTF-8',
  ETIMEDOUT: 'nothing comes out of it',
}

/** What is known from before of the texts of a tree. */
export interface KeptTexts {
  /** Texts that stand for those on disk, by the file's path. */
  readonly texts?: ReadonlyMap<string, string>
  /** What was parsed last of each file; is added to. */
  readonly parses?: Map<string, { readonly text: string; readonly source: Source; readonly value: Value | undefined }>
}

export class TreeFiles {
  /** Absolute paths of all that was read, or tried. */
  readonly names: Set<string>
  readonly sources: Source[] = []
  private readonly mistakes: HarnessError[]
  private readonly kept: KeptTexts
  /** An included file is parsed once, so that its expressions are evaluated once. */
  private readonly included = new Map<string, { value: Value | undefined }>()

  constructor(mistakes: HarnessError[], names = new Set<string>(), kept: KeptTexts = {}) {
    this.mistakes = mistakes
    this.names = names
    this.kept = kept
  }

  parse(from: TreeSource, source: Source): Value | undefined {
    if ('data' in from) {
      this.sources.push(source)
      return fromData(from.data, source)
    }
    const text = 'text' in from ? from.text : this.read(source.file, undefined)
    return text === undefined ? undefined : this.valueOf(text, source)
  }

  /** The value of a file that is named at `where`; undefined when it has mistakes, which are told then. */
  include(file: string, where: string, layer: string | undefined): { value: Value | undefined } | undefined {
    const known = this.included.get(file)
    if (known) return known
    const text = this.read(file, where)
    if (text === undefined) return undefined
    const before = this.mistakes.length
    const included = { value: this.valueOf(text, createSource(file, layer)) }
    if (this.mistakes.length > before) return undefined
    this.included.set(file, included)
    return included
  }

  private valueOf(text: string, source: Source): Value | undefined {
    const parses = this.kept.parses
    const known = parses?.get(source.file)
    if (known && known.text === text && known.source.layer === source.layer) {
      this.sources.push(known.source)
      return known.value
    }
    this.sources.push(source)
    const before = this.mistakes.length
    const value = parseYaml(text, source, this.mistakes)
    if (this.mistakes.length === before) parses?.set(source.file, { text, source, value })
    return value
  }

  private read(file: string, where: string | undefined): string | undefined {
    this.names.add(file)
    const given = this.kept.texts?.get(file)
    if (given !== undefined) return given
    try {
      return readTextFile(file)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      const what = UNREADABLE[code ?? ''] ?? `it cannot be read (${code})`
      const fix =
        code === 'EISDIR'
          ? 'name a file in it'
          : code === 'EILSEQ'
            ? 'save it as UTF-8'
            : where
              ? 'correct the path; it is relative to the file that names it'
              : 'name a file that exists, or make one with an agent in it: cordis create app <name>'
      this.mistakes.push(
        new HarnessError('TREE_FILE_UNREADABLE', `${createSource(file).label}: ${what}`, { where, fix, cause: error }),
      )
      return undefined
    }
  }
}
