/** Where bare specifiers are looked up when the tree's own folder does not have them. */

import type { Parsed } from './parsed.ts'

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
}

/** Run from source, the installation is the workspace that this package lies in. */
const workspace: Installation = {
  async resolve(specifier) {
    const { resolve } = await import('import-meta-resolve')
    try {
      return resolve(specifier, new URL('../../../package.json', import.meta.url).href)
    } catch {
      return undefined
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
