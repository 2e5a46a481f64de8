/**
 * Where logs lie: `<root>/<workspace>/<id>.jsonl`, the file that is written, with all that belongs to it beside it: closed
 * segments, the lock, the journalled answer, what lists want to know, and the session's own files.
 */

import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { diskError } from '@cambium/store'
import type { SessionId } from '../event.ts'

export const SUFFIX = '.jsonl'
export const PACKED = '.gz'
export const SEGMENTS = '.segments'

export class Places {
  readonly root: string

  constructor(root: string) {
    this.root = root
  }

  /** The folder of one working directory's sessions. */
  folder(cwd: string): string {
    return join(this.root, workspaceSlug(cwd))
  }

  log(cwd: string, id: SessionId): string {
    return join(this.folder(cwd), id + SUFFIX)
  }

  /** Every folder of sessions there is. @throws as `diskError` */
  folders(): string[] {
    try {
      return readdirSync(this.root, { withFileTypes: true })
        .filter(entry => entry.isDirectory())
        .map(entry => join(this.root, entry.name))
    } catch (error) {
      // No home yet. One that cannot be read just now may hold sessions all the same.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw diskError(error, 'cannot look for sessions', this.root)
    }
  }

  /**
   * Finds a log by its id alone; of copies in several folders, the one written last. The file itself may be compressed, or
   * lost while its segments are there. @throws as `diskError`
   */
  find(id: SessionId): string | undefined {
    const found = this.folders().flatMap(folder => {
      const path = join(folder, id + SUFFIX)
      const time = timeOf(path) ?? timeOf(packedOf(path)) ?? timeOf(segmentsOf(path))
      return time === undefined ? [] : [{ path, time }]
    })
    return found.sort((a, b) => b.time - a.time)[0]?.path
  }
}

function timeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.mtimeMs
  } catch (error) {
    // In a folder that is closed to us nothing can be found; whatever else hinders us does not make a session unknown.
    if ((error as NodeJS.ErrnoException).code === 'EACCES') return undefined
    throw diskError(error, 'cannot look for a session', path)
  }
}

const beside = (log: string, suffix: string) => log.slice(0, -SUFFIX.length) + suffix
export const lockOf = (log: string) => beside(log, '.lock')
/** The folder of what belongs to a session and does not fit into its log. */
export const filesOf = (log: string) => beside(log, '.files')
export const partialOf = (log: string) => beside(log, '.partial')
export const noteOf = (log: string) => beside(log, '.note')
/** The same log, compressed. */
export const packedOf = (log: string) => log + PACKED
export const plainName = (path: string) => (path.endsWith(PACKED) ? path.slice(0, -PACKED.length) : path)
/** Where a file is made ready that takes the name of another one when it is whole. */
export const unfinished = (path: string) => `${path}.tmp`
/** The folder of its closed segments. */
export const segmentsOf = (log: string) => beside(log, SEGMENTS)
export const segmentOf = (log: string, number: number) => join(segmentsOf(log), `${number}${SUFFIX}`)

/** Readable, and different for different directories: `work-shop-5f2c9a1b`. */
export function workspaceSlug(cwd: string): string {
  const words = cwd
    .replace(/[^A-Za-z0-9._]+/g, '-')
    .replace(/^[-.]+|-+$/g, '')
    .slice(-80)
  const hash = createHash('sha256').update(cwd).digest('hex').slice(0, 8)
  return `${words || 'root'}-${hash}`
}
