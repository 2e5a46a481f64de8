/** What a path is at one moment, small enough for a log: contents are named by their hash. */

export type FileState =
  | { readonly kind: 'none' }
  /**
   * `hash` is the SHA-256 of the content, `mode` the permission bits. `inode` is told of a file with several names: they
   * must go on naming one file, and a name that is given to another file meanwhile must not write through to that.
   */
  | {
      readonly kind: 'file'
      readonly mode: number
      readonly size: number
      readonly hash: string
      readonly inode?: number
    }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'folder'; readonly mode: number }
  /** There is something whose content is not kept, and why; `version` differs when it may have changed. */
  | { readonly kind: 'unknown'; readonly why: string; readonly version?: string }

export const NONE: FileState = { kind: 'none' }

/** True when both are known to be the same; two unknown ones are if nothing has changed between. */
export function sameState(a: FileState, b: FileState): boolean {
  switch (a.kind) {
    case 'none':
      return b.kind === 'none'
    case 'file':
      return b.kind === 'file' && a.hash === b.hash && a.mode === b.mode
    case 'link':
      return b.kind === 'link' && a.target === b.target
    case 'folder':
      return b.kind === 'folder' && a.mode === b.mode
    case 'unknown':
      return b.kind === 'unknown' && a.version !== undefined && a.version === b.version
  }
}

export interface Change {
  readonly path: string
  /** Left out where nobody needs it. */
  readonly before?: FileState
  readonly after: FileState
}
