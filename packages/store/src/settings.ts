/** Settings of plugins, from the user's document and the project's: checked, explained, watched, and written with comments kept. */

import { resolve } from 'node:path'
import { type Context, HarnessError, Service, workingFolder } from '@cambium/core'
import Schema from 'schemastery'
import { homeFolder } from './home-folder.ts'
import type { Layer } from './settings/document.ts'
import { type ExplainedNamespace, explainDefined, explainOrphan } from './settings/explain.ts'
import { Namespace, type ProjectPolicy } from './settings/namespace.ts'
import { SettingsStore } from './settings/settings-store.ts'
import type { YamlEdit } from './yaml/edit.ts'

export type { Layer } from './settings/document.ts'
export type { ExplainedNamespace, ExplainedSetting, IgnoredSettings } from './settings/explain.ts'
export type { ProjectPolicy } from './settings/namespace.ts'

export const name = 'settings'
export const provide = ['settings']

export interface Config {
  home?: string
  cwd?: string
}

export const Config: Schema<Config> = Schema.object({
  home: Schema.string().description(
    'Where the user’s settings.yml and the list of trusted projects are; the harness’s home by default',
  ),
  cwd: Schema.string().description('Where the project is looked for, from here up; the working folder by default'),
})

/** `a.b`, or the keys one by one; empty for the whole namespace. */
export type SettingPath = string | readonly (string | number)[]

export interface SettingsHandle<T> {
  /** What counts now: the schema's defaults, the user's document, the project's as far as it has a say. Deep-frozen. */
  get(): T
  /** Called after the value has become another one, in the order of registration; should not throw. Ends with the plugin, or by the answer. */
  watch(listener: (next: T, previous: T) => void): () => void
  /**
   * Writes a value into a document (the user's by default), with all else in it kept. What counts has changed when this
   * resolves, unless a layer above says otherwise.
   *
   * @throws `STORE_SETTINGS_INVALID` when the value does not fit, `STORE_SETTINGS_UNTRUSTED` or
   * `STORE_SETTINGS_NOT_FOR_PROJECTS` when the project has no say, `STORE_EDIT_UNSAFE`, `STORE_LOCKED`,
   * `STORE_READ_ONLY`; nothing is written then
   */
  set(path: SettingPath, value: unknown, options?: { layer?: Layer }): Promise<void>
  /** Takes a value out of a document, so that the layer below counts. */
  unset(path: SettingPath, options?: { layer?: Layer }): Promise<void>
}

/** Settings that plugins define and people write. */
export interface Settings {
  /**
   * Defines the settings of a plugin, under a namespace of their own, for as long as the calling plugin lives.
   * `project` says when a project's document counts: when it is `trusted` (default), `always` (harmless values), `never`
   * (endpoints, keys, code).
   *
   * @throws `STORE_SETTINGS_DUPLICATE`; `STORE_SETTINGS_INVALID` with file and line when the user's document does not fit
   */
  define<S, T>(namespace: string, schema: Schema<S, T>, options?: { project?: ProjectPolicy }): SettingsHandle<T>
  /** Each value with the layer and the line that it comes from; also of namespaces that no plugin defines. */
  explain(namespace: string): ExplainedNamespace | undefined
  explain(): readonly ExplainedNamespace[]
}

declare module 'cordis' {
  interface Context {
    /** What people set, for themselves and for a project: defined by plugins, checked, watched, written with comments kept. */
    settings: Settings
  }
  interface Events {
    /** notify: the resolved settings of a namespace have become others; after its own watchers. */
    'settings/changed'(namespace: string, next: unknown, previous: unknown): void
    /** notify: a document, or a part of one, does not count, and why; what was good before stays. */
    'settings/refused'(error: HarnessError): void
  }
}

export function apply(ctx: Context, config: Config) {
  const home = resolve(config.home ?? homeFolder())
  const cwd = resolve(config.cwd ?? workingFolder())
  new SettingsService(ctx, { home, cwd })
}

class SettingsService extends Service implements Settings {
  private readonly store: SettingsStore

  constructor(ctx: Context, folders: { home: string; cwd: string }) {
    super(ctx, 'settings')
    this.store = new SettingsStore(folders, {
      changed: (space, next, previous) => {
        space.tell(next, previous)
        ctx.emit('settings/changed', space.name, next, previous)
      },
      refused: error => {
        ctx.logger.warn(error)
        ctx.emit('settings/refused', error)
      },
    })
    ctx.effect(() => () => this.store.close(), 'settings documents')
  }

  define<S, T>(namespace: string, schema: Schema<S, T>, options: { project?: ProjectPolicy } = {}): SettingsHandle<T> {
    const { ctx, store } = this
    if (!/^[A-Za-z][\w.-]*$/.test(namespace)) {
      throw new HarnessError('STORE_SETTINGS_NAME', `${JSON.stringify(namespace)} is no name for settings`, {
        where: ctx.fiber.name,
        fix: 'use letters, digits, `.`, `_` and `-`, a letter first',
      })
    }
    const holder = store.namespaces.get(namespace)?.ctx.fiber.name
    if (holder !== undefined) {
      throw new HarnessError(
        'STORE_SETTINGS_DUPLICATE',
        `the settings "${namespace}" are already defined by ${holder}`,
        {
          where: ctx.fiber.name,
          fix: `rename one of the two, or disable ${holder}`,
        },
      )
    }
    const space = new Namespace(namespace, schema as unknown as Schema, options.project ?? 'trusted', ctx)
    ctx.effect(() => {
      store.admit(space)
      return () => {
        if (store.namespaces.get(namespace) === space) store.namespaces.delete(namespace)
      }
    }, `settings ${namespace}`)
    return new Handle<T>(store, space)
  }

  explain(namespace: string): ExplainedNamespace | undefined
  explain(): readonly ExplainedNamespace[]
  explain(namespace?: string): ExplainedNamespace | readonly ExplainedNamespace[] | undefined {
    const { namespaces, state } = this.store
    const documents = [state.user, ...(state.project ? [state.project] : [])]
    const one = (key: string) => {
      const space = namespaces.get(key)
      return space ? explainDefined(space, state) : explainOrphan(key, documents)
    }
    if (namespace !== undefined) return one(namespace)
    const keys = new Set([...namespaces.keys(), ...documents.flatMap(document => [...document.namespaces.keys()])])
    return [...keys].sort().flatMap(key => one(key) ?? [])
  }
}

class Handle<T> implements SettingsHandle<T> {
  private readonly store: SettingsStore
  private readonly space: Namespace

  constructor(store: SettingsStore, space: Namespace) {
    this.store = store
    this.space = space
  }

  get(): T {
    return this.space.value as T
  }

  watch(listener: (next: T, previous: T) => void): () => void {
    const watcher = (next: unknown, previous: unknown) => listener(next as T, previous as T)
    const { watchers, ctx, name } = this.space
    return ctx.effect(() => {
      watchers.add(watcher)
      return () => {
        watchers.delete(watcher)
      }
    }, `watcher of settings ${name}`) as unknown as () => void
  }

  set(path: SettingPath, value: unknown, options: { layer?: Layer } = {}): Promise<void> {
    return value === undefined ? this.unset(path, options) : this.edit(path, options, all => ({ path: all, value }))
  }

  unset(path: SettingPath, options: { layer?: Layer } = {}): Promise<void> {
    return this.edit(path, options, all => ({ path: all, remove: true }))
  }

  private async edit(
    path: SettingPath,
    { layer = 'user' }: { layer?: Layer },
    make: (path: readonly (string | number)[]) => YamlEdit,
  ) {
    const { store, space } = this
    if (store.namespaces.get(space.name) !== space) {
      throw new HarnessError('STORE_SETTINGS_GONE', `the plugin that defined the settings "${space.name}" has ended`)
    }
    const keys = typeof path === 'string' ? path.split('.').filter(Boolean) : path
    await store.edit(space, layer, make([space.name, ...keys]))
  }
}
