/** What is known of each stored session, for lists, from the ends of its files; never by reading a whole log. */

import { readdirSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { isHarnessError } from '@cambium/core'
import { diskError, liveHolder } from '@cambium/store'
import type { SessionSummary } from '../service.ts'
import { damaged } from './format.ts'
import { type Glance, glance, glanceAtSmall, SearchBudget, type Whereabouts } from './glance.ts'
import { inParallel, inSlices } from './parallel.ts'
import { lockOf, PACKED, SEGMENTS, SUFFIX, segmentsOf } from './places.ts'

interface Found extends Whereabouts {
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
  const wanted = found.slice(0, options.limit)
  const budget = new SearchBudget()
  // Most are small and told at a glance; only the others are worth waiting for side by side.
  const list = await inSlices(wanted, log => summarise(log, options.staleMs, glanceAtSmall))
  const rest = wanted.filter((_, at) => !list[at])
  const others = await inParallel(rest, async log => {
    const look = await glance(log, budget).catch(error => error as Error)
    return summarise(log, options.staleMs, () => {
      if (look instanceof Error) throw look
      return look
    })
  })
  return [...list, ...others].filter(summary => summary !== undefined).sort((a, b) => b.updatedAt - a.updatedAt)
}

async function findLogs(folder: string): Promise<Found[]> {
  const names = new Set(await readdir(folder).catch(() => []))
  const ids = new Set<string>()
  for (const name of names) {
    for (const suffix of [SUFFIX, SUFFIX + PACKED, SEGMENTS]) {
      if (name.endsWith(suffix)) ids.add(name.slice(0, -suffix.length))
    }
  }
  return inSlices([...ids], id => {
    const path = join(folder, id + SUFFIX)
    const plain = names.has(basename(path))
    const packed = names.has(basename(path) + PACKED)
    const at = { path, plain, packed, divided: names.has(id + SEGMENTS), locked: names.has(basename(lockOf(path))) }
    try {
      const segments = at.divided ? sizeOf(segmentsOf(path)) : 0
      const stats = statSync(plain ? path : packed ? path + PACKED : segmentsOf(path))
      const isFile = stats.isFile() || !(plain || packed)
      const size = isFile ? stats.size : 0
      return { ...at, time: stats.mtimeMs, size, bytes: segments + size, isFile }
    } catch {
      // Deleted since the folder was read, or a link to nowhere: the second is worth showing.
      return { ...at, time: 0, size: 0, bytes: 0, isFile: false }
    }
  })
}

function sizeOf(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => {
    return sum + (statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0)
  }, 0)
}

/** Undefined when `look` is. */
function summarise(log: Found, staleMs: number, look: (log: Found) => Glance | undefined): SessionSummary | undefined {
  const { path, plain, packed, time, bytes, isFile, locked } = log
  const id = basename(path, SUFFIX)
  const at = { id, path: plain || !packed ? path : path + PACKED, bytes }
  try {
    if (!isFile) throw damaged(path, 'it is not a file')
    const seen = look(log)
    if (!seen) return undefined
    const { header, title, updatedAt = time } = seen
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
