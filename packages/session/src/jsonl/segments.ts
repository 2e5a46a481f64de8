/** Rotation: the file that is written becomes a closed segment, and the next file goes on under its name. */

import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createWhole, diskError, ensureFolder } from '@cambium/store'
import { LogFile } from './file.ts'
import { packedOf, segmentOf, segmentsOf, unfinished } from './places.ts'
import { syncFolderNow } from './sync.ts'

/** What is to be closed. */
export interface Closing {
  readonly number: number
  readonly packed: boolean
  /** Whether names and content must outlive the machine's end. */
  readonly durable: boolean
}

/**
 * Gives the log at `path` its next file, which begins with `header`. The old one first gets its segment's name beside its
 * own, then the new one takes its own over in one step: whoever stops in between leaves one file of two names, which
 * readers know by its number and the next attempt goes on from. @throws as `diskError`; what was written stays whole
 */
export function beginSegment(path: string, closing: Closing, header: string): LogFile {
  const { number, packed, durable } = closing
  const bytes = Buffer.from(`${header}\n`)
  const segment = segmentOf(path, number)
  ensureFolder(segmentsOf(path))
  try {
    if (packed) {
      // A plain copy that holds less: it is nobody's, and is kept.
      if (existsSync(path)) renameSync(path, asideOf(segment))
      rename(packedOf(path), packedOf(segment))
    } else if (existsSync(path) && !link(path, segment)) rename(path, segment)
    if (durable) syncFolderNow(segmentsOf(path))
    if (existsSync(path)) replace(path, bytes, durable)
    else createWhole(path, bytes)
  } catch (error) {
    throw diskError(error, 'cannot begin the next file of a session', path)
  }
  return LogFile.begun(path, bytes.length)
}

/** False where there are no links. */
function link(path: string, segment: string): boolean {
  try {
    linkSync(path, segment)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EEXIST') {
      if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EROFS' || code === 'EIO') throw error
      return false
    }
    const [own, there] = [statSync(path), statSync(segment)]
    if (own.ino === there.ino && own.dev === there.dev) return true
    renameSync(segment, asideOf(segment))
    linkSync(path, segment)
  }
  return true
}

/** Puts the compressed copy of a log away, which holds no more than the plain one that is going to be written. @throws what the file system says */
export function setAside(path: string, number: number): void {
  if (!existsSync(packedOf(path))) return
  ensureFolder(segmentsOf(path))
  renameSync(packedOf(path), asideOf(packedOf(segmentOf(path, number))))
}

function rename(from: string, to: string): void {
  if (existsSync(to)) renameSync(to, asideOf(to))
  renameSync(from, to)
}

/** Nothing that anybody wrote is removed: an old copy in the way gets a name that no reader asks for. */
const asideOf = (segment: string) => `${segment}.${Date.now()}.copy`

function replace(path: string, bytes: Buffer, durable: boolean): void {
  const next = unfinished(path)
  try {
    const fd = openSync(next, 'w', 0o600)
    try {
      writeFileSync(fd, bytes)
      if (durable) fsyncSync(fd)
    } finally {
      closeSync(fd)
    }
    renameSync(next, path)
  } catch (error) {
    rmSync(next, { force: true })
    throw error
  }
}
