/** `credentials.json` on the disk: for its owner's eyes, read when it has changed, written whole and one at a time. */

import type { BigIntStats } from 'node:fs'
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { HarnessError, isHarnessError } from '@cambium/core'
import { diskError } from '../disk-error.ts'
import { type Content, emptyContent, parseContent, renderContent } from './document.ts'

export interface Reading {
  readonly content: Content
  /** Why the file is not used; the content is empty then. */
  readonly problem: HarnessError | undefined
  /** What the file holds, also one that must not be used: it is to be kept out of sight all the same. */
  readonly held: Content
}

const MAX_BYTES = 2 ** 20
/** A change within the clock's tick of the last one leaves no trace in the file's times. */
const TICK_MS = 50

const ABSENT: Reading = { content: emptyContent(), problem: undefined, held: emptyContent() }

export class CredentialFile {
  readonly path: string
  private last: { readonly mark: string; readonly reading: Reading } | undefined

  constructor(path: string) {
    this.path = path
  }

  /** What it says now. Never throws; the same object while the file stays the same. */
  read(): Reading {
    let mark: string
    let found: BigIntStats | undefined
    try {
      found = lstatSync(this.path, { bigint: true, throwIfNoEntry: false })
      mark = found ? markOf(found) : ''
    } catch (error) {
      // The home is a file: nothing can be stored there, as whoever wants to write there says.
      if ((error as NodeJS.ErrnoException).code === 'ENOTDIR') return ABSENT
      return this.refused(diskError(error, 'cannot look at the stored credentials', this.path))
    }
    if (this.last?.mark === mark && mark !== '') return this.last.reading
    if (!found) {
      this.last = undefined
      return ABSENT
    }
    try {
      const { reading, mark: read, settled } = this.load()
      this.last = settled ? { mark: read, reading } : undefined
      return reading
    } catch (error) {
      return this.refused(diskError(error, 'cannot read the stored credentials', this.path))
    }
  }

  /**
   * Changes what is stored at that moment, while nobody else does. @throws why the file cannot be used, `STORE_LOCKED`, as
   * `diskError`; nothing is written then
   */
  async change<T>(edit: (content: Content) => T): Promise<T> {
    const [{ ensureFolder }, { lockedSoon }, { replaceFile }] = await Promise.all([
      import('../ensure-folder.ts'),
      import('../locked.ts'),
      import('../replace-file.ts'),
    ])
    const folder = dirname(this.path)
    ensureFolder(folder)
    requirePrivate(folder)
    return lockedSoon(this.path, () => {
      this.last = undefined
      const { content, problem } = this.read()
      if (problem) throw problem
      const draft: Content = { keys: new Map(content.keys), grants: new Map(content.grants) }
      const answer = edit(draft)
      const text = renderContent(draft)
      if (text !== renderContent(content)) {
        this.clearTemporaries()
        replaceFile(this.path, text)
      }
      this.last = undefined
      return answer
    })
  }

  private load(): { reading: Reading; mark: string; settled: boolean } {
    let descriptor: number
    try {
      const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
      descriptor = openSync(this.path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ELOOP') throw error
      throw unsafe('it is a link', this.path, 'put the file itself in its place')
    }
    try {
      // Of what was opened, so that nobody can put another file there in between.
      const stats = fstatSync(descriptor, { bigint: true })
      if (!stats.isFile()) throw unsafe('it is no regular file', this.path, 'move it away')
      if (stats.size > MAX_BYTES) throw unsafe('it is larger than 1 MiB', this.path, 'move it away')
      const text = readFileSync(descriptor, 'utf8')
      const settled = Date.now() - Number(stats.ctimeMs) > TICK_MS
      return { reading: this.judge(text, stats), mark: markOf(stats), settled }
    } finally {
      closeSync(descriptor)
    }
  }

  private judge(text: string, stats: BigIntStats): Reading {
    const problem = exposure(stats, this.path)
    try {
      const content = parseContent(text, this.path)
      return problem ? { content: emptyContent(), problem, held: content } : { content, problem, held: content }
    } catch (error) {
      if (!isHarnessError(error)) throw error
      return { content: emptyContent(), problem: problem ?? error, held: emptyContent() }
    }
  }

  private refused(problem: HarnessError): Reading {
    return { content: emptyContent(), problem, held: emptyContent() }
  }

  /** Left by a process that was killed while it wrote. Nobody writes now: the lock is ours. */
  private clearTemporaries(): void {
    const folder = dirname(this.path)
    const name = basename(this.path)
    for (const entry of readdirSync(folder)) {
      if (entry.startsWith(name) && /^\.\d+\.\d+\.tmp$/.test(entry.slice(name.length))) {
        rmSync(join(folder, entry), { force: true })
      }
    }
  }
}

const markOf = ({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats) => `${dev} ${ino} ${size} ${mtimeNs} ${ctimeNs}`

/** Undefined where the system has no such modes. */
const self = () => process.getuid?.()

/** Who else can read the file, or has written it. */
function exposure({ mode, uid }: BigIntStats, path: string): HarnessError | undefined {
  const me = self()
  if (me === undefined) return undefined
  if (uid !== BigInt(me)) return unsafe('it belongs to another user', path, `move it away, or: chown ${me} ${path}`)
  if (mode & 0o077n) return unsafe('others can read or change it', path, `take that from them: chmod 600 ${path}`)
  return undefined
}

/** Whoever can write there can put another file in the place of ours. */
function requirePrivate(folder: string): void {
  const me = self()
  if (me === undefined) return
  const { mode, uid } = statSync(folder)
  if (uid !== me) throw unsafe('their folder belongs to another user', folder, 'set CAMBIUM_HOME to a folder of yours')
  if (mode & 0o022)
    throw unsafe('others can write to their folder', folder, `take that from them: chmod go-w ${folder}`)
}

const unsafe = (problem: string, where: string, fix: string) =>
  new HarnessError('STORE_CREDENTIALS_UNSAFE', `the stored credentials cannot be used: ${problem}`, { where, fix })
