/** What is known of each stored session, for lists, from the ends of its files; never by reading a whole log. */

import { readdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { isHarnessError } from '@cambium/core'
import { diskError, liveHolder } from '@cambium/store'
import type { SessionSummary } from '../service.ts'
import { damaged } from './format.ts'
import { glance, SearchBudget } from './glance.ts'
import { inParallel } from './parallel.ts'
import { lockOf, PACKED, SEGMENTS, SUFFIX, segmentsOf } from './places.ts'

interface Found {
  /** Of the plain file, also where there is none. */
  readonly path: string
  readonly plain: boolean
  readonly packed: boolean
  readonly time: number
  /** Of all its files. */
  readonly bytes: number
  readonly isFile: boolean
  readonly locked: boolean
}

/** The sessions of these folders, last active first. A log that cannot be read is listed as damaged. */
export async function listLogs(
  folders: readonly string[],
  options: { limit?: number | undefined; staleMs: number },
): Promise<SessionSummary[]> {
  const found = (await Promise.all(folders.map(findLogs))).flat().sort((a, b) => b.time - a.time)
  const budget = new SearchBudget()
  const list = await inParallel(found.slice(0, options.limit), log => summarise(log, options.staleMs, budget))
  return list.sort((a, b) => b.updatedAt - a.updatedAt)
}

async function findLogs(folder: string): Promise<Found[]> {
  const names = new Set(await readdir(folder).catch(() => []))
  const ids = new Set<string>()
  for (const name of names) {
    for (const suffix of [SUFFIX, SUFFIX + PACKED, SEGMENTS]) {
      if (name.endsWith(suffix)) ids.add(name.slice(0, -suffix.length))
    }
  }
  return inParallel([...ids], async id => {
    const path = join(folder, id + SUFFIX)
    const plain = names.has(basename(path))
    const packed = names.has(basename(path) + PACKED)
    const locked = names.has(basename(lockOf(path)))
    try {
      const segments = names.has(id + SEGMENTS) ? await sizeOf(segmentsOf(path)) : 0
      const stats = await stat(plain ? path : packed ? path + PACKED : segmentsOf(path))
      const isFile = stats.isFile() || !(plain || packed)
      return { path, plain, packed, time: stats.mtimeMs, bytes: segments + (isFile ? stats.size : 0), isFile, locked }
    } catch {
      // Deleted since the folder was read, or a link to nowhere: the second is worth showing.
      return { path, plain, packed, time: 0, bytes: 0, isFile: false, locked }
    }
  })
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  const sizes = await inParallel(
    names,
    async name => (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0,
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

async function summarise(log: Found, staleMs: number, budget: SearchBudget): Promise<SessionSummary> {
  const { path, plain, packed, time, bytes, isFile, locked } = log
  const id = basename(path, SUFFIX)
  const at = { id, path: plain || !packed ? path : path + PACKED, bytes }
  try {
    if (!isFile) throw damaged(path, 'it is not a file')
    const { header, title, updatedAt = time } = await glance(path, { plain, packed }, budget)
    const holder = locked ? liveHolder(lockOf(path), { staleMs }) : undefined
    return {
      ...at,
      cwd: header.cwd,
      createdAt: header.createdAt,
      updatedAt,
      ...(header.parent ? { parent: header.parent } : {}),
      ...(title ? { title } : {}),
      ...(holder
        ? { holder: holder === 'unknown' ? 'another process' : `process ${holder.pid} on ${holder.host}` }
        : {}),
    }
  } catch (error) {
    const problem = isHarnessError(error) ? error.problem : diskError(error, 'cannot be opened', path).problem
    return { ...at, cwd: '', createdAt: time, updatedAt: time, damaged: problem }
  }
}
