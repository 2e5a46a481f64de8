/** Tells when files changed, however they are saved: in place, by renaming, by deleting and creating, through links. */

import { resolve } from 'node:path'
import { errorMessage, HarnessError } from '@cambium/core'
import { type Content, contentOf, isLacking, signatureAt } from './watch/content.ts'
import { type Trail, Trails } from './watch/trails.ts'

export interface FileChange {
  /** As it was given, made absolute. */
  readonly path: string
  readonly kind: 'changed' | 'created' | 'removed'
}

export interface WatchOptions {
  /** How long nothing may happen to any of the files before a save counts as done (120). */
  settleMs?: number
  /** How long a file must be empty or gone before that is told (1200): editors delete and create. */
  graceMs?: number
  /** Whether watching keeps the process alive (false). */
  persistent?: boolean
  /** Told when a folder is polled since it cannot be watched (`STORE_WATCH_POLLING`), and when the listener throws. */
  warn?: (error: HarnessError) => void
}

export interface FileWatch {
  /**
   * The files to watch from now on, existing or not. What a new one holds is read before this returns: later changes of
   * it are told. One that stays keeps what is known of it.
   */
  update(files: Iterable<string>): void
  /** Whatever these files hold once they have settled is told, also when that was told before. */
  doubt(files: Iterable<string>): void
  close(): void
}

/** A file that never comes to rest is told each time that it could have settled so often. */
const MAX_BURST_FACTOR = 40
/** How often everything is looked at, watched or not: events get lost, and file systems of networks send none. */
const RECHECK_MS = 2000
const POLL_MS = 400
/** Looking at everything takes at most one part in so many of the time, however many files there are. */
const RECHECK_SHARE = 50
const POLL_SHARE = 8
/** A file that was seen empty or gone is being written step by step: such a save gets so much longer to settle. */
const SLOW_FACTOR = 2

/**
 * Watches files by exact path. `listener` is called once per settled save, with all that changed since its last call, and
 * only for content that really differs; it should not throw.
 */
export function watchFiles(listener: (changes: readonly FileChange[]) => void, options: WatchOptions = {}): FileWatch {
  return new Watch(listener, options)
}

const UNKNOWN: Content = { signature: '', hash: undefined, empty: false }

interface Watched extends Trail {
  /** What was told last. */
  told: Content
  /** Of the last look. */
  signature: string
  /** Since when it is empty or gone without that being told. */
  lackingSince: number | undefined
  /** It was seen empty or gone since the last look. */
  slow: boolean
}

class Watch implements FileWatch {
  private readonly listener: (changes: readonly FileChange[]) => void
  private readonly settleMs: number
  private readonly burstMs: number
  private readonly graceMs: number
  private readonly persistent: boolean
  private readonly warn: (error: HarnessError) => void
  private readonly files = new Map<string, Watched>()
  private readonly trails: Trails<Watched>
  /** What something may have happened to since the last look. */
  private readonly dirty = new Set<Watched>()
  private readonly lacking = new Set<Watched>()
  private readonly warned = new Set<string>()
  private closed = false
  /** A look is planned or under way. */
  private busy = false
  private lastHint = 0
  private burstSince = 0
  private settling: NodeJS.Timeout | undefined
  private waiting: NodeJS.Timeout | undefined
  private rechecking: NodeJS.Timeout | undefined

  constructor(listener: (changes: readonly FileChange[]) => void, options: WatchOptions) {
    this.listener = listener
    this.settleMs = options.settleMs ?? 120
    this.burstMs = this.settleMs * MAX_BURST_FACTOR
    this.graceMs = options.graceMs ?? 1200
    this.persistent = options.persistent ?? false
    this.warn = options.warn ?? (() => {})
    this.trails = new Trails(
      { touched: file => this.hint(file), failed: (folder, error) => this.polling(folder, error) },
      this.persistent,
    )
  }

  update(files: Iterable<string>) {
    if (this.closed) return
    const paths = new Set([...files].map(file => resolve(file)))
    for (const file of [...this.files.values()]) if (!paths.has(file.path)) this.forget(file)
    for (const path of paths) if (!this.files.has(path)) this.add(path)
    if (this.files.size && !this.rechecking) this.recheckIn(this.trails.polled ? POLL_MS : RECHECK_MS)
  }

  doubt(files: Iterable<string>) {
    for (const path of files) {
      const file = this.files.get(resolve(path))
      if (!file) continue
      file.told = UNKNOWN
      this.hint(file)
    }
  }

  close() {
    this.closed = true
    clearTimeout(this.settling)
    clearTimeout(this.waiting)
    clearTimeout(this.rechecking)
    this.trails.close()
    for (const files of [this.files, this.dirty, this.lacking]) files.clear()
  }

  private add(path: string) {
    const file: Watched = { path, steps: [], told: UNKNOWN, signature: '', lackingSince: undefined, slow: false }
    this.files.set(path, file)
    // Watched first, read then: what comes in between is in what is read, or heard of.
    this.trails.follow(file)
    file.told = contentOf(path)
    file.signature = file.told.signature
  }

  private forget(file: Watched) {
    this.files.delete(file.path)
    this.dirty.delete(file)
    this.lacking.delete(file)
    this.trails.remove(file)
  }

  /** Something happened to the file, or may have. */
  private hint(file: Watched) {
    const now = performance.now()
    if (!this.dirty.size) this.burstSince = now
    this.dirty.add(file)
    this.lastHint = now
    file.slow ||= isLacking(file.path)
    if (!this.busy) this.lookIn(this.settleMs)
  }

  private lookIn(ms: number) {
    this.busy = true
    // After the events that came while the process was doing something else.
    this.settling = this.timer(ms, () => setImmediate(() => this.settle()))
  }

  private settle() {
    if (this.closed) return
    if (!this.dirty.size) {
      this.busy = false
      return
    }
    const now = performance.now()
    const settleMs = this.settleMs * ([...this.dirty].some(({ slow }) => slow) ? SLOW_FACTOR : 1)
    const restMs = Math.min(this.lastHint + settleMs, this.burstSince + this.burstMs) - now
    if (restMs >= 1) this.lookIn(restMs)
    else this.look(now - this.burstSince >= this.burstMs)
  }

  private look(overdue: boolean) {
    const { lastHint } = this
    const found = [...this.dirty].map((file): [Watched, Content] => {
      this.trails.follow(file)
      return [file, contentOf(file.path)]
    })
    // What came while it was read is heard of by then.
    setImmediate(() => {
      if (this.closed) return
      const quiet = this.lastHint === lastHint
      if (!quiet && !overdue) return this.lookIn(this.settleMs)
      this.burstSince = performance.now()
      if (quiet) this.dirty.clear()
      this.busy = false
      if (this.dirty.size) this.lookIn(this.settleMs)
      this.tell(found.filter(([file]) => this.files.get(file.path) === file))
    })
  }

  private tell(found: readonly (readonly [Watched, Content])[]) {
    const changes: FileChange[] = []
    for (const [file, content] of found) {
      const kind = this.judge(file, content)
      if (kind) changes.push({ path: file.path, kind })
    }
    this.awaitLacking()
    if (!changes.length) return
    try {
      this.listener(Object.freeze(changes))
    } catch (error) {
      this.warn(new HarnessError('STORE_WATCH_LISTENER', `a listener failed: ${errorMessage(error)}`, { cause: error }))
    }
  }

  private judge(file: Watched, content: Content): FileChange['kind'] | undefined {
    file.signature = content.signature
    file.slow = false
    const differs = content.hash !== file.told.hash
    if (differs && (content.hash === undefined || content.empty)) {
      const now = performance.now()
      file.lackingSince ??= now
      if (now - file.lackingSince < this.graceMs) {
        this.lacking.add(file)
        return undefined
      }
    }
    file.lackingSince = undefined
    this.lacking.delete(file)
    if (!differs) return undefined
    const kind = file.told.hash === undefined ? 'created' : content.hash === undefined ? 'removed' : 'changed'
    file.told = content
    return kind
  }

  /** Looks again at what was empty or gone when it has been so for long enough. */
  private awaitLacking() {
    clearTimeout(this.waiting)
    if (!this.lacking.size) return
    const due = Math.min(...[...this.lacking].map(({ lackingSince }) => lackingSince! + this.graceMs))
    this.waiting = this.timer(due - performance.now(), () => {
      if (!this.dirty.size) this.burstSince = performance.now()
      for (const file of this.lacking) this.dirty.add(file)
      if (!this.busy) this.lookIn(0)
    })
  }

  private recheckIn(ms: number) {
    clearTimeout(this.rechecking)
    this.rechecking = this.timer(ms, () => void this.recheck())
  }

  private async recheck() {
    const begin = performance.now()
    this.trails.recheck()
    for (const file of [...this.files.values()]) {
      const signature = await signatureAt(file.path)
      if (this.closed) return
      if (this.files.get(file.path) === file && signature !== file.signature && !this.dirty.has(file)) this.hint(file)
    }
    const { polled } = this.trails
    const tookMs = performance.now() - begin
    this.recheckIn(Math.max(polled ? POLL_MS : RECHECK_MS, tookMs * (polled ? POLL_SHARE : RECHECK_SHARE)))
  }

  private polling(folder: string, error: NodeJS.ErrnoException) {
    const { code = 'UNKNOWN' } = error
    this.recheckIn(POLL_MS)
    if (this.warned.has(code)) return
    this.warned.add(code)
    const problem = `a folder cannot be watched (${code}): its files are looked at now and then instead`
    this.warn(new HarnessError('STORE_WATCH_POLLING', problem, { where: folder, fix: FIXES[code], cause: error }))
  }

  private timer(ms: number, run: () => void): NodeJS.Timeout {
    const timer = setTimeout(run, Math.max(0, ms))
    return this.persistent ? timer : timer.unref()
  }
}

const FIXES: Record<string, string> = {
  ENOSPC: 'raise the limit of watches (sysctl fs.inotify.max_user_watches)',
  EMFILE: 'raise the limit of watchers (sysctl fs.inotify.max_user_instances) or of open files (ulimit -n)',
  EACCES: 'make the folder readable',
}
