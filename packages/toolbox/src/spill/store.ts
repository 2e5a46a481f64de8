/** The folder of a session's long texts on the harness's own disk. */

import { randomBytes } from 'node:crypto'
import { open, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureFolder } from '@cambium/store'
import { endOfCut, type Kept } from './preview.ts'

export interface SpillLimits {
  readonly maxFileBytes: number
  readonly maxTotalBytes: number
}

/** What stays of a file that gave way, for whoever reads it. */
const GONE =
  'What was kept here was removed to make room for later output of this session. Run the tool again if it is needed.\n'

export class SpillFolder {
  readonly path: string
  private readonly limits: SpillLimits

  constructor(folder: string, limits: SpillLimits) {
    this.path = join(folder, 'spill')
    this.limits = limits
  }

  async keep(label: string, text: string): Promise<Kept> {
    const all = Buffer.from(text)
    const room = Math.min(this.limits.maxFileBytes, this.limits.maxTotalBytes)
    const bytes = all.length > room ? all.subarray(0, endOfCut(all, room)) : all
    ensureFolder(this.path)
    const path = join(this.path, `${label.replace(/[^\w-]+/g, '-').slice(0, 80)}-${randomBytes(6).toString('hex')}.txt`)
    try {
      const file = await open(path, 'wx', 0o600)
      try {
        await file.writeFile(bytes)
      } finally {
        await file.close()
      }
    } catch (error) {
      // Half of a text that is said to be whole would be worse than none.
      await rm(path, { force: true }).catch(() => {})
      throw error
    }
    await this.makeRoom(path)
    return { path, bytes: bytes.length, complete: bytes === all }
  }

  /** The oldest files give way until all of them fit, `last` not. */
  async makeRoom(last: string): Promise<void> {
    const names = await readdir(this.path).catch(() => [])
    const found = await Promise.all(
      names.map(async name => {
        const path = join(this.path, name)
        const facts = await stat(path).catch(() => undefined)
        return { path, size: facts?.size ?? 0, time: facts?.mtimeMs ?? 0 }
      }),
    )
    let total = found.reduce((sum, { size }) => sum + size, 0)
    const oldest = found
      .filter(({ path, size }) => path !== last && size > GONE.length)
      .sort((a, b) => a.time - b.time || (a.path < b.path ? -1 : 1))
    for (const { path, size } of oldest) {
      if (total <= this.limits.maxTotalBytes) return
      total -= size - GONE.length
      await writeFile(path, GONE, { mode: 0o600 }).catch(() => rm(path, { force: true }).catch(() => {}))
    }
  }
}
