/** The file that a row's plugin is imported from, as the module graph names it. */

import { dirname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { realUrl } from '../modules/url.ts'
import type { RowState } from '../tree/row-state.ts'
import type { TreeLoader } from '../tree/tree-loader.ts'

/** Where links lead is looked up once for all rows of a tree, and again when something has changed. */
const known = new Map<string, string>()

export function forgetLinks(): void {
  known.clear()
}

/** Undefined for what is no file, or cannot be found; a file that is missing is one. */
export function rowFile({ row, url, state }: Pick<RowState, 'row' | 'url' | 'state'>): string | undefined {
  if (row.kind !== 'plugin' || state === 'disabled') return undefined
  if (url?.startsWith('file:')) return lookUp(url)
  const local = /^(\.{1,2})?\//.test(row.name) ? resolve(dirname(row.from), row.name) : undefined
  return url === undefined && local !== undefined ? lookUp(pathToFileURL(local).href) : undefined
}

/** Files that rows name which were refused with the last reload of their tree: once these are mended it may succeed. */
export function refusedFiles({ refused }: TreeLoader): string[] {
  return refused.flatMap(row => rowFile({ row, url: undefined, state: row.disabled ? 'disabled' : 'waiting' }) ?? [])
}

function lookUp(url: string): string {
  const real = known.get(url) ?? realUrl(url)
  known.set(url, real)
  return real
}
