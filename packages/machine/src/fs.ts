/**
 * `ctx.fs`: every file an agent's tools touch goes through here, so that another provider (in memory, remote,
 * sandboxed) can stand in for the local disk without any tool knowing.
 *
 * Paths are absolute except where a method says otherwise. Every failure is a `HarnessError` with one of
 * {@link FsErrorCode}; none leaves a half-written file behind.
 */

export interface FileSystem {
  /**
   * The absolute spelling of `path`, relative ones taken from `cwd`, a leading `~/` from the user's home. Touches no
   * disk and does not follow links: it is what a person is shown.
   */
  resolve(path: string, cwd: string): string

  /**
   * What `path` really names, all links followed. Defined for what does not exist yet too: the real folder with the
   * missing rest. Two spellings of one file give one answer; it is the key of {@link lock}.
   */
  realpath(path: string): Promise<string>

  /** Facts about what `path` names, links followed; undefined when there is nothing. */
  stat(path: string): Promise<FileStat | undefined>

  /** The entries of a folder, sorted by name. */
  list(path: string): Promise<DirectoryEntry[]>

  /**
   * A whole regular file. More than `maxBytes` is an error, never a silent cut.
   * @throws `FS_TOO_LARGE`, `FS_NOT_FILE` for a folder, a pipe or a device
   */
  read(path: string, options: ReadOptions): Promise<FileContent>

  /** A regular file's bytes in order, in pieces of at most 64 KiB. Ending the iteration early closes the file. */
  stream(path: string, options?: { signal?: AbortSignal | undefined }): AsyncIterable<Uint8Array>

  /**
   * Replaces or creates a file so that a reader sees the old or the new content and nothing between. Links are
   * followed and kept, an existing file's mode and owner too; a new file obeys the umask. Its folder must exist.
   * A file with several names (hard links), or whose owner cannot be kept, is written in place instead.
   * @throws `FS_CHANGED` when `ifVersion` is given and the file is no longer that version
   */
  write(path: string, content: string | Uint8Array, options?: WriteOptions): Promise<WriteResult>

  /** Makes the folder and those above it; one that exists is fine. */
  mkdir(path: string): Promise<void>

  /** A private, empty folder that lives as long as the provider; the same one each time. */
  tempDir(): Promise<string>

  /**
   * Runs `work` while no other holder of the same real path runs, first come first served. Other paths go on meanwhile.
   * It orders this process's writers only.
   * @throws `FS_ABORTED` when `signal` aborts before its turn has come; `work` was not started then
   */
  lock<T>(path: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T>
}

export interface FileStat {
  readonly kind: FileKind
  /** In bytes; 0 for what has no size to speak of, as the files of `/proc`. */
  readonly size: number
  /** Permission bits, `0o644`. */
  readonly mode: number
  readonly modifiedMs: number
  /** Changes whenever the content may have changed. Compare for equality only. */
  readonly version: string
}

export type FileKind = 'file' | 'directory' | 'link' | 'other'

export interface DirectoryEntry {
  readonly name: string
  /** What the entry itself is: a link is `link`, wherever it leads. */
  readonly kind: FileKind
}

export interface ReadOptions {
  readonly maxBytes: number
  readonly signal?: AbortSignal | undefined
}

export interface FileContent {
  readonly bytes: Buffer
  /** Of the file that was read, taken before its first byte. */
  readonly stat: FileStat
}

export interface WriteOptions {
  /** Write only if the file still is this version ({@link FileStat.version}). */
  readonly ifVersion?: string | undefined
}

export interface WriteResult {
  /** False when a file was replaced. */
  readonly created: boolean
  readonly realpath: string
  readonly version: string
}

export interface FileChange {
  /** All links followed. */
  readonly path: string
  readonly kind: 'file' | 'directory'
}

export type FsErrorCode =
  | 'FS_NOT_FOUND'
  | 'FS_NOT_FILE'
  | 'FS_NOT_DIRECTORY'
  | 'FS_DENIED'
  | 'FS_TOO_LARGE'
  | 'FS_CHANGED'
  | 'FS_ABORTED'
  | 'FS_FAILED'

declare module 'cordis' {
  interface Context {
    /** Files: bounded reads, writes in one step, one lock for each real path. */
    fs: FileSystem
  }
  interface Events {
    /**
     * parallel: a file is about to be written, or a folder made with those above it, at this real path; whoever throws
     * prevents it. Nothing has been changed yet.
     */
    'fs/before-write'(change: FileChange): Promise<void> | void
  }
}
