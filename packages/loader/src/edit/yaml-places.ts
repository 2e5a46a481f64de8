/** Where rows and values stand in the texts of a tree: as paths of keys and indexes. */

import { HarnessError } from '@cambium/core'
import { type Model, parseYaml } from '@cambium/store/yaml'
import type { TreeFile } from '../file/read.ts'
import type { Row } from '../file/row.ts'
import { labelOf, type Spot } from '../file/source.ts'
import { readTextFile } from '../file/text-file.ts'
import type { TreeReading } from '../tree/reading.ts'
import type { Creation, RuntimeChange } from './runtime-change.ts'

export interface Place {
  readonly file: string
  readonly path: readonly (string | number)[]
}

/** The texts of the tree's files, and where things stand in them. */
export class Texts {
  readonly writeTo: string | undefined
  private readonly tree: TreeFile
  private readonly texts = new Map<string, string | undefined>()
  private readonly models = new Map<string, Model>()

  constructor({ writeTo }: TreeReading, tree: TreeFile) {
    this.writeTo = writeTo
    this.tree = tree
  }

  /** Undefined when there is no such file. */
  get(file: string): string | undefined {
    if (!this.texts.has(file)) this.texts.set(file, readIfThere(file))
    return this.texts.get(file)
  }

  /** The items of the list that the file is. */
  items(file: string): readonly Model[] {
    const model = this.model(file)
    return model.kind === 'list' ? model.items : []
  }

  placeOfMap(spot: Spot, change: RuntimeChange): Place {
    return this.place(spot, change, ({ at, kind }) => kind === 'map' && at === spot.offset)
  }

  placeOfKey(spot: Spot, key: string, change: RuntimeChange): Place {
    return this.place(spot, change, (_value, own, at) => own === key && at === spot.offset)
  }

  /** A patch finds rows by their ids: those that only this program adds, and those that go by number, are not to be relied on. */
  requireLasting({ id, written }: Row, change: RuntimeChange): void {
    if (/#\d+(:|$)/.test(id)) throw cannot(change, `${id} is no id of its own: give the row one`)
    const { source } = written.spot
    if (source.text !== undefined || source === this.tree.sources[0]) return
    throw cannot(change, `the row ${id} stands in no file: this program added it`)
  }

  private place({ source }: Spot, change: RuntimeChange, fits: Fits): Place {
    const { file, text, label } = source
    if (text === undefined || !this.tree.files.includes(file)) {
      throw cannot(change, `it is said by ${label}, which is no file and would go on overruling what a file says`)
    }
    const path = this.get(file)?.replace(/^\ufeff/, '') === text ? pathTo(this.model(file), fits) : undefined
    if (!path) throw cannot(change, `its place in ${label} cannot be found any more`)
    return { file, path }
  }

  private model(file: string): Model {
    const text = (this.get(file) ?? '').replace(/^\ufeff/, '')
    const model = this.models.get(file) ?? parseYaml(text, labelOf(file)).model
    this.models.set(file, model)
    return model
  }
}

function readIfThere(file: string): string | undefined {
  try {
    return readTextFile(file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new HarnessError('TREE_FILE_UNREADABLE', `${labelOf(file)} cannot be read`, {
      where: labelOf(file),
      cause: error,
    })
  }
}

type Fits = (value: Model, key: string | number | undefined, keyAt: number | undefined) => boolean

/** The first path whose end fits; an alias is followed only where its anchor was not seen, so at the anchor itself. */
function pathTo(root: Model, fits: Fits): (string | number)[] | undefined {
  const seen = new Set<Model>()
  const search = (model: Model, path: (string | number)[], keyAt?: number): (string | number)[] | undefined => {
    if (fits(model, path.at(-1), keyAt)) return path
    if (model.kind === 'scalar' || seen.has(model)) return undefined
    seen.add(model)
    if (model.kind === 'list') {
      for (const [index, item] of model.items.entries()) {
        const found = search(item, [...path, index])
        if (found) return found
      }
      return undefined
    }
    for (const [key, { at, value }] of model.entries) {
      const found = search(value, [...path, key], at)
      if (found) return found
    }
    return undefined
  }
  return search(root, [])
}

export const entriesOf = (model: Model | undefined) => (model?.kind === 'map' ? model.entries : undefined)

export function scalarAt(model: Model, key: string): unknown {
  const value = entriesOf(model)?.get(key)?.value
  return value?.kind === 'scalar' ? value.value : undefined
}

export function cannot(change: RuntimeChange, problem: string): HarnessError {
  const row = change.kind === 'create' ? undefined : change.row
  return new HarnessError('LOADER_PERSIST', `the change cannot be written to a file: ${problem}`, {
    where: row ? `${row.at} (row ${row.id})` : `the new row ${(change as Creation).id}`,
    fix: 'edit the file by hand; nothing was written, and the tree is as before',
  })
}
