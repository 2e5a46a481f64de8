/** A segment that is read: its directory in memory, everything else on the disk until it is asked for. */

import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { inflateRaw } from 'node:zlib'
import type { SessionText } from './documents.ts'
import {
  type Coverage,
  type Directory,
  eachTermOf,
  FOOTER_BYTES,
  IndexDamage,
  type Place,
  parseFooter,
  ROLES,
  type StoredText,
  verified,
} from './format.ts'
import type { QueryWord } from './query.ts'

const inflate = promisify(inflateRaw)
/** A directory of a segment, or a block: far below in a sound file. */
const MAX_INFLATED = { maxOutputLength: 256 << 20 }

export class Segment {
  readonly name: string
  readonly directory: Directory
  /** Index of each session's first block. */
  readonly starts: ReadonlyMap<Coverage, number>
  private readonly blocks: number
  private readonly path: string

  private constructor(folder: string, name: string, directory: Directory) {
    this.name = name
    this.path = join(folder, name)
    this.directory = directory
    const starts = new Map<Coverage, number>()
    let blocks = 0
    for (const session of directory.sessions) {
      starts.set(session, blocks)
      blocks += session.blocks.length
    }
    this.starts = starts
    this.blocks = blocks
  }

  /** @throws IndexDamage; what the file system says */
  static async open(folder: string, name: string): Promise<Segment> {
    const file = await open(join(folder, name))
    try {
      const { size } = await file.stat()
      const place = parseFooter(await readAt(file, size - FOOTER_BYTES, FOOTER_BYTES))
      return new Segment(folder, name, (await inflated(await readPlace(file, place))) as Directory)
    } finally {
      await file.close()
    }
  }

  /** To be closed. @throws what the file system says */
  async reader(): Promise<SegmentReader> {
    return new SegmentReader(await open(this.path), this.directory, this.blocks)
  }
}

export class SegmentReader {
  private readonly file: FileHandle
  private readonly directory: Directory
  private readonly blocks: number

  constructor(file: FileHandle, directory: Directory, blocks: number) {
    this.file = file
    this.directory = directory
    this.blocks = blocks
  }

  /** For each block 1 where it may hold a message with all of the words. */
  async candidates(words: readonly QueryWord[]): Promise<Uint8Array> {
    const all = new Uint8Array(this.blocks).fill(1)
    for (const beginning of new Set(words.flatMap(({ terms }) => terms))) {
      const found = await this.blocksOf(beginning)
      for (let block = 0; block < all.length; block++) all[block]! &= found[block]!
    }
    return all
  }

  close(): Promise<void> {
    return this.file.close()
  }

  async texts(place: Place): Promise<SessionText[]> {
    const stored = (await inflated(await readPlace(this.file, place))) as StoredText[]
    return stored.map(([seq, time, role, text]) => ({ seq, time, role: ROLES[role]!, text }))
  }

  private async blocksOf(beginning: string): Promise<Uint8Array> {
    const found = new Uint8Array(this.blocks)
    const { pages } = this.directory
    // The page before the first that begins after it may end with it.
    let at = pages.findIndex(([term]) => term >= beginning)
    at = Math.max(0, (at < 0 ? pages.length : at) - 1)
    for (let over = false; !over && at < pages.length; at++) {
      const [first, place] = pages[at]!
      if (first > beginning && !first.startsWith(beginning)) break
      eachTermOf(await readPlace(this.file, place), (term, blocks) => {
        if (term.startsWith(beginning)) for (const block of blocks()) found[block] = 1
        else over = term > beginning
        return !over
      })
    }
    return found
  }
}

async function readPlace(file: FileHandle, place: Place): Promise<Buffer> {
  return verified(await readAt(file, place[0], place[1]), place)
}

async function readAt(file: FileHandle, offset: number, length: number): Promise<Buffer> {
  if (!(offset >= 0 && length < MAX_INFLATED.maxOutputLength)) throw new IndexDamage('it is cut off')
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, offset)
  if (bytesRead !== length) throw new IndexDamage('it is cut off')
  return buffer
}

async function inflated(bytes: Buffer): Promise<unknown> {
  try {
    return JSON.parse((await inflate(bytes, MAX_INFLATED)).toString('utf8'))
  } catch (error) {
    throw new IndexDamage('it cannot be unpacked', { cause: error })
  }
}
