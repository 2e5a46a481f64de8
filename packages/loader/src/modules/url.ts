/** One file under several URLs: Node keeps a module for each, so that a changed file is imported again by a new one. */

import { realpathSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'

const VERSION = /[?&]hmr=(\d+)/
/** What compiles TypeScript to CommonJS takes the query for a part of the file's name. */
const ENCODED = /%3F(?:[^%]*&)?hmr=(\d+).*$/

/** The URL of the file alone. */
export function fileUrlOf(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(ENCODED, '')
}

/** Which version of its file the URL asks for; 0 for a plain one. */
export function versionOf(url: string): number {
  return Number(VERSION.exec(url)?.[1] ?? ENCODED.exec(url)?.[1] ?? 0)
}

/** The URL without its version; a query of the importer's own stays. */
export function withoutVersion(url: string): string {
  return url.replace(ENCODED, '').replace(/([?&])hmr=\d+(&|(?=#|$))/g, (_, mark, more) => (more ? mark : ''))
}

export function withVersion(url: string, version: number): string {
  const plain = withoutVersion(url)
  if (!version) return plain
  const [, address, hash] = /^([^#]*)(#.*)?$/s.exec(plain)!
  return `${address}${address!.includes('?') ? '&' : '?'}hmr=${version}${hash ?? ''}`
}

/** A text that people read, without versions. */
export const plainText = (text: string): string => text.replace(/([?&]|%3F)hmr=\d+/g, '')

/** The URL that Node gives to a file which is reached through links. */
export function realUrl(url: string): string {
  try {
    return pathToFileURL(realpathSync.native(fileURLToPath(url))).href
  } catch {
    // There is none: who imports it is told so.
    return fileUrlOf(url)
  }
}
