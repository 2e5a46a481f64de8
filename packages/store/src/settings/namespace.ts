/** One plugin's settings: what the layers say, what its schema makes of it, and who wants to know. */

import { type Context, HarnessError, report } from '@cambium/core'
import type Schema from 'schemastery'
import type { Model, ModelEntry } from '../yaml/model.ts'
import { mapOf } from '../yaml/model.ts'
import { dataOf } from '../yaml/render.ts'
import type { SettingsDocument } from './document.ts'
import { check, type Problem } from './schema.ts'

/** Whether a project may say something: only when it is trusted, always (harmless values), or never (endpoints, keys, code). */
export type ProjectPolicy = 'trusted' | 'always' | 'never'

/** What counts. */
export interface SettingsState {
  readonly user: SettingsDocument
  readonly project: SettingsDocument | undefined
  /** The project document is as its user trusted it. */
  readonly trusted: boolean
}

export interface Evaluation {
  /** Undefined when the user's document is wrong. Without the project's part when that is wrong. */
  readonly value: unknown
  readonly user: readonly HarnessError[]
  readonly project: readonly HarnessError[]
  /** Why the project's part does not count although it is there. */
  readonly ignored: HarnessError | undefined
}

export type Watcher = (next: unknown, previous: unknown) => void

export class Namespace {
  readonly name: string
  readonly schema: Schema
  readonly policy: ProjectPolicy
  readonly ctx: Context
  readonly watchers = new Set<Watcher>()
  value: unknown

  constructor(name: string, schema: Schema, policy: ProjectPolicy, ctx: Context) {
    this.name = name
    this.schema = schema
    this.policy = policy
    this.ctx = ctx
  }

  evaluate(state: SettingsState): Evaluation {
    const { user, project } = state
    const own = partOf(user, this.name)
    const alone = this.check(own, user)
    const wanted = project && partOf(project, this.name)
    const ignored = wanted && project ? this.forbidden(state, project) : undefined
    if ('mistakes' in alone) return { value: undefined, user: alone.mistakes, project: [], ignored }
    if (!wanted || !project || ignored) return { value: alone.value, user: [], project: [], ignored }
    const both = this.check(own ? laidOver(own, wanted) : wanted, project)
    if ('mistakes' in both) return { value: alone.value, user: [], project: both.mistakes, ignored }
    return { value: both.value, user: [], project: [], ignored }
  }

  /** Tells the watchers in order; one that throws is reported, and the rest are told. */
  tell(next: unknown, previous: unknown) {
    for (const watcher of [...this.watchers]) {
      try {
        watcher(next, previous)
      } catch (error) {
        report(this.ctx, `a watcher of the settings of ${this.name}`, error)
      }
    }
  }

  private check(model: Model | undefined, document: SettingsDocument) {
    const checked = check(this.schema, model && dataOf(model))
    if ('value' in checked) return checked
    return { mistakes: checked.problems.map(problem => this.mistake(problem, document)) }
  }

  private mistake({ path, problem, fix }: Problem, document: SettingsDocument) {
    const all = [this.name, ...path]
    return new HarnessError('STORE_SETTINGS_INVALID', `${all.map(String).join('.')}: ${problem}`, {
      where: document.placeOf(all),
      fix,
    })
  }

  private forbidden(state: SettingsState, project: SettingsDocument): HarnessError | undefined {
    if (this.policy === 'always' || (this.policy === 'trusted' && state.trusted)) return undefined
    const where = project.placeOf([this.name])
    if (this.policy === 'never') {
      return new HarnessError(
        'STORE_SETTINGS_NOT_FOR_PROJECTS',
        `${this.name}: a project cannot set this; it is ignored`,
        {
          where,
          fix: 'move it to your own settings, in the home folder',
        },
      )
    }
    return new HarnessError('STORE_SETTINGS_UNTRUSTED', `${this.name}: the project is not trusted; it is ignored`, {
      where,
      fix: 'look at the file, and trust the project with `cambium trust`',
    })
  }
}

/** `namespace:` with nothing behind it says nothing. */
export function partOf(document: SettingsDocument, name: string): Model | undefined {
  const model = document.namespaces.get(name)?.value
  return model?.kind === 'scalar' && model.value === null ? undefined : model
}

/** Maps are merged key by key; all else is replaced. */
function laidOver(below: Model, above: Model): Model {
  if (below.kind !== 'map' || above.kind !== 'map') return above
  const merged = new Map([...below.entries].map(([key, { value }]): [string, Model] => [key, value]))
  for (const [key, { value }] of above.entries as ReadonlyMap<string, ModelEntry>) {
    const under = merged.get(key)
    merged.set(key, under ? laidOver(under, value) : value)
  }
  return mapOf(merged)
}
