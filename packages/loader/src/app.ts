/**
 * `ctx.app`: what a plugin knows of the program that mounted its tree. Every tree has it, so it needs no `inject`.
 *
 * No events.
 */

import { type Context, rowOf, Service } from '@cambium/core'
import { claim } from './claim.ts'
import type { Env } from './file/expression.ts'
import type { FiniteWork, Work } from './work.ts'

declare module 'cordis' {
  interface Context {
    /** What a plugin knows of the program that mounted its tree: its arguments, its finite work, its end. */
    app: App
  }
}

export interface AppOptions {
  readonly label: string
  readonly args: readonly string[]
  readonly env: Env
  readonly exit: (code: number) => void
  readonly work: FiniteWork
}

export class App extends Service {
  /** The tree, as the user named it. */
  readonly label: string
  /** What stood behind `--` on the command line. */
  readonly args: readonly string[]
  /** The environment that `!env` sees. */
  readonly env: Env
  private readonly end: (code: number) => void
  private readonly work: FiniteWork

  constructor(ctx: Context, options: AppOptions) {
    super(ctx, 'app')
    this.label = options.label
    this.args = options.args
    this.env = options.env
    this.end = options.exit
    this.work = options.work
  }

  /**
   * Takes over finite work of the calling plugin: it begins once the whole tree stands, and when all such work is done
   * the tree ends with the highest of its exit codes. A failure is reported and counts as 1. `signal` aborts when the
   * tree or the plugin is to end before: the reason is the signal's name or a word, and the disposal waits for the
   * work to come to rest, for a few seconds at most.
   */
  main(run: Work): void {
    this.ctx.effect(() => this.work.add(run), 'ctx.app.main()')
  }

  /**
   * Ends this tree: its plugins are disposed in order. Under `cordis start` the process ends when all trees have, with
   * the highest of their codes. Returns at once; of several calls the highest code counts.
   */
  exit(code = 0): void {
    this.end(code)
  }

  /**
   * Takes something the process has once (`stdin`, `stdout`, `signals`, `port:8080`) for as long as the calling plugin
   * lives, or until the returned undo is called.
   *
   * @throws `TREE_CLAIM_TAKEN`, naming the holder.
   */
  claim(resource: string): () => void {
    const { ctx, label } = this
    const row = rowOf(ctx)
    const owner = { tree: label, name: row?.id ?? ctx.fiber.name, at: row?.at }
    return ctx.effect(() => claim(resource, owner), `claim ${resource}`)
  }
}
