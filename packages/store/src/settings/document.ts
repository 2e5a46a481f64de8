/** A settings file as it was read: a map of namespaces, each place known. */

import { isAbsolute, relative } from 'node:path'
import { HarnessError, workingFolder } from '@cambium/core'
import { readBounded } from '../read-bounded.ts'
import { placeIn } from '../yaml/edit.ts'
import type { Model, ModelEntry } from '../yaml/model.ts'
import { parseYaml } from '../yaml/parse.ts'

export type Layer = 'user' | 'project'

export interface SettingsDocument {
  readonly layer: Layer
  readonly file: string
  /** How the file is called in messages. */
  readonly label: string
  /** The very bytes; undefined when there is no file. */
  readonly content: Buffer | undefined
  readonly text: string
  readonly namespaces: ReadonlyMap<string, ModelEntry>
  /** `settings.yml:3:7`, or of the nearest above that is written. */
  readonly placeOf: (path: readonly PropertyKey[]) => string
}

const MAX_BYTES = 2 ** 20
/** What aliases unfold to. */
const MAX_VALUES = 100_000

/** @throws `STORE_YAML_SYNTAX`, `STORE_SETTINGS_INVALID`, or as `diskError`. A message never quotes a value. */
export function readDocument(layer: Layer, file: string): SettingsDocument {
  return documentOf(layer, file, readBounded(file, MAX_BYTES))
}

export function documentOf(layer: Layer, file: string, content: Buffer | undefined): SettingsDocument {
  const label = labelOf(file)
  const text = decode(content, label)
  const parsed = parseYaml(text.replace(/^\ufeff/, ''), label)
  const { model } = parsed
  const placeOf = (path: readonly PropertyKey[]) => parsed.placeOf(placeIn(model, path as (string | number)[]))
  if (model.kind !== 'map' && !(model.kind === 'scalar' && model.value === null)) {
    throw invalid(
      'settings are a map from namespaces to their values',
      'write `namespace:` and its keys below',
      `${label}:1:1`,
    )
  }
  new Inspection(parsed.placeOf).inspect(model)
  return { layer, file, label, content, text, namespaces: model.kind === 'map' ? model.entries : new Map(), placeOf }
}

export function labelOf(file: string): string {
  const short = relative(workingFolder(), file)
  return short && !short.startsWith('..') && !isAbsolute(short) ? short : file
}

function decode(content: Buffer | undefined, label: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
  } catch {
    throw invalid('the file is not UTF-8', 'save it as UTF-8', label)
  }
}

function invalid(problem: string, fix: string, where: string) {
  return new HarnessError('STORE_SETTINGS_INVALID', problem, { fix, where })
}

/** Refuses what no setting can be, once for each value however often it is referred to. */
class Inspection {
  private readonly sizes = new Map<Model, number>()
  private readonly placeOf: (offset: number) => string

  constructor(placeOf: (offset: number) => string) {
    this.placeOf = placeOf
  }

  inspect(model: Model): number {
    const known = this.sizes.get(model)
    if (known !== undefined) return known
    if (model.tag)
      throw invalid(`settings have no tags, and this is ${model.tag}`, 'write a plain value', this.placeOf(model.at))
    let size = 1
    if (model.kind === 'list') for (const item of model.items) size += this.inspect(item)
    if (model.kind === 'map') {
      for (const [key, { at, value }] of model.entries) {
        // Plugins copy settings by assignment, to which this is no key.
        if (key === '__proto__') throw invalid('no setting is called __proto__', 'remove it', this.placeOf(at))
        size += this.inspect(value)
      }
    }
    if (size > MAX_VALUES) {
      throw invalid('its aliases unfold to too much', 'write fewer of them', this.placeOf(model.at))
    }
    this.sizes.set(model, size)
    return size
  }
}
