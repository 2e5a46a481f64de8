/** The files that one log consists of: closed segments, oldest first, and the file that is written. */

import { type FileHandle, open, readdir } from 'node:fs/promises'
import { fileChunks, packedChunks, readLines } from './lines.ts'
import { packedOf, segmentOf, segmentsOf } from './places.ts'

export interface OpenPart {
  readonly file: FileHandle
  readonly path: string
  readonly packed: boolean
  /** The closed segment's number. */
  readonly number?: number
}

export interface Parts {
  /** Numbers of the closed segments there are, in order. */
  readonly closed: ReadonlySet<number>
  /** Undefined when it is lost. Opened first: from then on all segments before it are in their places. */
  readonly active: OpenPart | undefined
  readonly notices: readonly string[]
}

/** The caller closes `active.file`. @throws what the file system says, also when there is nothing at all */
export async function openParts(path: string): Promise<Parts> {
  const notices: string[] = []
  const active = await openPart(path, 'the log', notices).catch(error => {
    if (error.code !== 'ENOENT') throw error
    return error as Error
  })
  const numbers = await segmentNumbers(path).catch(async error => {
    if (!(active instanceof Error)) await active.file.close()
    throw error
  })
  const closed = new Set(numbers)
  if (!(active instanceof Error)) return { closed, active, notices }
  if (!closed.size) throw active
  return { closed, active: undefined, notices }
}

/** @throws what the file system says */
export async function openSegment(path: string, number: number, notices: string[]): Promise<OpenPart> {
  return { ...(await openPart(segmentOf(path, number), `segment ${number}`, notices)), number }
}

export const chunksOf = ({ file, packed }: OpenPart) => (packed ? packedChunks(file) : fileChunks(file))

const HEAD_BYTES = 256 << 10

/** The line that a part begins with, if it is not longer than any header. */
export async function firstLine(part: OpenPart): Promise<string | undefined> {
  let head = Buffer.alloc(0)
  for await (const chunk of chunksOf(part)) {
    head = Buffer.concat([head, chunk.subarray(0, HEAD_BYTES)])
    const end = head.indexOf(0x0a)
    if (end >= 0) return head.toString('utf8', 0, end).trim()
    if (head.length >= HEAD_BYTES) break
  }
  return undefined
}

export async function segmentNumbers(path: string): Promise<number[]> {
  const names = await readdir(segmentsOf(path)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
    return []
  })
  const numbers = names.map(name => Number(/^([1-9]\d{0,8})\.jsonl(\.gz)?$/.exec(name)?.[1] ?? 0))
  return [...new Set(numbers)].filter(Boolean).sort((a, b) => a - b)
}

/** A part lies plain or compressed; after a crash between the two, or by a copy, both are there. */
async function openPart(path: string, what: string, notices: string[]): Promise<OpenPart> {
  const plain = await openIfThere(path)
  const packed = await openIfThere(packedOf(path)).catch(async error => {
    await plain?.close()
    throw error
  })
  if (plain && packed) return openWhole(plain, packed, path, what, notices)
  if (packed) return { file: packed, path: packedOf(path), packed: true }
  // Between the two looks it may have been taken up again.
  return { file: plain ?? (await open(path, 'r')), path, packed: false }
}

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  return open(path, 'r').catch(error => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
}

async function openWhole(plain: FileHandle, packed: FileHandle, path: string, what: string, notices: string[]) {
  const asPlain: OpenPart = { file: plain, path, packed: false }
  const asPacked: OpenPart = { file: packed, path: packedOf(path), packed: true }
  const [inPlain, inPacked] = [await wholeLines(asPlain), await wholeLines(asPacked)]
  const [chosen, other] = inPacked > inPlain ? [asPacked, asPlain] : [asPlain, asPacked]
  await other.file.close()
  notices.push(
    `${what} is there plain and compressed; the ${chosen.packed ? 'compressed' : 'plain'} one counts, which holds ` +
      `${inPlain === inPacked ? 'as much' : 'more'}`,
  )
  return chosen
}

/** How many lines look whole; without a header none do. */
async function wholeLines(part: OpenPart): Promise<number> {
  let count = 0
  let headed: boolean | undefined
  try {
    await readLines(chunksOf(part), 64 << 20, ({ bytes, terminated }) => {
      headed ??= bytes?.toString('latin1', 0, 40).includes('"session"') ?? false
      if (terminated && bytes?.[0] === 0x7b && bytes.at(-1) === 0x7d) count++
    })
  } catch {
    // What could be read counts.
  }
  return headed ? count : 0
}
