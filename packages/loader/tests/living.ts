/** A tree of files in a folder of its own, that tests edit while it runs. */

import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { type Context, type HarnessError, rowOf } from '@cambium/core'
import { type BootedTree, type BootOptions, bootTree, type TreeChange, type TreeLoader } from '@cambium/loader'
import { onTestFinished } from 'vitest'

declare module 'cordis' {
  interface Context {
    ink: { colour: string }
  }
  interface Events {
    'loader-test/ping'(heard: string[]): void
  }
}

export interface Living {
  readonly folder: string
  readonly booted: BootedTree
  readonly loader: TreeLoader
  /** What plugins did: `+id` when a row starts, `-id` when it stops. */
  readonly log: string[]
  /** What was logged: `warn TREE_PENDING: …`, with paths as the tree's author would write them. */
  readonly records: string[]
  /** Changes and refusals as listeners heard them. */
  readonly heard: string[]
  write(text: string, file?: string): void
  read(file?: string): string
  reload(...remount: string[]): Promise<TreeChange>
  /** `id state` of each row. */
  states(): string[]
  /** Ids in the order in which listeners hear an event. */
  order(): string[]
  /** The message that a change is refused with. */
  refusal(change: Promise<unknown>): Promise<string>
}

type Files = Readonly<Record<string, string>>

/** Boots `cordis.yml`; `modules` may be changed later, as a person edits a module. */
export async function living(
  files: string | Files,
  modules: Record<string, unknown> = {},
  options: BootOptions | ((folder: string) => BootOptions) = {},
): Promise<Living> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'loader-living-')))
  const write = (text: string, file = 'cordis.yml') => {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  for (const [file, text] of Object.entries(typeof files === 'string' ? { 'cordis.yml': files } : files))
    write(text, file)
  const short = (text: string) => text.replaceAll(`${folder}/`, '')
  const given = typeof options === 'function' ? options(folder) : options
  const log: string[] = []
  const records: string[] = []
  const heard: string[] = []
  for (const [name, module] of Object.entries(plugins(log))) modules[name] ??= module
  const booted = await bootTree(
    { file: join(folder, 'cordis.yml') },
    { modules, write: record => void records.push(short(`${record.level} ${record.text}`)), ...given },
  )
  onTestFinished(async () => {
    await booted.dispose()
    rmSync(folder, { recursive: true })
  })
  const { ctx } = booted
  const { loader } = ctx
  ctx.on('loader/changed', ({ added, removed, remounted, moved }) => {
    const lists = Object.entries({ added, removed, remounted, moved }).filter(([, ids]) => ids.length)
    heard.push(lists.map(([what, ids]) => `${what} ${ids.join(' ')}`).join(', ') || 'nothing')
  })
  ctx.on('loader/refused', (error, cause) => void heard.push(`${cause} refused: ${error.code}`))
  return {
    folder,
    booted,
    loader,
    log,
    records,
    heard,
    write,
    read: (file = 'cordis.yml') => readFileSync(join(folder, file), 'utf8'),
    reload: (...remount) => loader.reload({ remount: new Set(remount) }),
    states: () => loader.rows().map(({ row, state }) => `${row.id} ${state}`),
    order: () => {
      const ids: string[] = []
      ctx.emit('loader-test/ping', ids)
      return ids
    },
    refusal: change =>
      change.then(
        () => 'it was not refused',
        (error: HarnessError) => short(error.message),
      ),
  }
}

/** Plugins that say what they do. */
function plugins(log: string[]): Record<string, unknown> {
  const ink = (colour: string) => ({
    name: 'ink',
    provide: ['ink'],
    apply(ctx: Context) {
      ctx.provide('ink', { colour })
      log.push(`+${rowOf(ctx)!.id} ${colour}`)
      ctx.effect(() => () => void log.push(`-${rowOf(ctx)!.id} ${colour}`))
    },
  })
  return {
    note: {
      name: 'note',
      apply(ctx: Context, config: { tag?: unknown }) {
        const { id } = rowOf(ctx)!
        const tag = config.tag === undefined ? id : `${id}=${String(config.tag)}`
        log.push(`+${tag}`)
        ctx.on('loader-test/ping', ids => void ids.push(id))
        ctx.effect(() => () => void log.push(`-${tag}`))
      },
    },
    red: ink('red'),
    blue: ink('blue'),
    reader: {
      name: 'reader',
      inject: ['ink'],
      apply(ctx: Context) {
        const { id } = rowOf(ctx)!
        log.push(`+${id} reads ${ctx.ink.colour}`)
        ctx.effect(() => () => void log.push(`-${id}`))
      },
    },
    broken: {
      name: 'broken',
      apply(ctx: Context) {
        ctx.effect(() => () => void log.push('-half'))
        throw new Error('boom')
      },
    },
    late: {
      name: 'late',
      async apply() {
        await new Promise(resolve => setTimeout(resolve, 50))
        throw new Error('late boom')
      },
    },
  }
}
