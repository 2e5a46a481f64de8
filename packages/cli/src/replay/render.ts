/** How a person reads what came of a replay. */

import colors from 'picocolors'
import { oneLine, plural } from '../printable.ts'
import type { Divergence } from './compare.ts'

export interface ReplayReport {
  readonly session: string
  readonly same: boolean
  readonly turns: number
  readonly steps: number
  /** Calls that were answered with what was recorded, and those whose tool has run. */
  readonly tools: { readonly replayed: number; readonly run: number }
  readonly durationMs: number
  /** What could not be replayed, and what stood in for it. */
  readonly notes: readonly string[]
  readonly divergence?: Divergence
}

const WIDTH = 160
/** Lines of each side that are shown from the first difference on. */
const SHOWN = 6

export function renderReport(report: ReplayReport, color: boolean): string {
  const { red, green, bold, dim } = colors.createColors(color)
  const { divergence, notes, turns, steps, tools } = report
  const lines: string[] = []
  if (divergence) {
    const { turn, step, what } = divergence
    lines.push(bold(`The replay parts from the recording in turn ${turn}${step ? `, step ${step}` : ''}: ${what}`))
    const { at, expected, came } = firstLines(divergence.expected, divergence.came)
    if (at > 1) lines.push(dim(`  … from line ${at} on`))
    lines.push(...expected.map(line => red(`  - ${line}`)), ...came.map(line => green(`  + ${line}`)))
    lines.push(dim('  - recorded, + now'))
  }
  for (const note of notes) lines.push(dim(`note: ${note}`))
  const ran = tools.run ? `, ${tools.run} run` : ''
  const counted = `${plural(turns, 'turn')}, ${plural(steps, 'step')}, ${plural(tools.replayed, 'tool')} replayed${ran}`
  const verdict = report.same ? green('same') : red('diverged')
  lines.push(`${verdict}: ${counted} in ${(report.durationMs / 1_000).toFixed(1)} s`)
  return `${lines.join('\n')}\n`
}

function firstLines(expected: string | undefined, came: string | undefined) {
  const before = expected?.split('\n')
  const after = came?.split('\n')
  let at = 0
  if (before && after) while (at < before.length && at < after.length && before[at] === after[at]) at++
  const column = differsAt(before?.[at], after?.[at])
  const from = (lines: readonly string[] | undefined) => {
    if (!lines) return []
    if (at >= lines.length) return ['(nothing more)']
    const shown = lines.slice(at, at + SHOWN).map((line, index) => (index ? oneLine(line, WIDTH) : near(line, column)))
    const more = lines.length - at - SHOWN
    return more > 0 ? [...shown, `… (+${plural(more, 'line')})`] : shown
  }
  return { at: at + 1, expected: from(before), came: from(after) }
}

function differsAt(a = '', b = ''): number {
  let at = 0
  while (at < a.length && at < b.length && a[at] === b[at]) at++
  return at
}

/** A long line around the place where it differs. */
function near(line: string, column: number): string {
  const start = column > WIDTH / 2 ? column - WIDTH / 4 : 0
  return `${start ? '…' : ''}${oneLine(line.slice(start), WIDTH)}`
}
