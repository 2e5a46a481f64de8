/** Providers and their models as lines for a person. */

import type { ModelInfo } from '@cambium/llm'
import type { createColors } from 'picocolors'
import { escapeControls, plural } from '../printable.ts'
import type { KeyState, ProviderReport } from './report.ts'

export interface RenderOptions {
  /** Of a line, in columns; infinite where nobody looks. */
  readonly width: number
  readonly colors: ReturnType<typeof createColors>
  /** Every model, also of providers that are not ready, and not the first ones alone. */
  readonly whole: boolean
  readonly notice: string | undefined
}

/** More models of one provider would bury the others. */
const MAX_SHOWN = 12
const NARROWEST_ID = 12

const HEAD = ['', 'model', 'context', 'output', 'in', 'out', 'reads'] as const
type Cells = readonly string[]

export function renderProviders(providers: readonly ProviderReport[], options: RenderOptions): string {
  const { colors, whole, width } = options
  const nameWidth = Math.max(...providers.map(report => report.provider.length))
  const blocks = providers.map(report => {
    const shown = whole ? report.models : report.ready ? report.models.slice(0, MAX_SHOWN) : []
    return { report, rows: shown.map(cells), left: report.ready ? report.models.length - shown.length : 0 }
  })
  const rows = blocks.flatMap(block => block.rows)
  const widths = HEAD.map((head, at) => Math.max(head.length, ...rows.map(row => row[at]!.length)))
  const others = widths.reduce((sum, cell, at) => sum + (at === 1 ? 0 : cell + 2), 0)
  widths[1] = Math.max(NARROWEST_ID, Math.min(widths[1]!, width - others))
  const lines: string[] = []
  if (rows.length) lines.push(colors.dim(line(HEAD, widths, width)))
  for (const { report, rows, left } of blocks) {
    const state = stateOf(report, whole)
    const quiet = isAway(report) || !report.ready
    const paint = quiet ? colors.dim : report.failure ? colors.red : colors.green
    // What is wrong with one that should work, or was asked about, says what to do at its end.
    const shown = whole || (report.failure && !quiet) ? state : clipped(state, width - nameWidth - 2)
    lines.push(`${colors.bold(report.provider.padEnd(nameWidth))}  ${paint(shown)}`)
    for (const row of rows) {
      const text = line(row, widths, width)
      lines.push(row[0] ? colors.bold(text) : text)
    }
    if (left > 0) lines.push(colors.dim(clipped(`   … ${left} more: cambium models ${report.provider}`, width)))
  }
  const marked = providers.some(({ models }) => models.some(({ auto }) => auto))
  const priced = rows.some(row => row[4])
  const notes = [
    marked ? '* is what --model auto takes' : '',
    marked && options.notice ? options.notice : '',
    priced ? 'prices are in US dollars for a million tokens' : '',
  ].filter(Boolean)
  if (notes.length) lines.push('', ...notes.map(note => colors.dim(clipped(note, width))))
  return `${lines.join('\n')}\n`
}

function cells(model: ModelInfo & { auto?: true }): Cells {
  const { id, auto, contextWindow, maxOutputTokens, input, price } = model
  return [
    auto ? '*' : '',
    escapeControls(id),
    contextWindow ? tokens(contextWindow) : '',
    maxOutputTokens ? tokens(maxOutputTokens) : '',
    price ? dollars(price.input) : '',
    price ? dollars(price.output) : '',
    input?.includes('image') ? 'text, images' : input ? 'text' : '',
  ]
}

function line(row: Cells, widths: readonly number[], width: number): string {
  const [mark = '', id = '', context = '', output = '', priceIn = '', priceOut = '', reads = ''] = row
  const at = (index: number) => widths[index]!
  const text = [
    mark.padEnd(Math.max(1, at(0))),
    clipped(id, at(1)).padEnd(at(1)),
    context.padStart(at(2)),
    output.padStart(at(3)),
    priceIn.padStart(at(4)),
    priceOut.padStart(at(5)),
    reads,
  ].join('  ')
  return clipped(text, width).trimEnd()
}

function stateOf({ ready, key, kind, asked, failure, fix, models }: ProviderReport, whole: boolean): string {
  const parts = [keyText(key, ready)]
  if (isAway({ kind, failure }) && !whole) parts.push('not running')
  else if (failure) parts.push(failure.message, ...(failure.fix ? [failure.fix] : []))
  else if (!ready) parts.push(fix ?? 'not ready')
  else if (kind === 'named' && !asked) parts.push('asked only when it is named')
  else if (asked) parts.push(plural(models.length, 'model'))
  return escapeControls(parts.filter(Boolean).join(' · '))
}

/** A server for this machine that nobody has started is no mistake. */
const isAway = ({ kind, failure }: Pick<ProviderReport, 'kind'> & { failure?: ProviderReport['failure'] }) =>
  kind === 'local' && failure?.code === 'TRANSPORT'

function keyText({ state, from, name }: KeyState, ready: boolean): string {
  if (state === 'missing') return 'no key'
  if (state === 'not needed') return ready ? 'needs no key' : ''
  switch (from) {
    case 'environment':
      return `${name} from the environment`
    case 'file':
      return `${name} from the stored keys`
    case 'login':
      return 'logged in'
    default:
      return 'key in the configuration'
  }
}

/** Rounded down, so that nothing is promised: `200k`, `131k`, `1M`, `1.5M`. */
export function tokens(count: number): string {
  if (count < 1_000) return String(count)
  if (count < 1_000_000) return `${Math.floor(count / 1_000)}k`
  return `${Math.floor(count / 100_000) / 10}M`
}

function dollars(price: number): string {
  if (price === 0) return 'free'
  return `$${price >= 0.01 ? Number(price.toFixed(3)) : Number(price.toPrecision(2))}`
}

const clipped = (text: string, width: number): string =>
  text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
