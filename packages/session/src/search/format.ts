/**
 * A segment: a file that never changes, with the texts of some spans of some sessions and the terms that lead to them.
 *
 * ```
 * blocks     each deflated JSON, [seq, time, role, text][] of one session
 * pages      each ≤ about 8 KiB of terms in order: shared characters, own bytes, blocks, as variable-length numbers
 * directory  deflated JSON: `Directory`
 * footer     its offset, its length, its checksum, MAGIC
 * ```
 */

import { crc32 } from 'node:zlib'
import type { SessionHit } from './contract.ts'

export const MAGIC = 'CAMBIUM-SEARCH-1'
export const FOOTER_BYTES = 16 + MAGIC.length

/** Where something lies in the file: offset, length, checksum. */
export type Place = readonly [offset: number, length: number, checksum: number]

/** What a segment has of one session. */
export interface Coverage {
  readonly id: string
  /** Rises when a session is read anew from its beginning; only the highest counts. */
  readonly generation: number
  /** Events from `from` up to and without `to` were looked at. */
  readonly from: number
  readonly to: number
  /** How the log looked when that was done. */
  readonly mark: Mark
  /** The last title in it. */
  readonly titleSeq?: number
  /** What its reader had to say. */
  readonly notices?: readonly string[]
  readonly blocks: readonly Place[]
}

export interface Mark {
  readonly bytes: number
  readonly updatedAt: number
  readonly createdAt: number
  /** Time of event `to - 1`. */
  readonly lastTime: number
}

export interface Directory {
  readonly sessions: readonly Coverage[]
  /** The first term of each page. */
  readonly pages: readonly (readonly [term: string, place: Place])[]
}

export type StoredText = readonly [seq: number, time: number, role: number, text: string]
export const ROLES: readonly SessionHit['role'][] = ['user', 'assistant', 'tool', 'title']

/** Thrown where bytes are not what they should be; the index is made anew then. */
export class IndexDamage extends Error {
  override readonly name = 'IndexDamage'
}

export function footer([offset, length, checksum]: Place): Buffer {
  const bytes = Buffer.alloc(FOOTER_BYTES)
  bytes.writeDoubleLE(offset, 0)
  bytes.writeUInt32LE(length, 8)
  bytes.writeUInt32LE(checksum, 12)
  bytes.write(MAGIC, 16, 'latin1')
  return bytes
}

export function parseFooter(bytes: Buffer): Place {
  if (bytes.length !== FOOTER_BYTES || bytes.toString('latin1', 16) !== MAGIC) throw new IndexDamage('no footer')
  return [bytes.readDoubleLE(0), bytes.readUInt32LE(8), bytes.readUInt32LE(12)]
}

export function verified(bytes: Buffer, [, length, checksum]: Place): Buffer {
  if (bytes.length !== length || crc32(bytes) !== checksum) throw new IndexDamage('a checksum is wrong')
  return bytes
}

const PAGE_BYTES = 8 << 10

/** Packs terms, which come in order, into pages. */
export class PageWriter {
  private bytes = Buffer.allocUnsafe(PAGE_BYTES * 2)
  private length = 0
  private first = ''
  private last = ''

  /** The page that the term did not fit into any more, when there is one. */
  add(term: string, blocks: readonly number[]): { term: string; bytes: Buffer } | undefined {
    const done = this.length >= PAGE_BYTES ? this.end() : undefined
    if (!this.length) this.first = term
    let shared = 0
    while (shared < this.last.length && this.last[shared] === term[shared]) shared++
    // Half of a character has no bytes.
    if (/[\udc00-\udfff]/.test(term[shared] ?? '')) shared--
    const own = Buffer.from(term.slice(shared))
    // A number takes at most five bytes.
    const needed = 15 + own.length + blocks.length * 5
    if (this.length + needed > this.bytes.length) {
      this.bytes = Buffer.concat([this.bytes.subarray(0, this.length)], this.length + needed + PAGE_BYTES)
    }
    this.number(shared)
    this.number(own.length)
    own.copy(this.bytes, this.length)
    this.length += own.length
    this.number(blocks.length)
    let before = 0
    for (const block of blocks) {
      this.number(block - before)
      before = block
    }
    this.last = term
    return done
  }

  /** The last page, when there is one. */
  end(): { term: string; bytes: Buffer } | undefined {
    if (!this.length) return undefined
    const page = { term: this.first, bytes: Buffer.from(this.bytes.subarray(0, this.length)) }
    this.length = 0
    this.last = ''
    return page
  }

  private number(value: number): void {
    let rest = value
    for (; rest > 127; rest >>>= 7) this.bytes[this.length++] = (rest & 127) | 128
    this.bytes[this.length++] = rest
  }
}

/** Tells each term of a page with its blocks, until `tell` answers false. */
export function eachTermOf(page: Buffer, tell: (term: string, blocks: () => number[]) => boolean): void {
  let at = 0
  const number = () => {
    let value = 0
    for (let shift = 0; ; shift += 7) {
      const byte = page[at++] ?? 0
      value += (byte & 127) * 2 ** shift
      if (byte < 128) return value
    }
  }
  let term = ''
  while (at < page.length) {
    const shared = number()
    const own = number()
    term = term.slice(0, shared) + page.toString('utf8', at, at + own)
    at += own
    const count = number()
    let read = false
    const blocks = () => {
      read = true
      const list: number[] = []
      for (let before = 0; list.length < count; ) {
        before += number()
        list.push(before)
      }
      return list
    }
    if (!tell(term, blocks)) return
    if (!read) for (let left = count; left; left--) number()
  }
}
