/**
 * What the user's repository tells of a folder: what it ignores, and which files are as their blobs. It is only read:
 * no index is refreshed, no lock taken, no hook, monitor or filter started.
 */

import { createHash } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { HarnessError } from '@cambium/core'
import type { ProcessHost } from '../process.ts'
import { pathText } from './path-text.ts'

export interface CachedFile {
  readonly blob: string
  readonly size: number
  readonly mtimeMs: number
  readonly ctimeMs: number
}

const QUIET = ['--no-optional-locks', '-c', 'core.fsmonitor=false', '-c', 'core.untrackedCache=false'] as const
const ENVIRONMENT = {
  GIT_OPTIONAL_LOCKS: '0',
  GIT_NO_LAZY_FETCH: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_DIR: undefined,
  GIT_WORK_TREE: undefined,
  GIT_INDEX_FILE: undefined,
  GIT_OBJECT_DIRECTORY: undefined,
  LC_ALL: 'C',
} as const

const MAX_OUTPUT = 256 << 20
const TIMEOUT_MS = 20_000

/** The work tree that `folder` lies in: where its `.git` is. */
export function workTreeOf(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    if (existsSync(join(at, '.git'))) return at
    if (dirname(at) === at) return undefined
  }
}

export class GitReader {
  private readonly host: ProcessHost
  private readonly cwd: string
  private readonly signal: AbortSignal | undefined

  constructor(host: ProcessHost, cwd: string, signal?: AbortSignal) {
    this.host = host
    this.cwd = cwd
    this.signal = signal
  }

  /** Paths below the folder that are ignored, whole folders as one; undefined when the folder itself is. */
  async ignored(): Promise<Set<string> | undefined> {
    const args = ['ls-files', '-oi', '--exclude-standard', '--directory', '-z'] as const
    const paths = new Set<string>()
    for (const name of fields(await this.run(args))) {
      const path = name.endsWith('/') ? name.slice(0, -1) : name
      if (path === '' || path === '.') return undefined
      paths.add(path)
    }
    return paths
  }

  /** What the index holds of regular files, by path, with the facts it knew them by. */
  async cached(): Promise<Map<string, CachedFile>> {
    const files = new Map<string, CachedFile>()
    const output = await this.run(['ls-files', '-s', '--debug', '-z'])
    // `<mode> <id> <stage>\t<path>\0`, then lines of facts, of which the last ends in a newline.
    let at = 0
    for (;;) {
      const end = output.indexOf(0, at)
      if (end < 0) return files
      const head = output.subarray(at, end)
      const tab = head.indexOf(9)
      const [mode = '', blob = '', stage] = head.toString('latin1', 0, tab).split(' ')
      const next = nextEntry(output, end + 1)
      const facts = FACTS.exec(output.toString('latin1', end + 1, next))
      if (mode.startsWith('100') && stage === '0' && facts) {
        const [, cs, cn, ms, mn, size] = facts.map(Number) as [number, number, number, number, number, number]
        const file = { blob, size, mtimeMs: ms * 1e3 + mn / 1e6, ctimeMs: cs * 1e3 + cn / 1e6 }
        files.set(pathText(head.subarray(tab + 1)), file)
      }
      at = next
    }
  }

  /** When the index was written, in milliseconds: what changed at that moment may be other than it says. */
  async indexTime(): Promise<number> {
    const path = pathText(await this.run(['rev-parse', '--git-path', 'index'])).trimEnd()
    return statSync(resolve(this.cwd, path)).mtimeMs
  }

  /**
   * How far a clean file is as its blob: `whole` where nothing converts contents, `size` where line endings, encodings or
   * LFS may, all of which change the length, `none` where a filter of somebody's own may do anything. `paths` are those
   * of the tree, among them files of attributes.
   */
  async trust(paths: readonly string[]): Promise<'whole' | 'size' | 'none'> {
    const listed = await this.run(
      ['config', '--get-regexp', '^(filter\\..*\\.(clean|smudge|process)|core\\..*)$'],
      [0, 1],
    )
    const settings = pathText(listed).split('\n')
    if (settings.some(line => line.startsWith('filter.') && !line.startsWith('filter.lfs.'))) return 'none'
    if (settings.some(line => /^core\.(autocrlf|eol|attributesfile) (?!false$|lf$)/.test(line))) return 'size'
    const own = pathText(await this.run(['rev-parse', '--git-path', 'info/attributes'])).trimEnd()
    const config = process.env['XDG_CONFIG_HOME'] || join(homedir(), '.config')
    const above = [resolve(this.cwd, own), join(config, 'git/attributes'), '/etc/gitattributes']
    const top = workTreeOf(this.cwd) ?? this.cwd
    for (let at = this.cwd; at !== top; at = dirname(at)) above.push(join(dirname(at), '.gitattributes'))
    const attributes = paths.some(path => path.endsWith('.gitattributes')) || above.some(path => existsSync(path))
    return attributes ? 'size' : 'whole'
  }

  /** Lengths by blob id; what is not there is left out. */
  async sizes(ids: readonly string[]): Promise<Map<string, number>> {
    const sizes = new Map<string, number>()
    const listed = await this.run(['cat-file', '--batch-check=%(objectname) %(objectsize)', '--buffer'], [0], ids)
    for (const line of listed.toString('latin1').split('\n')) {
      const [id = '', size] = line.split(' ')
      if (size && size !== 'missing') sizes.set(id, Number(size))
    }
    return sizes
  }

  /** Tells contents by blob id, one after the other, each whole and checked against its id; what is not there is left out. */
  async blobs(ids: readonly string[], tell: (id: string, bytes: Buffer) => Promise<void>): Promise<void> {
    const child = await this.spawn(['cat-file', '--batch'])
    const timer = setTimeout(() => void child.end(), TIMEOUT_MS)
    child.stderr.resume()
    child.stdin.on('error', () => {}).end(`${ids.join('\n')}\n`)
    const output = new ByteReader(child.stdout)
    try {
      for (let line = await output.line(); line !== undefined; line = await output.line()) {
        const [id = '', type, length] = line.split(' ')
        if (type === 'missing') continue
        const bytes = await output.take(Number(length))
        await output.take(1)
        if (bytes && type === 'blob' && blobId(bytes, id.length) === id) await tell(id, bytes)
      }
    } finally {
      clearTimeout(timer)
      await child.end()
    }
  }

  private async run(
    args: readonly string[],
    fine: readonly number[] = [0],
    lines: readonly string[] = [],
  ): Promise<Buffer> {
    const child = await this.spawn(args)
    const timer = setTimeout(() => void child.end(), TIMEOUT_MS)
    child.stdin.on('error', () => {}).end(lines.map(line => `${line}\n`).join(''))
    child.stderr.resume()
    try {
      const pieces: Buffer[] = []
      let length = 0
      for await (const piece of child.stdout as AsyncIterable<Buffer>) {
        pieces.push(piece)
        length += piece.length
        if (length > MAX_OUTPUT) throw failure(args, 'it says too much')
      }
      const { exitCode } = await child.exited
      if (exitCode === null || !fine.includes(exitCode)) throw failure(args, `exit code ${exitCode}`)
      return Buffer.concat(pieces)
    } finally {
      clearTimeout(timer)
      await child.end()
    }
  }

  private spawn(args: readonly string[]) {
    const { cwd, signal } = this
    return this.host.spawn({ argv: ['git', ...QUIET, ...args], cwd, env: ENVIRONMENT, ...(signal ? { signal } : {}) })
  }
}

const FACTS = /ctime: (\d+):(\d+)\s+mtime: (\d+):(\d+)[\s\S]*size: (\d+)/
const LINES = 5

function nextEntry(output: Buffer, from: number): number {
  let at = from
  for (let line = 0; line < LINES; line++) {
    const end = output.indexOf(10, at)
    if (end < 0) return output.length
    at = end + 1
  }
  return at
}

function fields(output: Buffer): string[] {
  const found: string[] = []
  let at = 0
  for (let end = output.indexOf(0); end >= 0; end = output.indexOf(0, at)) {
    found.push(pathText(output.subarray(at, end)))
    at = end + 1
  }
  return found
}

/** The id that git gives a content, by the length of its repository's ids. */
export function blobId(bytes: Uint8Array, length: number): string {
  const hash = createHash(length === 64 ? 'sha256' : 'sha1')
  return hash.update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
}

const failure = (args: readonly string[], why: string) =>
  new HarnessError('SNAPSHOT_GIT_FAILED', `git ${args[0]} failed: ${why}`)

class ByteReader {
  private readonly parts: AsyncIterator<Buffer>
  private buffer: Buffer = Buffer.alloc(0)

  constructor(stream: AsyncIterable<Buffer>) {
    this.parts = stream[Symbol.asyncIterator]()
  }

  async line(): Promise<string | undefined> {
    let end = this.buffer.indexOf(10)
    for (; end < 0; end = this.buffer.indexOf(10)) if (!(await this.more(1))) return undefined
    const line = this.buffer.toString('latin1', 0, end)
    this.buffer = this.buffer.subarray(end + 1)
    return line
  }

  async take(length: number): Promise<Buffer | undefined> {
    if (this.buffer.length < length && !(await this.more(length - this.buffer.length))) return undefined
    const bytes = this.buffer.subarray(0, length)
    this.buffer = this.buffer.subarray(length)
    return bytes
  }

  /** At least so many bytes more, joined once. */
  private async more(bytes: number): Promise<boolean> {
    const pieces = [this.buffer]
    for (let missing = bytes; missing > 0; ) {
      const part = await this.parts.next()
      if (part.done) return false
      pieces.push(part.value)
      missing -= part.value.length
    }
    this.buffer = Buffer.concat(pieces)
    return true
  }
}
