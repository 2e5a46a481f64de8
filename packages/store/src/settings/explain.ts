/** Where each setting comes from. */

import { isSchemastery } from '@cambium/core'
import type { Model } from '../yaml/model.ts'
import { dataOf } from '../yaml/render.ts'
import type { Layer, SettingsDocument } from './document.ts'
import { type Namespace, partOf, type SettingsState } from './namespace.ts'
import { isSecret } from './schema.ts'

export interface ExplainedSetting {
  readonly path: readonly string[]
  /** Absent for what is secret, and for what no plugin has defined: it may be. */
  readonly value?: unknown
  readonly secret?: true
  readonly layer: Layer | 'default'
  /** `file:line:col` of its key; absent for a default. */
  readonly where?: string
}

export interface IgnoredSettings {
  readonly layer: Layer
  readonly where: string
  readonly reason: string
}

export interface ExplainedNamespace {
  readonly namespace: string
  /** The plugin that defines it; absent for one that only stands in a document. */
  readonly definedBy?: string
  readonly settings: readonly ExplainedSetting[]
  /** What a document says without effect, and why. */
  readonly ignored: readonly IgnoredSettings[]
}

export function explainDefined(space: Namespace, state: SettingsState): ExplainedNamespace {
  const { ignored, project } = space.evaluate(state)
  const documents = [...(state.project && !ignored && !project.length ? [state.project] : []), state.user]
  const settings = leavesOf(space.value, []).map(([path, value]): ExplainedSetting => {
    const shown = isSchemastery(space.schema) && isSecret(space.schema, path) ? { secret: true as const } : { value }
    const from = documents.find(document => says(partOf(document, space.name), path))
    if (!from) return { path, ...shown, layer: 'default' }
    return { path, ...shown, layer: from.layer, where: from.placeOf([space.name, ...path]) }
  })
  const reasons = [...(ignored ? [ignored] : []), ...project]
  return {
    namespace: space.name,
    definedBy: space.ctx.fiber.name,
    settings,
    ignored: reasons.map(({ where = '', problem }) => ({ layer: 'project', where, reason: problem })),
  }
}

/** Of a namespace that no plugin defines; undefined when no document has it either. */
export function explainOrphan(name: string, documents: readonly SettingsDocument[]): ExplainedNamespace | undefined {
  const having = documents.filter(document => document.namespaces.has(name))
  if (!having.length) return undefined
  return {
    namespace: name,
    settings: having.flatMap(document =>
      leavesOf(dataOf(document.namespaces.get(name)!.value), []).map(([path]) => ({
        path,
        layer: document.layer,
        where: document.placeOf([name, ...path]),
      })),
    ),
    ignored: having.map(document => ({
      layer: document.layer,
      where: document.placeOf([name]),
      reason: 'no plugin that is mounted defines it',
    })),
  }
}

function leavesOf(value: unknown, path: readonly string[]): [readonly string[], unknown][] {
  const isMap = typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
  const entries = isMap ? Object.entries(value) : []
  if (!entries.length) return [[path, value]]
  return entries.flatMap(([key, inner]) => leavesOf(inner, [...path, key]))
}

/** Whether a document gives this value, itself or as part of what it gives whole. */
function says(model: Model | undefined, path: readonly string[]): boolean {
  if (!model) return false
  const [key, ...rest] = path
  if (key === undefined || model.kind !== 'map') return true
  return says(model.entries.get(key)?.value, rest)
}
