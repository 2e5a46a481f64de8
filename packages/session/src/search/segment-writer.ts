/** Makes a segment: texts go to its file as they come, their terms are held in memory until it is whole. */

import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { constants, crc32, deflateRaw } from 'node:zlib'
import type { Pace } from '@cambium/core'
import type { SessionText } from './documents.ts'
import { type Coverage, type Directory, footer, PageWriter, type Place, ROLES, type StoredText } from './format.ts'
import { Postings } from './postings.ts'

const deflate = promisify(deflateRaw)
/** A third of the text, at a third of the time of the default. */
const LEVEL = { level: constants.Z_BEST_SPEED }

/** What is read at once to look whether it is a hit, and so the grain of the index. */
const BLOCK_CHARS = 32_000

export class SegmentWriter {
  readonly name: string
  /** Of the texts so far: a bound of the memory that the terms take. */
  chars = 0
  private readonly path: string
  private readonly pace: Pace
  private readonly postings = new Postings()
  private readonly sessions: Coverage[] = []
  private file: FileHandle | undefined
  private position = 0
  private blocks = 0

  constructor(folder: string, name: string, pace: Pace) {
    this.name = name
    this.path = join(folder, name)
    this.pace = pace
  }

  /** Texts come in the order of their events. */
  async add(coverage: Omit<Coverage, 'blocks' | 'titleSeq'>, texts: AsyncIterable<SessionText>): Promise<void> {
    const blocks: Place[] = []
    let titleSeq: number | undefined
    let block: StoredText[] = []
    let chars = 0
    const flush = async () => {
      if (!block.length) return
      blocks.push(await this.write(await deflate(JSON.stringify(block), LEVEL)))
      this.blocks++
      block = []
      chars = 0
    }
    for await (const { seq, time, role, text } of texts) {
      await this.pace.rest()
      if (role === 'title') titleSeq = seq
      this.postings.add(text, this.blocks)
      block.push([seq, time, ROLES.indexOf(role), text])
      chars += text.length
      this.chars += text.length
      if (chars >= BLOCK_CHARS) await flush()
    }
    await flush()
    this.sessions.push({ ...coverage, blocks, ...(titleSeq === undefined ? {} : { titleSeq }) })
  }

  /** Gives the file its name; nobody sees it before. */
  async finish(): Promise<void> {
    const pages: [string, Place][] = []
    const packer = new PageWriter()
    const keep = async (page: { term: string; bytes: Buffer } | undefined) => {
      if (page) pages.push([page.term, await this.write(page.bytes)])
    }
    for (const group of this.postings.sorted()) {
      for (const [term, blocks] of group) {
        const page = packer.add(term, blocks)
        if (page) await keep(page)
      }
      await this.pace.rest()
    }
    await keep(packer.end())
    const directory: Directory = { sessions: this.sessions, pages }
    await this.write(footer(await this.write(await deflate(JSON.stringify(directory), LEVEL))))
    await this.file?.close()
    this.file = undefined
    await rename(`${this.path}.tmp`, this.path)
  }

  /** Nothing remains of it. Never rejects. */
  async discard(): Promise<void> {
    await this.file?.close().catch(() => {})
    this.file = undefined
    await rm(`${this.path}.tmp`, { force: true }).catch(() => {})
  }

  private async write(bytes: Buffer): Promise<Place> {
    this.file ??= await open(`${this.path}.tmp`, 'wx', 0o600)
    const offset = this.position
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await this.file.write(bytes, done, bytes.length - done, offset + done)
      done += bytesWritten
    }
    this.position += bytes.length
    return [offset, bytes.length, crc32(bytes)]
  }
}
