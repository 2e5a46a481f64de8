/** `cordis graph` */

import type { Command } from 'commander'
import { type LoadedTree, loadTree } from '../boot.ts'
import { claim } from '../claim.ts'
import { strayLayers } from '../file/layers.ts'
import type { TreeSource } from '../file/load.ts'
import { type Finding, findingOf, type GraphedTree, graphOf } from '../inspect/graph.ts'
import { mistakesOf } from '../mistakes.ts'
import { type Apart, workApart } from './apart.ts'
import { renderMermaid } from './graph-mermaid.ts'
import { renderText } from './graph-text.ts'
import type { Invocation } from './subcommand.ts'
import { addTreeOptions, readTreeFlags, type TreeFlags } from './tree-options.ts'

interface GraphFlags extends TreeFlags {
  readonly json?: boolean
  readonly mermaid?: boolean
  readonly wait: number
}

const WAIT_SECONDS = 20
/** How much longer than all rows together one may keep the process from everything else. */
const BUSY_MS = 2_000

export function define(command: Command, invocation: Invocation): void {
  const wait = command
    .createOption('--wait <seconds>', 'how long rows may take to load and to start')
    .default(WAIT_SECONDS)
    .argParser(seconds)
  const json = command.createOption('--json', 'print one JSON document').conflicts('mermaid')
  addTreeOptions(command)
    .addOption(json)
    .option('--mermaid', 'print a flowchart: rows, and the services that lead from one to the other')
    .addOption(wait)
    .addHelpText(
      'after',
      '\nPlugins are started and disposed, but finite work is not begun. Ends with 1 when a start would fail.',
    )
    .action(async (files: string[], flags: GraphFlags) => {
      const work = (signal: AbortSignal) => graphTrees(files, flags, signal)
      invocation.code = await workApart(work, answer => report(answer, flags), flags.wait * 1_000 + BUSY_MS)
    })
}

function seconds(text: string): number {
  const value = Number(text)
  if (value >= 1 && value <= 3_600) return value
  // What commander takes for a usage error.
  throw Object.assign(new Error('It takes 1 to 3600 seconds.'), { code: 'commander.invalidArgument' })
}

async function graphTrees(files: readonly string[], flags: GraphFlags, signal: AbortSignal): Promise<GraphedTree[]> {
  const { sources, options } = readTreeFlags(files, flags)
  // As a start does, so that the tree does here what it would do there.
  const release = claim('signals', { tree: 'cordis graph', name: 'the cordis command', at: undefined })
  const bounds = { settleMs: flags.wait * 1_000, keepFailures: true, unmatched: 'report' } as const
  const loaded = sources.map(source => load(source, { ...options, ...bounds }))
  const stray = strayLayers(loaded.flatMap(one => ('tree' in one ? one.tree.source : [])))
  const graphs: GraphedTree[] = []
  for (const one of loaded) {
    if (signal.aborted) break
    graphs.push('tree' in one ? await boot(one.tree, signal) : unread(one.file, one.mistakes))
  }
  const last = graphs.at(-1)
  if (last && stray.length) graphs[graphs.length - 1] = { ...last, state: 'failed', mistakes: stray.map(findingOf) }
  release()
  return graphs
}

type Loaded = { readonly tree: LoadedTree } | { readonly file: string; readonly mistakes: readonly Finding[] }

function load(source: TreeSource, options: Parameters<typeof loadTree>[1]): Loaded {
  try {
    return { tree: loadTree(source, options) }
  } catch (error) {
    const mistakes = mistakesOf(error)
    if (!mistakes.length) throw error
    return { file: source.file ?? '', mistakes: mistakes.map(findingOf) }
  }
}

const unread = (file: string, mistakes: readonly Finding[]): GraphedTree => ({
  file,
  state: 'unread',
  ms: 0,
  rows: [],
  mistakes,
})

async function boot(tree: LoadedTree, signal: AbortSignal): Promise<GraphedTree> {
  const stop = () => void tree.dispose('stopped')
  signal.addEventListener('abort', stop)
  try {
    const begun = performance.now()
    await tree.tree.apply(tree.source.rows)
    const ms = Math.round(performance.now() - begun)
    const rows = await graphOf(tree.ctx, tree.tree)
    const sound = rows.every(({ required, state }) => !required || state === 'active' || state === 'disabled')
    return { file: tree.source.label, state: sound ? 'up' : 'failed', ms, rows, mistakes: [] }
  } finally {
    signal.removeEventListener('abort', stop)
    await tree.dispose()
  }
}

function report({ found, stray }: Apart<readonly GraphedTree[]>, flags: GraphFlags): number {
  const color = process.stdout.isTTY === true && !process.env['NO_COLOR'] && process.env['TERM'] !== 'dumb'
  const text = flags.json
    ? `${JSON.stringify({ trees: found, unhandled: stray }, null, 2)}\n`
    : flags.mermaid
      ? renderMermaid(found)
      : found.map(tree => renderText(tree, color)).join('\n')
  process.stdout.write(text)
  // A document on standard output stays one; what does not belong to it is for the person.
  const notes = flags.json ? [] : stray.map(error => `error: nobody caught this: ${error}\n`)
  if (flags.mermaid)
    notes.push(...found.flatMap(({ mistakes }) => mistakes.map(({ problem }) => `error: ${problem}\n`)))
  for (const note of notes) process.stderr.write(note)
  return !stray.length && found.every(({ state }) => state === 'up') ? 0 : 1
}
