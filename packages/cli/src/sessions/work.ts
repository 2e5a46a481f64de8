/** What each part of `cambium sessions` works with: the store, the command line, and where it writes. */

import { type Context, workingFolder } from '@cambium/core'
import type { SessionPersistence, SessionSummary, StoredSession } from '@cambium/session'
import type { createColors } from 'picocolors'
import { usageError } from '../flags.ts'
import { Stdout } from '../output.ts'
import { jsonText } from '../printable.ts'
import { lookAt, processSurface, type Surface } from '../surface.ts'
import type { SessionsConfig } from './config.ts'
import { pickSession, requireStore } from './find.ts'

export type Colors = ReturnType<typeof createColors>

/** What is written at once: less makes many small writes, more a long wait for a reader that has left. */
const CHUNK_CHARS = 64 * 1024

export class SessionsWork {
  readonly ctx: Context
  readonly config: SessionsConfig
  readonly surface: Surface
  /** Aborts when the work is to end. */
  readonly ended: AbortSignal
  readonly cwd: string
  /** Standard output is a terminal. */
  readonly terminal: boolean
  private readonly color: boolean
  private readonly stdout: Stdout
  private readerLeft = false

  constructor(ctx: Context, config: SessionsConfig, ended: AbortSignal) {
    this.ctx = ctx
    this.config = config
    this.ended = ended
    this.surface = ctx.get('surface') ?? processSurface()
    this.cwd = config.cwd ?? workingFolder()
    const { terminal, color } = lookAt(this.surface.stdout, ctx.app.env)
    this.terminal = terminal
    this.color = color
    this.stdout = new Stdout(this.surface.stdout, () => {
      this.readerLeft = true
    })
  }

  /** @throws `CLI_NO_SESSION` where the tree has none */
  get store(): SessionPersistence {
    return requireStore(this.ctx.get('sessionPersistence'))
  }

  /** Columns of a line; infinite where nobody looks. */
  get width(): number {
    return this.terminal ? (this.surface.stdout.columns ?? 80) : Number.POSITIVE_INFINITY
  }

  async colors(): Promise<Colors> {
    const { createColors } = (await import('picocolors')).default
    return createColors(this.color)
  }

  /** The session that the command line names, with all that there are. @throws `CLI_NO_SESSION`, `CLI_USAGE`, as reading */
  async open(): Promise<{ summary: SessionSummary; stored: StoredSession; all: readonly SessionSummary[] }> {
    const { store } = this
    const all = await store.list()
    const summary = pickSession(all, this.config.words[0] ?? '')
    return { summary, stored: await store.read(summary.id), all }
  }

  /** Text that commands no terminal: whoever makes it sees to that. Ends early when its reader has left. */
  async write(text: Iterable<string>): Promise<void> {
    let chunk = ''
    for (const part of text) {
      chunk += part
      if (chunk.length < CHUNK_CHARS) continue
      await this.stdout.writeSafe(chunk)
      chunk = ''
      if (this.readerLeft || this.ended.aborted) return
    }
    await this.stdout.writeSafe(chunk)
  }

  say(text: string): Promise<void> {
    return this.stdout.writeSafe(`${text}\n`)
  }

  sayJson(data: unknown): Promise<void> {
    return this.stdout.writeSafe(jsonText(data, 2))
  }

  /** Lines on standard error. */
  note(text: string): void {
    this.surface.notes.print(text)
  }

  /** Asks a person, where there is one. @throws `CLI_USAGE` where nobody can be asked and nothing was said before */
  async confirmed(question: string): Promise<boolean> {
    if (this.config.yes) return true
    const keyboard = this.surface.input?.keyboard
    if (!keyboard) throw usageError('nobody can be asked whether to delete this', 'add --yes when you are sure')
    const { ask } = await import('../ask.ts')
    return /^y(es)?$/i.test((await ask(keyboard, this.surface.notes, `${question} [y/N] `)).trim())
  }

  release(): void {
    this.stdout.release()
  }
}
