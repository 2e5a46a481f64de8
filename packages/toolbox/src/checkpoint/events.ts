/**
 * What the log says about files: states by content hash, never contents. All commands of a turn are watched as one, in
 * the name of the first: looked at before it, at the end of the turn, and before a write of a tool in between.
 */

import type { FileState } from '@cambium/machine/checkpoint'
import type {} from '@cambium/session'

/** A path from the session's working directory, or absolute where it lies outside. */
export type LeftFile = { readonly path: string } & FileState
/** `again`: its state before the turn is kept already, and it is about to change once more. */
export type KeptFile = { readonly path: string } & (FileState | { readonly kind: 'again' })

declare module '@cambium/session' {
  interface SessionEventMap {
    /** What files were before they were changed: logged before a write, and with the look after commands. */
    'checkpoint/kept': {
      /** 0 outside of turns. */
      readonly turn: number
      readonly callId?: string
      readonly files: readonly KeptFile[]
      /** Set when files are put back to what they were after that event. */
      readonly restores?: number
      /** It counts as if it stood after that event: of a turn that was cancelled or cut off, found out later. */
      readonly since?: number
    }
    /** What a call has left there. With `done`, of a command that was watched, everything that it and those after it have changed is told. */
    'checkpoint/left': {
      readonly turn: number
      readonly callId?: string
      readonly files: readonly LeftFile[]
      readonly done?: boolean
      /** What was not looked at. */
      readonly notes?: readonly string[]
      readonly since?: number
    }
    /** Before a command: the whole folder was seen. Without `snapshot` it could not be, and `notes` says why. */
    'checkpoint/watched': {
      readonly turn: number
      readonly callId: string
      readonly snapshot?: string
      readonly files?: number
      readonly copiedBytes?: number
      /** What was not looked at. */
      readonly notes?: readonly string[]
      /** What cannot be put back. */
      readonly unkept?: readonly string[]
    }
  }
}

export const KEPT = 'checkpoint/kept'
export const LEFT = 'checkpoint/left'
export const WATCHED = 'checkpoint/watched'

/** So many in one event: a line of the log stays one that can be read. */
const MAX_FILES = 500

export function inPieces<T>(files: readonly T[]): (readonly T[])[] {
  const pieces: (readonly T[])[] = []
  for (let at = 0; at < files.length; at += MAX_FILES) pieces.push(files.slice(at, at + MAX_FILES))
  return pieces
}

export const stateOf = ({ path: _, ...state }: LeftFile): FileState => state as FileState
