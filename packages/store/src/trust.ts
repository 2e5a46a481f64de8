/** Which projects a person has trusted, with the very content that they trusted. */

import { createHash } from 'node:crypto'
import { realpathSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { HarnessError } from '@cambium/core'
import { ensureFolder } from './ensure-folder.ts'
import { homeFolder } from './home-folder.ts'
import { locked } from './locked.ts'
import { readBounded } from './read-bounded.ts'
import { replaceFile } from './replace-file.ts'

/** `changed`: it was trusted, but one of its files is not what it was then, or was none of those that were looked at. */
export type TrustState = 'trusted' | 'changed' | 'unknown'

export interface TrustedFolder {
  /** Its real path. */
  readonly folder: string
  /** Milliseconds since the epoch. */
  readonly since: number
  /** The files that were trusted, relative to the folder. */
  readonly files: readonly string[]
}

/** A path, absolute or relative to the folder; with `content` when that was read already: then it is what is judged. */
export type TrustFile = string | { readonly path: string; readonly content: Uint8Array | undefined }

interface Entry {
  readonly since: number
  /** Hash of each file's content by its path from the folder; null for one that was not there. */
  readonly files: Readonly<Record<string, string | null>>
}

type Entries = Map<string, Entry>

/** Nobody writes a configuration of that size by hand. */
const MAX_FILE_BYTES = 16 * 2 ** 20
const MAX_STORE_BYTES = 16 * 2 ** 20

/**
 * Trust of project folders, kept in `<home>/trust.json`. It counts for the real path of a folder and the content of the
 * files that are asked about; a file that is absent has a content too, that of not being there. Nothing is cached: each
 * question reads the disk.
 */
export class TrustStore {
  readonly file: string

  constructor(home: string = homeFolder()) {
    this.file = join(home, 'trust.json')
  }

  /** @throws `STORE_TRUST_INVALID` when `trust.json` is broken, as `diskError` for a file that cannot be read */
  check(folder: string, files: readonly TrustFile[]): TrustState {
    const root = realFolder(folder)
    const entry = this.read().get(root)
    if (!entry) return 'unknown'
    const same = files.every(file => {
      const name = nameIn(root, file)
      return Object.hasOwn(entry.files, name) && entry.files[name] === hashOf(root, file)
    })
    return same ? 'trusted' : 'changed'
  }

  /** From now on this folder is trusted with what these files hold now, and no others. @throws as `diskError` */
  trust(folder: string, files: readonly TrustFile[]): void {
    const root = realFolder(folder)
    const hashes = files.map(file => [nameIn(root, file), hashOf(root, file)] as const)
    this.change(entries => entries.set(root, { since: Date.now(), files: Object.fromEntries(hashes) }))
  }

  /**
   * A trusted file that its user has changed by the harness stays trusted: what `before` held was trusted, so `after` is.
   * So does one that the harness has created in a trusted folder. Changes nothing when it was not trusted.
   */
  renew(folder: string, before: TrustFile, after: TrustFile): void {
    const root = realFolder(folder)
    const name = nameIn(root, before)
    const isTrusted = (entries: Entries) => {
      const entry = entries.get(root)
      return entry !== undefined && (entry.files[name] ?? null) === hashOf(root, before)
    }
    if (!isTrusted(this.read())) return
    this.change(entries => {
      const entry = entries.get(root)
      if (entry && isTrusted(entries)) {
        entries.set(root, { ...entry, files: { ...entry.files, [name]: hashOf(root, after) } })
      }
    })
  }

  /** True when it was trusted. A folder that is gone can be named too. */
  revoke(folder: string): boolean {
    if (!this.read().has(realFolder(folder))) return false
    return this.change(entries => entries.delete(realFolder(folder)))
  }

  list(): TrustedFolder[] {
    return [...this.read()].map(([folder, { since, files }]) => ({ folder, since, files: Object.keys(files) }))
  }

  private change<T>(edit: (entries: Entries) => T): T {
    ensureFolder(dirname(this.file))
    return locked(this.file, () => {
      const entries = this.read()
      const answer = edit(entries)
      const data = { version: 1, folders: Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1))) }
      replaceFile(this.file, `${JSON.stringify(data, null, 2)}\n`)
      return answer
    })
  }

  private read(): Entries {
    const text = readBounded(this.file, MAX_STORE_BYTES)?.toString('utf8')
    if (text === undefined) return new Map()
    try {
      return entriesOf(JSON.parse(text))
    } catch (error) {
      throw new HarnessError('STORE_TRUST_INVALID', 'the list of trusted projects cannot be read', {
        where: this.file,
        fix: 'correct the file, or remove it: no project is trusted then',
        cause: error,
      })
    }
  }
}

function entriesOf(data: unknown): Entries {
  const { version, folders } = (data ?? {}) as { version?: unknown; folders?: unknown }
  if (version !== 1 || !isRecord(folders)) throw new Error('not a list of trusted folders')
  return new Map(
    Object.entries(folders).map(([folder, entry]) => {
      if (!isRecord(entry) || !isRecord(entry['files']) || typeof entry['since'] !== 'number') {
        throw new Error(`not an entry: ${folder}`)
      }
      return [folder, { since: entry['since'], files: entry['files'] as Entry['files'] }]
    }),
  )
}

const isRecord = (data: unknown): data is Record<string, unknown> =>
  typeof data === 'object' && data !== null && !Array.isArray(data)

/** A folder that is gone is known by the path that it had. */
function realFolder(folder: string): string {
  try {
    return realpathSync(folder)
  } catch {
    return resolve(folder)
  }
}

const pathOf = (root: string, file: TrustFile) => resolve(root, typeof file === 'string' ? file : file.path)

/** However the folder is spelt. */
function nameIn(root: string, file: TrustFile): string {
  const path = pathOf(root, file)
  return relative(root, join(realFolder(dirname(path)), basename(path)))
}

function hashOf(root: string, file: TrustFile): string | null {
  const content = typeof file === 'string' ? readBounded(pathOf(root, file), MAX_FILE_BYTES) : file.content
  return content ? `sha256:${createHash('sha256').update(content).digest('hex')}` : null
}
