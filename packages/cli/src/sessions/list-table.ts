/** Sessions as lines: columns that fit a terminal for a person, tabs for a program. */

import { homedir } from 'node:os'
import type { SessionSummary } from '@cambium/session'
import { escapeControls } from '../printable.ts'
import { fileSize, since } from './amounts.ts'
import type { Colors } from './work.ts'

export interface ListOptions {
  readonly short: (id: string) => string
  /** Columns that a text takes. */
  readonly widthOf: (text: string) => number
  readonly width: number
  readonly colors: Colors
  /** Shows each one's folder. */
  readonly folders: boolean
  readonly now: number
}

const NARROWEST_TITLE = 20
const MAX_FOLDER = 28

export function* listLines(sessions: readonly SessionSummary[], options: ListOptions): Generator<string> {
  const { short, colors, folders, width, widthOf, now } = options
  const rows = sessions.map(summary => ({
    summary,
    cells: [short(summary.id), since(summary.updatedAt, now), fileSize(summary.bytes)] as const,
    folder: folders ? fromEnd(folderOf(summary), MAX_FOLDER, widthOf) : '',
  }))
  const widest = (at: 0 | 1 | 2) => Math.max(...rows.map(({ cells }) => cells[at].length))
  const [idWidth, timeWidth, sizeWidth] = [widest(0), widest(1), widest(2)]
  const front = idWidth + timeWidth + sizeWidth + 6
  let folderWidth = Math.max(...rows.map(({ folder }) => widthOf(folder)))
  if (front + folderWidth + 2 + NARROWEST_TITLE > width) folderWidth = 0
  const left = width - front - (folderWidth ? folderWidth + 2 : 0)
  for (const { summary, cells, folder } of rows) {
    const [id, time, size] = cells
    const { mark, text } = titleOf(summary, short, left)
    const title = fromStart(`${mark}${text}`, Math.max(NARROWEST_TITLE, left), widthOf)
    const shown = summary.damaged
      ? colors.red(title)
      : `${colors.yellow(title.slice(0, mark.length))}${title.slice(mark.length)}`
    const cell = folderWidth ? `${colors.dim(padded(folder, folderWidth, widthOf))}  ` : ''
    yield `${colors.bold(id.padEnd(idWidth))}  ${time.padStart(timeWidth)}  ${colors.dim(size.padStart(sizeWidth))}  ${cell}${shown}\n`
    if (summary.damaged) yield colors.dim(`${' '.repeat(idWidth)}  ${escapeControls(summary.path)}\n`)
  }
}

/** What a person should see of it first, and what it is about. */
function titleOf({ title, damaged, holder, parent }: SessionSummary, short: ListOptions['short'], room: number) {
  if (damaged) return { mark: '', text: escapeControls(`damaged: ${damaged.replace(/^the log cannot be read: /, '')}`) }
  const live = holder ? ['live'] : []
  let marks = parent ? [...live, `copy of ${short(parent.id)}`] : live
  // What it is about says more than what it was made from.
  if (parent && marks.join(', ').length + NARROWEST_TITLE > room) marks = [...live, 'copy']
  return { mark: marks.length ? `[${marks.join(', ')}] ` : '', text: escapeControls(title ?? '(nothing said yet)') }
}

/**
 * Id, time of the last write, bytes, what is special (`live`, `fork`, `damaged`, or `-`), folder, and the title or what is
 * wrong with it; separated by tabs.
 */
export function* plainLines(sessions: readonly SessionSummary[]): Generator<string> {
  for (const { id, updatedAt, bytes, cwd, title = '', damaged, holder, parent, path } of sessions) {
    const marks = [damaged ? 'damaged' : '', holder ? 'live' : '', parent ? 'fork' : ''].filter(Boolean)
    const text = damaged ? `${damaged} (${path})` : title
    const cells = [id, new Date(updatedAt).toISOString(), String(bytes), marks.join(',') || '-', cwd || '-', text]
    yield `${cells.map(escapeControls).join('\t')}\n`
  }
}

function folderOf({ cwd }: SessionSummary): string {
  const home = homedir()
  const path = cwd === home || cwd.startsWith(`${home}/`) ? `~${cwd.slice(home.length)}` : cwd
  return escapeControls(path)
}

const segments = new Intl.Segmenter()
const characters = (text: string): string[] => [...segments.segment(text)].map(({ segment }) => segment)

const padded = (text: string, width: number, widthOf: ListOptions['widthOf']) =>
  text + ' '.repeat(Math.max(0, width - widthOf(text)))

/** As much of the beginning as fits. */
function fromStart(text: string, width: number, widthOf: ListOptions['widthOf']): string {
  return cut(characters(text), width, widthOf, parts => `${parts.join('')}…`) ?? text
}

/** As much of the end as fits: a path says there what it is. */
function fromEnd(text: string, width: number, widthOf: ListOptions['widthOf']): string {
  return cut(characters(text).reverse(), width, widthOf, parts => `…${parts.reverse().join('')}`) ?? text
}

/** Undefined where nothing has to be cut. */
function cut(
  parts: readonly string[],
  width: number,
  widthOf: ListOptions['widthOf'],
  join: (parts: string[]) => string,
): string | undefined {
  let taken = 0
  let fits = 0
  for (const [index, part] of parts.entries()) {
    taken += widthOf(part)
    if (taken > width) return join(parts.slice(0, fits))
    if (taken <= width - 1) fits = index + 1
  }
  return undefined
}
