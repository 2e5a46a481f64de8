/** A tree from its text to running, in this process: what `cordis start`, `cambium` and tests stand on. */

import { type Context, createRoot, type RootOptions, renderLog } from '@cambium/core'
import { App } from './app.ts'
import type { TreeSource } from './file/load.ts'
import type { TreeFile } from './file/read.ts'
import { type ReadingOptions, TreeReading } from './tree/reading.ts'
import { createTree, type Tree, type TreeOptions } from './tree/tree.ts'
import { exitCode, FiniteWork } from './work.ts'

const WORK_REST_MS = 7_000

export interface BootOptions extends ReadingOptions, RootOptions, Omit<TreeOptions, 'label' | 'reading'> {
  /** `ctx.app.args`. */
  args?: readonly string[]
  /** How long finite work that is told to end may take before its plugins are disposed under it, in milliseconds. */
  restMs?: number
}

export interface BootedTree {
  readonly ctx: Context
  readonly tree: Tree
  /** What the tree was made from: its first reading, or that of the last change. */
  readonly source: TreeFile
  /** Resolves with the exit code once the tree has ended, by `ctx.app.exit()` or by `dispose()`. Never rejects. */
  readonly ended: Promise<number>
  /**
   * Ends finite work (`ctx.app.main`) with `reason`, then unmounts everything, the last row first. Resolves when it is
   * done. Idempotent.
   */
  dispose(reason?: string): Promise<void>
}

export interface LoadedTree extends BootedTree {
  /** Resolves, imports and validates every row; runs no plugin. @throws HarnessError with every mistake found. */
  check(): Promise<void>
  /** Mounts the rows and waits until none is loading. @throws HarnessError; nothing is left mounted then. */
  mount(): Promise<void>
  /** After `mount`: lets finite work begin, and an exit that a plugin asked for meanwhile take effect. */
  begin(): void
}

/** Reads a tree into a root context of its own; mounts nothing yet. @throws HarnessError for mistakes in the files. */
export function loadTree(from: TreeSource, options: BootOptions = {}): LoadedTree {
  const reading = new TreeReading(from, options)
  const { label } = reading.current
  const ctx = createRoot(options)
  let code = 0
  let requested = false
  let begun = false
  let disposal: Promise<void> | undefined
  let end: (code: number) => void
  const ended = new Promise<number>(resolve => {
    end = resolve
  })
  const exit = (wanted: number) => {
    code = Math.max(code, exitCode(wanted))
    requested = true
    // A tree that is still starting ends once it stands; the caller is one of its own plugins and is not waited for.
    if (begun) setImmediate(() => void dispose())
  }
  const work = new FiniteWork({
    restMs: options.restMs ?? WORK_REST_MS,
    failed: error => ctx.logger('app').error(renderLog(error, true)),
    done: exit,
  })
  new App(ctx, { label, args: options.args ?? [], env: options.env ?? process.env, exit, work })
  const tree = createTree(ctx, { ...options, label, reading })

  function dispose(reason = 'disposed'): Promise<void> {
    disposal ??= (async () => {
      // How it would have ended nobody knows.
      if (!(await work.end(reason))) code = Math.max(code, 1)
      await tree.dispose()
      await ctx.fiber.dispose()
      end(code)
    })()
    return disposal
  }

  async function mount(): Promise<void> {
    try {
      await tree.apply(reading.current.rows)
    } catch (error) {
      await dispose()
      throw error
    }
  }

  function begin(): void {
    begun = true
    if (requested) exit(code)
    else if (!disposal) work.begin()
  }

  return {
    ctx,
    tree,
    get source() {
      return reading.current
    },
    ended,
    dispose,
    mount,
    begin,
    check: () => tree.check(reading.current.rows),
  }
}

/**
 * Reads and starts a tree.
 *
 * @throws HarnessError for mistakes in the files, rows that cannot be loaded, and required rows that fail or wait;
 *   nothing is left mounted then.
 */
export async function bootTree(from: TreeSource, options: BootOptions = {}): Promise<BootedTree> {
  const loaded = loadTree(from, options)
  await loaded.mount()
  loaded.begin()
  return loaded
}
