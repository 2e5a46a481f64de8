/** A tree for people: a line for each row, and below it what the row is about. */

import { styleText } from 'node:util'
import type { Finding, GraphedTree, GraphRow } from '../inspect/graph.ts'
import { listing } from '../listing.ts'

type Style = (format: Parameters<typeof styleText>[0], text: string) => string

const STATES = {
  active: 'green',
  waiting: 'yellow',
  loading: 'yellow',
  unloading: 'yellow',
  failed: 'red',
  disposed: 'red',
  disabled: 'dim',
} as const

/** How many mistakes, effects and the like are told of one. */
const TOLD = 20

interface Line {
  readonly row: GraphRow
  /** What stands before its id, and before the lines below it. */
  readonly lead: string
  readonly under: string
}

export function renderText(tree: GraphedTree, color: boolean): string {
  const style: Style = color ? (format, text) => styleText(format, text) : (_format, text) => text
  const lines = inTree(tree.rows, null, '')
  const cells = lines.map(({ row, lead }) => [
    lead + plain(row.id),
    row.state === 'active' && row.kind !== 'plugin' ? row.kind : row.state,
    plain(row.source.replace(/:\d+$/, '')),
    duration(row.importMs),
    duration(row.startMs),
  ])
  const head = ['row', 'state', 'source', 'import', 'start']
  const widths = head.map((title, column) => Math.max(title.length, ...cells.map(row => row[column]!.length)))
  const align = (row: readonly string[]) =>
    row.map((cell, column) => (column < 3 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
  const out = [headline(tree, style), ...tree.mistakes.slice(0, TOLD).flatMap(mistake)]
  if (tree.mistakes.length > TOLD) out.push(`… and ${tree.mistakes.length - TOLD} more`)
  if (lines.length) out.push('', style('dim', [...align(head), 'plugin'].join('  ')))
  lines.forEach(({ row, under }, index) => {
    const [id, state, ...rest] = align(cells[index]!)
    const plugin = row.kind === 'plugin' ? plain(row.name) : plain(row.label ?? '')
    out.push([id, style(STATES[row.state], state!), style('dim', rest.join('  ')), plugin].join('  ').trimEnd())
    for (const [what, text] of details(row)) {
      out.push(`${under}    ${style('dim', what.padEnd(10))}${what === 'failed' ? style('red', text) : text}`)
    }
  })
  return `${out.join('\n')}\n`
}

function headline({ file, state, ms, rows }: GraphedTree, style: Style): string {
  if (state === 'unread') return `${plain(file)}: ${style('red', 'not booted')}, since it has mistakes`
  const counts = new Map<string, number>()
  for (const { kind, state } of rows) if (kind === 'plugin') counts.set(state, (counts.get(state) ?? 0) + 1)
  const list = [...counts].map(([state, count]) => `${count} ${state}`).join(', ')
  const how = state === 'up' ? style('green', `up in ${ms} ms`) : style('red', `would not start, after ${ms} ms`)
  return `${plain(file)}: ${how} (${list || 'no rows'})`
}

function mistake({ code, problem, where, fix }: Finding): string[] {
  const lines = ['', `error: ${code}: ${problem}`]
  if (where) lines.push(`  where: ${where}`)
  if (fix) lines.push(`  fix:   ${fix}`)
  return lines
}

/** The rows of a group hang below it; ids lose the part that the group's id says already. */
function inTree(rows: readonly GraphRow[], parent: string | null, before: string): Line[] {
  const own = rows.filter(row => row.parent === parent)
  return own.flatMap((row, index) => {
    const last = index === own.length - 1
    const lead = parent === null ? '' : before + (last ? '└─ ' : '├─ ')
    const under = parent === null ? '' : before + (last ? '   ' : '│  ')
    const short = parent === null ? row.id : row.id.slice(parent.length + 1)
    const below = row.kind === 'plugin' ? [] : inTree(rows, row.id, under)
    return [{ row: { ...row, id: short }, lead, under: below.length ? `${under}│` : under }, ...below]
  })
}

function details({
  state,
  kind,
  problem,
  partWaits,
  provides,
  injects,
  effects,
  required,
}: GraphRow): [string, string][] {
  if (state === 'disabled') return []
  const found: [string, string][] = []
  if (problem) {
    const fix = problem.fix ? `; ${problem.fix}` : ''
    const text = problem.problem.replace(/^pending: \S+ waits for /, '')
    const what = state === 'waiting' ? 'waits for' : state === 'loading' ? 'starting' : 'failed'
    found.push([what, plain(text + fix)])
    if (!required) found.push(['', 'a start goes on without it'])
  }
  if (partWaits.length) found.push(['a part', `waits for ${listing(partWaits.map(name => plain(`ctx.${name}`)))}`])
  if (provides.length) found.push(['provides', listing(provides.map(plain))])
  if (injects.length && kind === 'plugin')
    found.push(['injects', listing(injects.map(({ service }) => plain(service)))])
  if (effects.length) {
    const labels = effects.map(({ label, count }) => plain(count > 1 ? `${label} ×${count}` : label))
    found.push(['effects', listing(labels, TOLD)])
  }
  return found
}

const duration = (ms: number | null) => (ms === null ? '' : `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`)

/** Text of plugins and files on one line, and without a terminal's commands. */
function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/\s*\n\s*/g, ' ').replace(/[\u0000-\u001f\u007f-\u009f]/g, '�')
}
