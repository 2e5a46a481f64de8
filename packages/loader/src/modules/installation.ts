/** Where bare specifiers are looked up when the tree's own folder does not have them. */

import { fileURLToPath } from 'node:url'
import type { Parsed } from '../file/parsed.ts'
import type { ShippedPlugin } from './shipped.ts'

export interface Installation {
  /** Answers a bare specifier with a URL, or undefined when the installation does not have it. */
  resolve(specifier: string): string | undefined | Promise<string | undefined>
  /** The value of a tree's text that was parsed before; undefined for any other text. */
  parsed?(text: string): Parsed | undefined
  /** True for a name that is the installation's even where the tree's folder has another: a process runs on one copy. */
  owns?(specifier: string): boolean
  /** What the module exports, when it is the installation's and need not be imported. */
  load?(url: string): unknown
  /** Called before any other row's module is imported; what it throws is that row's failure. */
  prepare?(url: string): void | Promise<void>
  /** The plugins that it has, for messages that say which row is missing. */
  shipped?(): readonly ShippedPlugin[] | Promise<readonly ShippedPlugin[]>
  /** What `cordis create` makes new folders from. */
  readonly scaffold?: ScaffoldSource
}

export interface ScaffoldSource {
  /** A folder with the folders `plugin` and `app`. */
  readonly templates: string
  /** What a new folder's `node_modules` gets links to, by package name. */
  readonly links: Readonly<Record<string, string>>
}

/** A path in the workspace. */
const path = (from: string) => fileURLToPath(new URL(`../../../../${from}`, import.meta.url))

/** Run from source, the installation is the workspace that this package lies in. */
const workspace: Installation = {
  async resolve(specifier) {
    const { resolve } = await import('import-meta-resolve')
    try {
      return resolve(specifier, new URL('../../../../package.json', import.meta.url).href)
    } catch {
      return undefined
    }
  },
  async shipped() {
    const { readPlugins } = await import('./workspace-plugins.ts')
    return readPlugins(path(''))
  },
  get scaffold() {
    return {
      templates: path('packages/loader/templates'),
      links: {
        cambium: path('scripts/linked'),
        '@cambium': path('node_modules/@cambium'),
        schemastery: path('node_modules/schemastery'),
      },
    }
  },
}

let current = workspace

/** Replaces the installation, as a released bundle does; returns the undo. */
export function setInstallation(installation: Installation): () => void {
  const before = current
  current = installation
  return () => {
    current = before
  }
}

export const installation = (): Installation => current

let shipped: { readonly of: Installation; readonly plugins: Promise<readonly ShippedPlugin[]> } | undefined

/** The plugins of the installation; asked for once. */
export function shippedPlugins(): Promise<readonly ShippedPlugin[]> {
  if (shipped?.of !== current) shipped = { of: current, plugins: listPlugins(current) }
  return shipped.plugins
}

async function listPlugins(installation: Installation): Promise<readonly ShippedPlugin[]> {
  try {
    return (await installation.shipped?.()) ?? []
  } catch {
    // They make a message better, and must not take its place.
    return []
  }
}
