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

export class TreeFiles {
  /** Absolute paths of all that was read, or tried. */
  readonly names: Set<string>
  readonly sources: Source[] = []
  private readonly mistakes: HarnessError[]
  /** An included file is parsed once, so that its expressions are evaluated once. */
  private readonly included = new Map<string, { value: Value | undefined }>()

  constructor(mistakes: HarnessError[], names = new Set<string>()) {
    this.mistakes = mistakes
    this.names = names
  }

  parse(from: TreeSource, source: Source): Value | undefined {
    this.sources.push(source)
    if ('data' in from) return fromData(from.data, source)
    const text = 'text' in from ? from.text : this.read(source.file, undefined)
    return text === undefined ? undefined : parseYaml(text, source, this.mistakes)
  }

  /** The value of a file that is named at `where`; undefined when it has mistakes, which are told then. */
  include(file: string, where: string, layer: string | undefined): { value: Value | undefined } | undefined {
    const known = this.included.get(file)
    if (known) return known
    const text = this.read(file, where)
    if (text === undefined) return undefined
    const before = this.mistakes.length
    const source = createSource(file, layer)
    this.sources.push(source)
    const included = { value: parseYaml(text, source, this.mistakes) }
    if (this.mistakes.length > before) return undefined
    this.included.set(file, included)
    return included
  }

  private read(file: string, where: string | undefined): string | undefined {
    this.names.add(file)
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
              : 'name a file that exists'
      this.mistakes.push(
        new HarnessError('TREE_FILE_UNREADABLE', `${createSource(file).label}: ${what}`, { where, fix, cause: error }),
      )
      return undefined
    }
  }
}
