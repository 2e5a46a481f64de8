/** Single changes to a folder's entries, each in one step, also where modes forbid them to the owner for the moment. */

import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { temporaryName } from '../temporary-name.ts'
import { type Facts, lookUp } from './look.ts'
import { toPath } from './path-text.ts'

export function removeFile(path: string): void {
  inFolder(path, () => unlinkSync(toPath(path)))
}

export function removeFolder(path: string): void {
  inFolder(path, () => rmdirSync(toPath(path)))
}

/** With those above it. One that is there is fine; a link to one is not. */
export function makeFolder(path: string): void {
  const found = lookUp(path)
  if (found?.kind === 'folder') return
  if (dirname(path) !== path) makeFolder(dirname(path))
  inFolder(path, () => mkdirSync(toPath(path)))
}

export function setMode(path: string, mode: number): void {
  chmodSync(toPath(path), mode)
}

export function makeLink(path: string, target: string): void {
  const temporary = temporaryName(path)
  inFolder(path, () => {
    symlinkSync(toPath(target), toPath(temporary))
    try {
      renameSync(toPath(temporary), toPath(path))
    } catch (error) {
      rmSync(toPath(temporary), { force: true })
      throw error
    }
  })
}

/**
 * The file's owner stays. One that is still the file `inode`, of several names, is written in place, so that all of them
 * go on naming the same content. Never through a link.
 */
export function writeFile(path: string, bytes: Uint8Array, mode: number, inode: number | undefined): void {
  const former = lookUp(path)
  if (former?.kind === 'file' && former.nlink > 1 && former.ino === inode) writeInPlace(path, bytes, mode, former)
  else inFolder(path, () => replace(path, bytes, mode, former))
}

function replace(path: string, bytes: Uint8Array, mode: number, former: Facts | undefined): void {
  const temporary = temporaryName(path)
  const file = openSync(toPath(temporary), 'wx', 0o600)
  try {
    try {
      writeAll(file, bytes)
      if (former) giveTo(file, path)
      // After the owner, whose change takes setuid and setgid away.
      fchmodSync(file, mode)
    } finally {
      closeSync(file)
    }
    renameSync(toPath(temporary), toPath(path))
  } catch (error) {
    rmSync(toPath(temporary), { force: true })
    throw error
  }
}

function writeInPlace(path: string, bytes: Uint8Array, mode: number, former: Facts): void {
  if (!(former.mode & 0o200)) chmodSync(toPath(path), former.mode | 0o200)
  const file = openSync(toPath(path), constants.O_RDWR | constants.O_NOFOLLOW)
  try {
    writeAll(file, bytes)
    ftruncateSync(file, bytes.length)
    fchmodSync(file, mode)
  } finally {
    closeSync(file)
  }
}

function writeAll(file: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at, bytes.length - at, at)
}

/** The owner of what is replaced; only root may give files away. */
function giveTo(file: number, path: string): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = lstatSync(toPath(path))
  fchownSync(file, uid, gid)
}

/** A folder that its owner may not write is made writable for as long as it takes. */
function inFolder(path: string, work: () => void): void {
  try {
    work()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const folder = dirname(path)
    const stat = lookUp(folder)
    if (code !== 'EACCES' || stat?.kind !== 'folder' || (stat.mode & 0o300) === 0o300) throw error
    chmodSync(toPath(folder), stat.mode | 0o700)
    try {
      work()
    } finally {
      chmodSync(toPath(folder), stat.mode)
    }
  }
}
