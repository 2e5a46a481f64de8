/** Looks at the ends of one log: who it is, what it is called, when something last happened in it. */

import { closeSync, openSync, readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { isHarnessError } from '@cambium/core'
import type { SessionHeader } from '../event.ts'
import { damaged, type Head, parseEvent, parseHeader } from './format.ts'
import { packedChunks } from './lines.ts'
import { NOTE_EVERY_BYTES, readNote, writeNote } from './note.ts'
import { segmentNumbers } from './parts.ts'
import { packedOf, segmentOf } from './places.ts'
import { promptOf, setTitle, shorten, TITLE_EVENT } from './titles.ts'

/** Enough for the header and a first prompt; the second for a longer one. */
const HEAD_BYTES = [16 << 10, 256 << 10] as const
const STEP_BYTES = 1 << 20
/** The line of a title is short; whatever is longer is none. */
const TITLE_LINE_BYTES = 64 << 10
const LINE_FEED = 0x0a
const MARK = Buffer.from(`${TITLE_EVENT}"`)

export interface Glance {
  readonly header: SessionHeader
  readonly title: string | undefined
  /** Time of the last event; unknown where only the file's own time tells it. */
  readonly updatedAt: number | undefined
}

/** How much of the logs without a fitting note one list may look through: it is bounded, and the next list has their notes. */
export class SearchBudget {
  left = 512 << 20
}

/** What of a log there is. */
export interface Whereabouts {
  /** Of the plain file, also where there is none. */
  readonly path: string
  readonly plain: boolean
  readonly packed: boolean
  readonly divided: boolean
  /** Of the file that is looked at first. */
  readonly size: number
}

const small = Buffer.allocUnsafe(HEAD_BYTES[1])

/** The whole of a log that is small; undefined when it is not, or when another of its files has to be asked. @throws as {@link glance} */
export function glanceAtSmall({ path, plain, packed, divided, size }: Whereabouts): Glance | undefined {
  if (!plain || packed || divided || size >= small.length) return undefined
  const fd = openSync(path, 'r')
  let bytes: Buffer
  try {
    bytes = small.subarray(0, readSync(fd, small, 0, small.length, 0))
  } finally {
    closeSync(fd)
  }
  if (bytes.length === small.length) return undefined
  const head = beginning(bytes, path)
  return {
    header: head.header,
    title: lastTitle(bytes) ?? head.title ?? firstPrompt(bytes),
    updatedAt: lastTime(bytes),
  }
}

/** @throws `SESSION_DAMAGED`, `SESSION_VERSION`, what the file system says */
export async function glance({ path, plain, packed }: Whereabouts, budget: SearchBudget): Promise<Glance> {
  const ways = [
    ...(plain ? [() => opened(path, file => ofPlain(path, file, budget))] : []),
    ...(packed ? [() => opened(packedOf(path), file => ofPacked(path, file))] : []),
    () => ofSegments(path),
  ]
  let first: unknown
  for (const way of ways) {
    try {
      return await way()
    } catch (error) {
      if (isHarnessError(error) && error.code === 'SESSION_VERSION') throw error
      first ??= error
    }
  }
  throw first
}

async function opened<T>(path: string, look: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, 'r')
  try {
    return await look(file)
  } finally {
    await file.close()
  }
}

async function ofPlain(path: string, file: FileHandle, budget: SearchBudget): Promise<Glance> {
  const { size } = await file.stat()
  const bytes = await read(file, 0, HEAD_BYTES[1])
  const head = beginning(bytes, path)
  const title = (await titleIn(path, file, size, bytes, budget)) ?? head.title ?? firstPrompt(bytes)
  return { ...head, title, updatedAt: lastTime(await tailOf(file, size, bytes)) }
}

/** The header of a compressed one says its title; it is not written any more. */
async function ofPacked(path: string, file: FileHandle): Promise<Glance> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of packedChunks(file)) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= HEAD_BYTES[1]) break
  }
  const bytes = Buffer.concat(chunks)
  const head = beginning(bytes, path)
  return { ...head, title: head.title ?? firstPrompt(bytes), updatedAt: undefined }
}

/** The file that was written is lost or damaged: what the newest segment says that can be read. */
async function ofSegments(path: string): Promise<Glance> {
  let failure: unknown = damaged(path, 'it is not there')
  for (const number of (await segmentNumbers(path)).reverse()) {
    const segment = segmentOf(path, number)
    for (const packed of [false, true]) {
      try {
        return await opened(packed ? packedOf(segment) : segment, file =>
          packed ? ofPacked(segment, file) : ofPlain(segment, file, new SearchBudget()),
        )
      } catch (error) {
        failure = error
      }
    }
  }
  throw failure
}

async function read(file: FileHandle, from: number, bytes: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(bytes), 0, bytes, from)
  return buffer.subarray(0, bytesRead)
}

/** @throws as `parseHeader` */
function beginning(bytes: Buffer, path: string): Pick<Head, 'header' | 'title'> {
  const end = bytes.indexOf(LINE_FEED)
  const { header, title } = parseHeader(bytes.toString('utf8', 0, end < 0 ? bytes.length : end).trim(), path)
  return { header, title }
}

const EVENTS_OF_PROMPTS = /^\{[^{]{0,100}"type":"(inbox\/changed|user\/message)"/

/** The first words of the first prompt. A prompt is logged when it is received, before the much longer request header. */
function firstPrompt(bytes: Buffer): string | undefined {
  for (let start = bytes.indexOf(LINE_FEED) + 1; start > 0 && start < bytes.length; ) {
    const end = bytes.indexOf(LINE_FEED, start)
    if (EVENTS_OF_PROMPTS.test(bytes.toString('latin1', start, start + 200))) {
      const line = bytes.toString('utf8', start, end < 0 ? bytes.length : end)
      // The line of a very long prompt ends beyond what was read; its beginning is all that is needed.
      const text = end < 0 ? beginningOf(line) : promptOf(parseEvent(line.trim())?.data)
      if (text?.trim()) return shorten(text)
    }
    start = end + 1
  }
  return undefined
}

function beginningOf(line: string): string | undefined {
  const text = /"text":("(?:[^"\\]|\\.){1,400})/.exec(line)?.[1]
  try {
    return text && (JSON.parse(`${text}"`) as string)
  } catch {
    return undefined
  }
}

/**
 * The title that was set last, sought backwards from the end to where a note knows it. A log without one is looked
 * through, within the budget, and has one from then on.
 */
async function titleIn(path: string, file: FileHandle, size: number, head: Buffer, budget: SearchBudget) {
  const note = await readNote(path, file, size)
  const from = note?.upTo ?? head.length
  if (size - from > NOTE_EVERY_BYTES * 2) budget.left -= size - from
  const stop = budget.left >= 0 ? from : Math.max(from, size - HEAD_BYTES[1])
  // Blocks overlap by the longest line that is looked for.
  for (let end = size; end > stop; end -= STEP_BYTES - TITLE_LINE_BYTES) {
    const start = Math.max(0, stop - TITLE_LINE_BYTES, end - STEP_BYTES)
    const title = lastTitle(await read(file, start, end - start))
    if (title) return keep(title)
    if (start <= stop) break
  }
  return keep(note ? note.title : lastTitle(head))

  function keep(title: string | undefined): string | undefined {
    if (stop === from && size - from > NOTE_EVERY_BYTES * 2) {
      try {
        writeNote(path, { title, upTo: size })
      } catch {
        // Only the next list would have gained by it.
      }
    }
    return title
  }
}

function lastTitle(bytes: Buffer): string | undefined {
  // In the text of a message the quote is escaped; only an event of that type has these bytes, or data that looks alike.
  for (let at = bytes.lastIndexOf(MARK); at >= 0; at = at > 0 ? bytes.lastIndexOf(MARK, at - 1) : -1) {
    const end = bytes.indexOf(LINE_FEED, at)
    const start = bytes.lastIndexOf(LINE_FEED, at) + 1
    if (end < 0 || end - start > TITLE_LINE_BYTES) continue
    const event = parseEvent(bytes.toString('utf8', start, end).trim())
    const title = (event?.type as string) === TITLE_EVENT ? setTitle(event?.data) : undefined
    if (title) return title
  }
  return undefined
}

async function tailOf(file: FileHandle, size: number, head: Buffer): Promise<Buffer> {
  if (size <= head.length) return head
  const bytes = await read(file, Math.max(0, size - HEAD_BYTES[0]), HEAD_BYTES[0])
  return lastTime(bytes) === undefined ? read(file, Math.max(0, size - HEAD_BYTES[1]), HEAD_BYTES[1]) : bytes
}

/** When the last whole line happened that says so. */
function lastTime(bytes: Buffer): number | undefined {
  for (let end = bytes.lastIndexOf(LINE_FEED); end > 0; ) {
    const start = bytes.lastIndexOf(LINE_FEED, end - 1) + 1
    if (start === 0) return undefined
    const time = /^\{"seq":\d+,"time":(\d{1,16})\b/.exec(bytes.toString('latin1', start, start + 64))?.[1]
    if (time) return Number(time)
    end = start - 1
  }
  return undefined
}
