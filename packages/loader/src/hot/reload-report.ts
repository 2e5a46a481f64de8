/** What is said of a reload, in one line when it went well. */

import type { HarnessError } from '@cambium/core'
import { labelOf } from '../file/source.ts'
import { listing } from '../listing.ts'
import { codeFrame, innermostPlace } from '../modules/code-frame.ts'
import type { TreeChange } from '../tree/tree-change.ts'

const MAX_NAMES = 3

const names = (paths: readonly string[]): string => listing(paths.map(labelOf), MAX_NAMES)

/** `deep.ts → greet, shout reloaded in 41 ms`; undefined when no row is another one now. */
export function reloadedLine(paths: readonly string[], change: TreeChange, ms: number): string | undefined {
  const parts = [
    [change.remounted, 'reloaded'],
    [change.added, 'added'],
    [change.moved, 'moved'],
    [change.removed, 'removed'],
  ] as const
  const said = parts.flatMap(([rows, verb]) => (rows.length ? `${listing(rows)} ${verb}` : []))
  return said.length ? `${names(paths)} → ${said.join(', ')} in ${Math.round(ms)} ms` : undefined
}

/** Of files that say again what runs. */
export function mendedLine(paths: readonly string[]): string {
  return `${names(paths)} → mended, nothing to reload`
}

/** The mistakes of a reload that was refused, each with the lines that it is in. */
export function refusedText(paths: readonly string[], mistakes: readonly HarnessError[]): string {
  const shown = new Set<string>()
  const texts = mistakes.map(mistake => {
    const place = innermostPlace(mistake)
    const frame = place && !shown.has(place) ? codeFrame(place) : undefined
    if (place) shown.add(place)
    return `\n${mistake.message}${frame ? `\n\n${frame}` : ''}`
  })
  return `${names(paths)} → not reloaded, the rows stay as they were${texts.join('\n')}`
}

export function restartLine(path: string, why: string): string {
  return `${labelOf(path)} → restart to have this change: ${why}`
}
