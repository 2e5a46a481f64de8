/** Contents by their hash, one file each, for the owner's eyes only. */

import { createHash } from 'node:crypto'
import { copyFileSync, linkSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { writeWhole } from './whole-file.ts'

/** Smaller contents fill a block of the disk either way. */
const MIN_PACKED_BYTES = 4_096
const MIN_SAVING = 0.9
const PACKED = '.z'

export const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

export class ObjectStore {
  readonly folder: string
  private readonly made = new Set<string>()
  private total: number | undefined

  /** Touches no disk. */
  constructor(folder: string) {
    this.folder = folder
  }

  /** Keeps a content unless it is there. @throws what the file system says */
  async put(bytes: Uint8Array, hash = hashOf(bytes)): Promise<string> {
    if (this.find(hash)) return hash
    const folder = join(this.folder, hash.slice(0, 2))
    if (!this.made.has(folder)) {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      this.made.add(folder)
    }
    const packed = await pack(bytes)
    const stored = packed ?? bytes
    await writeWhole(this.path(hash) + (packed ? PACKED : ''), stored)
    if (this.total !== undefined) this.total += stored.length
    return hash
  }

  /** Undefined when it is not there, or no longer what it was. */
  async get(hash: string): Promise<Buffer | undefined> {
    const path = this.find(hash)
    if (!path) return undefined
    try {
      const stored = await readFile(path)
      const bytes = path.endsWith(PACKED) ? await unpack(stored) : stored
      return hashOf(bytes) === hash ? bytes : undefined
    } catch {
      // Gone meanwhile, unreadable or cut: there is no content either way, which the caller tells.
      return undefined
    }
  }

  has(hash: string): boolean {
    return this.find(hash) !== undefined
  }

  /** Takes contents over from another store: as second names of the same files where that works, else as copies. */
  adopt(from: ObjectStore, hashes: Iterable<string>): void {
    for (const hash of hashes) {
      const source = from.find(hash)
      if (!source || this.has(hash)) continue
      const folder = join(this.folder, hash.slice(0, 2))
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      const target = this.path(hash) + (source.endsWith(PACKED) ? PACKED : '')
      try {
        linkSync(source, target)
      } catch {
        // Another file system, or one without links.
        copyFileSync(source, target)
      }
    }
    this.total = undefined
  }

  /** Bytes on the disk. Looked up once, counted from then on. */
  bytes(): number {
    this.total ??= sizes(this.folder)
    return this.total
  }

  drop(hash: string): void {
    const path = this.find(hash)
    if (!path) return
    const size = sizeOf(path) ?? 0
    rmSync(path, { force: true })
    if (this.total !== undefined) this.total -= size
  }

  private find(hash: string): string | undefined {
    const path = this.path(hash)
    return [path + PACKED, path].find(name => sizeOf(name) !== undefined)
  }

  private path(hash: string): string {
    return join(this.folder, hash.slice(0, 2), hash.slice(2))
  }
}

async function pack(bytes: Uint8Array): Promise<Buffer | undefined> {
  if (bytes.length < MIN_PACKED_BYTES) return undefined
  const { deflate } = await import('node:zlib')
  const packed = await promisify<Uint8Array, object, Buffer>(deflate)(bytes, { level: 3 })
  return packed.length < bytes.length * MIN_SAVING ? packed : undefined
}

async function unpack(bytes: Buffer): Promise<Buffer> {
  const { inflate } = await import('node:zlib')
  return promisify<Buffer, Buffer>(inflate)(bytes)
}

/** Undefined for what cannot be reached, for whatever reason. */
export function sizeOf(path: string): number | undefined {
  try {
    return statSync(path).size
  } catch {
    return undefined
  }
}

function sizes(folder: string): number {
  let total = 0
  try {
    for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      const stat = statSync(join(folder, name), { throwIfNoEntry: false })
      if (stat?.isFile()) total += stat.size
    }
  } catch {
    // No such folder: nothing was ever kept.
  }
  return total
}
