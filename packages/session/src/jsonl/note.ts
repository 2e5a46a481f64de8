/**
 * What a list needs to know of a large log without reading it: its title, beside the log. A note counts only for the log
 * that it was made of, and only for its first `upTo` bytes; whatever else is in its place counts as none.
 */

import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { writeAtomic } from '@cambium/store'
import type { EventType } from '../event.ts'
import type { Session } from '../session.ts'
import { noteOf } from './places.ts'
import { setTitle, TITLE_EVENT, titleOf } from './titles.ts'

export interface Note {
  /** Of the last event in these bytes that set one. */
  readonly title?: string | undefined
  readonly upTo: number
}

/** Smaller logs are simply looked through. */
export const NOTE_BYTES = 256 << 10
/** So much may follow what a note knows, and be looked through instead. */
export const NOTE_EVERY_BYTES = 4 << 20

const TAIL_BYTES = 128
const MAX_BYTES = 8 << 10

/** Says what holds for the log as long as it only grows. @throws what the file system says */
export function writeNote(log: string, { title, upTo }: Note): void {
  const fd = openSync(log, 'r')
  try {
    const tail = Buffer.alloc(TAIL_BYTES)
    const length = readSync(fd, tail, 0, Math.min(TAIL_BYTES, upTo), Math.max(0, upTo - TAIL_BYTES))
    const content = { upTo, ...(title === undefined ? {} : { title }) }
    writeAtomic(noteOf(log), JSON.stringify({ ...content, fits: fit(content, tail.subarray(0, length)) }))
  } finally {
    closeSync(fd)
  }
}

/** The note of an open log of `size` bytes, if there is one that fits it. */
export async function readNote(log: string, file: FileHandle, size: number): Promise<Note | undefined> {
  let note: FileHandle | undefined
  try {
    note = await open(noteOf(log), 'r')
    const { buffer, bytesRead } = await note.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0)
    const { fits, ...content } = JSON.parse(buffer.toString('utf8', 0, bytesRead)) as Note & { fits: string }
    const { upTo, title } = content
    if (!Number.isInteger(upTo) || upTo < 0 || upTo > size) return undefined
    if (title !== undefined && typeof title !== 'string') return undefined
    const tail = await file.read(
      Buffer.alloc(TAIL_BYTES),
      0,
      Math.min(TAIL_BYTES, upTo),
      Math.max(0, upTo - TAIL_BYTES),
    )
    return fit(content, tail.buffer.subarray(0, tail.bytesRead)) === fits ? content : undefined
  } catch {
    // None, or of no use: the log is what counts.
    return undefined
  } finally {
    await note?.close()
  }
}

/** Leaves word for lists while a log is written. Nothing depends on it. */
export class NoteKeeper {
  private noted: Note | undefined
  private firstWords: string | undefined

  /** Another title was set, or another file is written. */
  outdated(): void {
    this.noted = undefined
  }

  /** Writes a note when there is none that holds, or when more than `everyBytes` follow what it knows. Never throws. */
  keep(session: Session, file: { readonly path: string; readonly size: number }, everyBytes: number): void {
    if (file.size < NOTE_BYTES || (this.noted && file.size - this.noted.upTo < everyBytes)) return
    this.noted = { title: this.titleOf(session), upTo: file.size }
    try {
      writeNote(file.path, this.noted)
    } catch {
      // Lists look through the log instead.
    }
  }

  titleOf(session: Session): string | undefined {
    const last = session.last(TITLE_EVENT as EventType)
    if (last) return setTitle(last.data) ?? titleOf(session.events())
    this.firstWords ??= titleOf(session.events())
    return this.firstWords
  }
}

function fit({ upTo, title }: Note, tail: Uint8Array): string {
  return createHash('sha256')
    .update(`${upTo} ${title ?? ''}\n`)
    .update(tail)
    .digest('hex')
    .slice(0, 16)
}
