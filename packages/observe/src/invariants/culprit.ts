/** Who did it: the plugin whose code stands below a call, and the line. Looked for when something broke, never before. */

import { readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import type { Context } from '@cambium/core'
import { labelOf, urlPath } from '@cambium/loader'

export interface Culprit {
  /** `audit (row audit, cordis.yml:12:3)`, or the package or the file where no row can be told. */
  readonly plugin: string
  /** `plugins/audit.ts:14:11`; undefined where no code of a file is below the call. */
  readonly at: string | undefined
}

interface Frame {
  readonly file: string
  readonly place: string
}

const MAX_FRAMES = 60

/** `call` is the function that was called, innermost, and whose caller is asked for. */
export function culpritBelow(ctx: Context, call: (...args: never[]) => unknown): Culprit {
  const frames = framesBelow(call)
  const [first] = frames
  if (!first) return { plugin: 'unknown', at: undefined }
  return { plugin: rowNear(ctx, frames) ?? packageOf(first.file) ?? labelOf(first.file), at: first.place }
}

function framesBelow(call: (...args: never[]) => unknown): Frame[] {
  const holder: { stack?: string } = {}
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = MAX_FRAMES
  try {
    Error.captureStackTrace(holder, call)
    // Not below it: it was called by another name.
    if (!holder.stack?.includes('\n')) Error.captureStackTrace(holder)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
  return (holder.stack ?? '').split('\n').flatMap(line => frameOf(line) ?? [])
}

/** The kernel hands calls and events on; nobody's plugin. Bundled, it cannot be told from the rest, and is the rest's. */
const BETWEEN = /[\\/](?:@cambium|packages)[\\/](?:core|observe)[\\/]src[\\/]|[\\/]node_modules[\\/].*cordis[\\/]/

function frameOf(line: string): Frame | undefined {
  const [, address, where] =
    /^ +at .*?((?:file:\/\/|\/|[A-Za-z]:[\\/])[^()]*?)(?:\?[^:()]*)?(:\d+:\d+)\)?$/.exec(line) ?? []
  if (!address || BETWEEN.test(address)) return undefined
  const file = urlPath(address) ?? address
  return { file, place: labelOf(file) + where }
}

/** The row that names the file; else the only one that names a file beside or above it. */
function rowNear(ctx: Context, frames: readonly Frame[]): string | undefined {
  const rows = (ctx.get('loader')?.rows() ?? []).flatMap(({ row, url, fiber }) => {
    const file = url && urlPath(url)
    return file && fiber ? [{ file, folder: dirname(file) + sep, name: nameOf(fiber.name, row) }] : []
  })
  const own = rows.filter(({ file }) => file === frames[0]!.file)
  if (own.length) return named(own)
  const above = rows.filter(({ folder }) => frames[0]!.file.startsWith(folder))
  const near = above.filter(({ folder }) => above.every(other => other.folder.length <= folder.length))
  // Of several in one folder, it is the one that stands further down the same stack.
  const below = near.filter(({ file }) => frames.some(frame => frame.file === file))
  return named(below.length ? below : near)
}

function named(rows: readonly { readonly name: string }[]): string | undefined {
  return rows.length ? [...new Set(rows.map(({ name }) => name))].join(' or ') : undefined
}

const nameOf = (plugin: string, { id, at }: { id: string; at: string }) => `${plugin} (row ${id}, ${at})`

function packageOf(file: string): string | undefined {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const name = manifestName(join(folder, 'package.json'))
    if (name || folder === dirname(folder)) return name
  }
}

function manifestName(file: string): string | undefined {
  try {
    const { name } = JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown }
    return typeof name === 'string' ? name : undefined
  } catch {
    // No manifest here, or none that can be read: the next one above may tell.
    return undefined
  }
}
