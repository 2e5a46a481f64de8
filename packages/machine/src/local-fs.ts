/** `ctx.fs` on the local disk. */

import { type BigIntStats, constants } from 'node:fs'
import { mkdir, mkdtemp, open, readdir, readlink, realpath, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { type Context, HarnessError, isHarnessError, parallel, Service } from '@cambium/core'
import { replaceFile } from './atomic-write.ts'
import type {
  DirectoryEntry,
  FileChange,
  FileContent,
  FileKind,
  FileStat,
  FileSystem,
  FsErrorCode,
  ReadOptions,
  WriteOptions,
  WriteResult,
} from './fs.ts'
import { KeyedLock } from './path-lock.ts'

const CHUNK_BYTES = 64 * 1024
/** As many as Linux follows. */
const MAX_LINKS = 40

export class LocalFs extends Service implements FileSystem {
  private readonly locks = new KeyedLock()
  /** The providing plugin's own context; `ctx` is the caller's. */
  private readonly base: Context
  private temporary: Promise<string> | undefined

  constructor(ctx: Context) {
    super(ctx, 'fs')
    this.base = ctx
    ctx.effect(
      () => async () => {
        if (this.temporary) await rm(await this.temporary, { recursive: true, force: true })
      },
      'temporary folder',
    )
  }

  resolve(path: string, cwd: string): string {
    if (path === '~' || path.startsWith('~/')) return resolve(homedir(), path.slice(2))
    return resolve(cwd, path)
  }

  async realpath(path: string): Promise<string> {
    return guarded(path, () => follow(path, MAX_LINKS))
  }

  async stat(path: string): Promise<FileStat | undefined> {
    return guarded(path, async () => {
      const found = await statOrNothing(path)
      return found && toStat(found)
    })
  }

  async list(path: string): Promise<DirectoryEntry[]> {
    const entries = await guarded(path, () => readdir(path, { withFileTypes: true }))
    return entries.map(entry => ({ name: entry.name, kind: kindOf(entry) })).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async read(path: string, options: ReadOptions): Promise<FileContent> {
    return guarded(path, async () => {
      const file = await openFile(path)
      try {
        const found = await file.stat({ bigint: true })
        checkIsFile(path, found)
        const { maxBytes, signal } = options
        if (found.size > BigInt(maxBytes)) throw tooLarge(path, maxBytes)
        // One byte more than it should have tells its end from its growth.
        let bytes = Buffer.allocUnsafe(Number(found.size) + 1)
        let length = 0
        for (;;) {
          const { bytesRead } = await file.read(bytes, length, bytes.length - length)
          if (!bytesRead) break
          length += bytesRead
          if (length > maxBytes) throw tooLarge(path, maxBytes)
          checkSignal(path, signal)
          if (length === bytes.length) bytes = Buffer.concat([bytes, Buffer.allocUnsafe(CHUNK_BYTES)])
        }
        return { bytes: bytes.subarray(0, length), stat: toStat(found) }
      } finally {
        await file.close()
      }
    })
  }

  async *stream(path: string, options: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<Uint8Array> {
    const file = await guarded(path, () => openFile(path))
    try {
      checkIsFile(path, await file.stat({ bigint: true }))
      for (;;) {
        checkSignal(path, options.signal)
        const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
        const { bytesRead } = await guarded(path, () => file.read(chunk, 0, CHUNK_BYTES))
        if (!bytesRead) return
        yield chunk.subarray(0, bytesRead)
      }
    } finally {
      await file.close()
    }
  }

  async write(path: string, content: string | Uint8Array, options: WriteOptions = {}): Promise<WriteResult> {
    return guarded(path, async () => {
      const target = await follow(path, MAX_LINKS)
      const before = await statOrNothing(target)
      if (before) checkIsFile(path, before)
      await this.announce({ path: target, kind: 'file' })
      await replaceFile(target, content, before, async () => {
        const { ifVersion } = options
        if (ifVersion === undefined) return
        const now = await statOrNothing(target)
        if (now && toStat(now).version === ifVersion) return
        throw fsError(
          'FS_CHANGED',
          `${path} was changed by somebody else meanwhile`,
          'read it again, then repeat the change',
        )
      })
      const after = await stat(target, { bigint: true })
      return { created: !before, realpath: target, version: toStat(after).version }
    })
  }

  async mkdir(path: string): Promise<void> {
    await guarded(path, async () => {
      if (!(await statOrNothing(path))) await this.announce({ path: await follow(path, MAX_LINKS), kind: 'directory' })
      await makeFolders(path)
    })
  }

  tempDir(): Promise<string> {
    this.temporary ??= mkdtemp(join(tmpdir(), 'cambium-empty-'))
    return this.temporary
  }

  private async announce(change: FileChange): Promise<void> {
    try {
      await parallel(this.base, undefined, 'fs/before-write', change)
    } catch (error) {
      throw error instanceof AggregateError && error.errors.length === 1 ? error.errors[0] : error
    }
  }

  async lock<T>(path: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    return this.locks.hold(await this.realpath(path), work, signal)
  }
}

/** Like `realpath(3)`, but the last parts may not exist, and a link into nothing leads to where it points. */
async function follow(path: string, links: number): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const parent = dirname(path)
  if (parent === path) return path
  const real = join(await follow(parent, links), basename(path))
  const target = await readlink(real).catch(() => undefined)
  if (target === undefined) return real
  if (!links) throw Object.assign(new Error('too many links'), { code: 'ELOOP' })
  return follow(resolve(dirname(real), target), links - 1)
}

function openFile(path: string) {
  // Opening a pipe to read would wait for a writer; that it is one is seen a moment later.
  return open(path, constants.O_RDONLY | constants.O_NONBLOCK)
}

async function statOrNothing(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function toStat(found: BigIntStats): FileStat {
  return {
    kind: kindOf(found),
    size: Number(found.size),
    mode: Number(found.mode) & 0o7777,
    modifiedMs: Number(found.mtimeMs),
    version: `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`,
  }
}

interface Kinds {
  isFile(): boolean
  isDirectory(): boolean
  isSymbolicLink(): boolean
}

function kindOf(entry: Kinds): FileKind {
  if (entry.isFile()) return 'file'
  if (entry.isDirectory()) return 'directory'
  return entry.isSymbolicLink() ? 'link' : 'other'
}

function checkIsFile(path: string, found: Kinds): void {
  if (found.isFile()) return
  throw found.isDirectory()
    ? fsError('FS_NOT_FILE', `${path} is a directory`, 'name a file in it')
    : fsError('FS_NOT_FILE', `${path} is a device, a pipe or a socket, not a regular file`)
}

function checkSignal(path: string, signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw fsError('FS_ABORTED', `reading ${path} was cancelled`)
}

function tooLarge(path: string, maxBytes: number): HarnessError {
  return fsError('FS_TOO_LARGE', `${path} is larger than ${maxBytes} bytes`)
}

function fsError(code: FsErrorCode, problem: string, fix?: string, cause?: unknown): HarnessError {
  return new HarnessError(code, problem, { fix, cause })
}

/** What the system says of a path, in words. */
async function guarded<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isHarnessError(error)) throw error
    throw translate(path, error)
  }
}

function translate(path: string, error: unknown): HarnessError {
  const { code, message } = error as NodeJS.ErrnoException
  switch (code) {
    case 'ENOENT':
      return fsError('FS_NOT_FOUND', `${path} does not exist`, undefined, error)
    case 'ENOTDIR':
      return fsError('FS_NOT_DIRECTORY', `a part of ${path} is a file, not a directory`, undefined, error)
    case 'EEXIST':
      return fsError('FS_NOT_DIRECTORY', `${path} exists and is not a directory`, undefined, error)
    case 'EISDIR':
      return fsError('FS_NOT_FILE', `${path} is a directory`, 'name a file in it', error)
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return fsError('FS_DENIED', `${path}: permission denied`, undefined, error)
    case 'ERR_INVALID_ARG_VALUE':
      return fsError('FS_NOT_FOUND', `${path} holds a NUL character, which no path can`, undefined, error)
    case 'ENAMETOOLONG':
      return fsError(
        'FS_FAILED',
        `${path.slice(0, 200)}… is longer than a path or a name in it may be`,
        undefined,
        error,
      )
    case 'ENXIO':
      return fsError('FS_NOT_FILE', `${path} is a device, a pipe or a socket, not a regular file`, undefined, error)
    case 'ELOOP':
      return fsError('FS_FAILED', `${path} leads through links that lead in a circle`, undefined, error)
    case 'ENOSPC':
    case 'EDQUOT':
      return fsError('FS_FAILED', `${path} was not written: the disk is full`, 'free some space', error)
    default:
      return fsError('FS_FAILED', `${path}: ${message}`, undefined, error)
  }
}

/** Step by step: Node's own recursive form never ends where a file system says that the folder cannot exist, as /proc does. */
async function makeFolders(path: string, again = true): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
    if (code !== 'ENOENT' || !again || dirname(path) === path) throw error
    await makeFolders(dirname(path))
    await makeFolders(path, false)
  }
}
