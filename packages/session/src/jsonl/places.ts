/** Where logs lie: `<root>/<workspace>/<id>.jsonl`, with the lock, the journalled answer and the session's own files beside it. */

import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { SessionId } from '../event.ts'

export const SUFFIX = '.jsonl'

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

  /** Every folder of sessions there is. */
  folders(): string[] {
    try {
      return readdirSync(this.root, { withFileTypes: true })
        .filter(entry => entry.isDirectory())
        .map(entry => join(this.root, entry.name))
    } catch {
      // No home yet, or one that cannot be read: there are no sessions either way.
      return []
    }
  }

  /** Finds a log by its id alone; of copies in several folders, the one written last. */
  find(id: SessionId): string | undefined {
    const found = this.folders().flatMap(folder => {
      const path = join(folder, id + SUFFIX)
      const stat = statSync(path, { throwIfNoEntry: false })
      return stat ? [{ path, time: stat.mtimeMs }] : []
    })
    return found.sort((a, b) => b.time - a.time)[0]?.path
  }
}

export const lockOf = (log: string) => `${log.slice(0, -SUFFIX.length)}.lock`
/** The folder of what belongs to a session and does not fit into its log. */
export const filesOf = (log: string) => `${log.slice(0, -SUFFIX.length)}.files`
export const partialOf = (log: string) => `${log.slice(0, -SUFFIX.length)}.partial`

/** Readable, and different for different directories: `work-shop-5f2c9a1b`. */
export function workspaceSlug(cwd: string): string {
  const words = cwd
    .replace(/[^A-Za-z0-9._]+/g, '-')
    .replace(/^[-.]+|-+$/g, '')
    .slice(-80)
  const hash = createHash('sha256').update(cwd).digest('hex').slice(0, 8)
  return `${words || 'root'}-${hash}`
}
