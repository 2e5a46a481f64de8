/** Imports a row's module and finds the plugin in it. */

import { fileURLToPath, pathToFileURL } from 'node:url'
import { HarnessError, type Plugin } from '@cambium/core'
import { tellsOf } from './told-errors.ts'
import type { ModuleTracking } from './tracking.ts'
import { fileUrlOf, realUrl, withVersion } from './url.ts'
import { ModuleVersions } from './versions.ts'

export type ImportModule = (url: string) => Promise<unknown>

/** What a stock Node answers to TypeScript: it has no type stripping, not for this file, or not for that syntax. */
const NEEDS_TSX = new Set([
  'ERR_UNKNOWN_FILE_EXTENSION',
  'ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
  'ERR_NO_TYPESCRIPT',
])

/** Shared by all trees of the process, like the modules themselves. */
export const versions = new ModuleVersions()

/** Node remembers a module that failed, so that another attempt needs another version: the last failed one, by file. */
const failed = new Map<string, number>()

/**
 * Imports a module as the process can; TypeScript that it cannot read goes through tsx, which is registered then and
 * not earlier, since it costs more start-up than a whole tree.
 */
export async function importModule(url: string, from: string): Promise<unknown> {
  const version = versions.candidates.at(-1)
  try {
    return await load(url)
  } catch (error) {
    if (!NEEDS_TSX.has((error as { code?: string }).code ?? '')) throw error
    await registerTsx(from, error)
  }
  const tracked = await tracking
  tracked?.goFirst()
  if (version !== undefined) await tracked?.again(version)
  return load(url)
}

async function load(url: string): Promise<unknown> {
  if (!url.startsWith('file:')) return import(url)
  const file = fileUrlOf(tracking ? realUrl(url) : url)
  const reload = versions.candidates.at(-1)
  let version = versions.choose(file, reload ?? 0)
  // A reload comes with a version of its own, and is not tried twice.
  if (reload === undefined && failed.get(file) === version) version = versions.saw(file, versions.next())
  try {
    return await import(withVersion(url, version))
  } catch (error) {
    tellsOf(error)
    if (reload === undefined) failed.set(file, version)
    throw error
  }
}

let tracking: Promise<ModuleTracking> | undefined

/** Follows all imports from now on: who imported whom is known then, and changed files can be imported again. */
export function trackModules(from: string): Promise<ModuleTracking> {
  tracking ??= (async () => {
    const { ModuleTracking } = await import('./tracking.ts')
    // Hooks on a thread of their own stay in order, and tsx keeps versions from those that were there before it.
    await readTypeScript(from)
    return ModuleTracking.install(versions)
  })()
  return tracking
}

/**
 * For who is going to import TypeScript, before other imports begin: JavaScript may import the same files, and Node
 * remembers of each file that it could not read it.
 */
export async function readTypeScript(from: string): Promise<void> {
  const { readsTypeScript } = await import('./tracking.ts')
  // Who imports it is told that it cannot be had.
  if (!readsTypeScript()) await registerTsx(from, undefined).catch(() => {})
}

let tsx: Promise<unknown> | undefined

/** Process-wide and for good: a module hook cannot belong to one tree. */
async function registerTsx(from: string, reason: unknown): Promise<void> {
  tsx ??= loadTsx(from)
  try {
    await tsx
  } catch (error) {
    tsx = undefined
    throw new HarnessError('TREE_TYPESCRIPT', 'this Node cannot run TypeScript, and tsx is not installed', {
      fix: 'install tsx beside the tree, or use a Node with type stripping',
      cause: new AggregateError([reason, error]),
    })
  }
}

let readsTsconfig = true

/**
 * From now on tsx, where it is needed, reads no tsconfig.json. It would take that of the folder that the command was
 * started in, whose `paths` say what an import leads to: for a command that works in other people's folders that is
 * their code, in a plugin of its user.
 */
export function ignoreTsconfig(): void {
  readsTsconfig = false
}

async function loadTsx(from: string): Promise<void> {
  // A folder without `"type": "module"` goes through CommonJS, which has hooks of its own.
  const commonJs = await import('tsx/cjs/api').catch(() =>
    importFrom<typeof import('tsx/cjs/api')>('tsx/cjs/api', from),
  )
  const esm = await import('tsx/esm/api').catch(() => importFrom<typeof import('tsx/esm/api')>('tsx/esm/api', from))
  if (readsTsconfig) {
    commonJs.register()
    esm.register()
    return
  }
  // The one has no setting for it, only a variable that names a file: any that says nothing about compiling.
  const before = process.env['TSX_TSCONFIG_PATH']
  process.env['TSX_TSCONFIG_PATH'] = await tsxManifest(from)
  try {
    commonJs.register()
  } finally {
    if (before === undefined) delete process.env['TSX_TSCONFIG_PATH']
    else process.env['TSX_TSCONFIG_PATH'] = before
  }
  esm.register({ tsconfig: false })
}

async function tsxManifest(from: string): Promise<string> {
  const { resolve } = await import('import-meta-resolve')
  try {
    return fileURLToPath(resolve('tsx/package.json', import.meta.url))
  } catch {
    // Not ours, so that of whoever wrote the row.
    return fileURLToPath(resolve('tsx/package.json', pathToFileURL(from).href))
  }
}

async function importFrom<T>(specifier: string, from: string): Promise<T> {
  const { resolve } = await import('import-meta-resolve')
  return (await import(resolve(specifier, pathToFileURL(from).href))) as T
}

export interface LoadedPlugin {
  readonly name: string | undefined
  readonly inject: Plugin['inject']
  readonly provide: readonly string[]
  readonly Config: Plugin['Config']
  /** The plugin as the module exports it. */
  readonly plugin: Plugin
}

/** A namespace that has `apply` is the plugin; else its default export is, when that can be one. */
export function findPlugin(exports: unknown): LoadedPlugin | undefined {
  const plugin = pluginIn(exports)
  if (!plugin) return undefined
  // What stands beside a default export speaks of it.
  const beside = exports as Partial<Plugin.Object>
  const { name, inject = beside.inject, provide = beside.provide, Config = beside.Config } = plugin
  return {
    name: name === 'apply' ? undefined : name,
    inject,
    provide: typeof provide === 'string' ? [provide] : [...(provide ?? [])],
    Config,
    plugin,
  }
}

function pluginIn(exports: unknown): Plugin | undefined {
  if (isApplicable(exports)) return exports
  const inner = (exports as { default?: unknown } | null | undefined)?.default
  if (typeof inner === 'function' || isApplicable(inner)) return inner as Plugin
  // A CommonJS module that was compiled from ESM arrives with its default one level deeper.
  const deeper = (inner as { __esModule?: boolean; default?: unknown } | undefined)?.__esModule
    ? (inner as { default?: unknown }).default
    : undefined
  return typeof deeper === 'function' || isApplicable(deeper) ? (deeper as Plugin) : undefined
}

function isApplicable(value: unknown): value is Plugin.Object {
  return typeof value === 'object' && value !== null && typeof (value as { apply?: unknown }).apply === 'function'
}

/** What a module has instead of a plugin, for the message. */
export function describeExports(exports: unknown): string {
  const names = Object.keys((exports ?? {}) as object)
  return names.length ? `it exports ${names.join(', ')}` : 'it exports nothing'
}
