/** What changed in a text, as hunks of lines: for the model in short, for user interfaces in structure. */

/** A type, not an interface: it goes into results as JSON. */
export type Hunk = {
  /** From 1. */
  readonly oldStart: number
  readonly oldLines: number
  readonly newStart: number
  readonly newLines: number
  /** Each with its mark in front: blank, `-` or `+`. */
  readonly lines: readonly string[]
}

export type LineDiff = {
  readonly hunks: readonly Hunk[]
  readonly added: number
  readonly removed: number
  /** Too much changed to say what: there are no hunks. */
  readonly tooLarge?: true
}

const CONTEXT = 3
const MAX_CHARS = 2_000_000
const MAX_EDITS = 3_000
const MAX_HUNK_LINES = 1_000

export async function diffLines(before: string, after: string): Promise<LineDiff> {
  if (before === after) return { hunks: [], added: 0, removed: 0 }
  const old = before.split('\n')
  const now = after.split('\n')
  // Only what differs goes through the library, so that a small change in a large file costs little.
  let head = 0
  while (head < old.length && head < now.length && old[head] === now[head]) head++
  let tail = 0
  const most = Math.min(old.length, now.length) - head
  while (tail < most && old.at(-1 - tail) === now.at(-1 - tail)) tail++
  const skipped = Math.max(0, head - CONTEXT)
  const cut = Math.max(0, tail - CONTEXT)
  const oldPart = old.slice(skipped, old.length - cut)
  const nowPart = now.slice(skipped, now.length - cut)
  const sizes = { removed: old.length - head - tail, added: now.length - head - tail }
  if (size(oldPart) + size(nowPart) > MAX_CHARS) return { hunks: [], ...sizes, tooLarge: true }
  const { structuredPatch } = await import('diff')
  const patch = structuredPatch('', '', joined(oldPart), joined(nowPart), '', '', {
    context: CONTEXT,
    maxEditLength: MAX_EDITS,
  })
  if (!patch) return { hunks: [], ...sizes, tooLarge: true }
  const hunks = patch.hunks.map(hunk => ({
    oldStart: hunk.oldStart + skipped,
    oldLines: hunk.oldLines,
    newStart: hunk.newStart + skipped,
    newLines: hunk.newLines,
    lines: hunk.lines.filter(line => !line.startsWith('\\')).map(line => line.replace(/\r$/, '')),
  }))
  const count = (mark: string) => hunks.reduce((sum, { lines }) => sum + lines.filter(l => l[0] === mark).length, 0)
  const lines = hunks.reduce((sum, hunk) => sum + hunk.lines.length, 0)
  const counts = { added: count('+'), removed: count('-') }
  return lines > MAX_HUNK_LINES ? { hunks: [], ...counts, tooLarge: true } : { hunks, ...counts }
}

const size = (lines: readonly string[]) => lines.reduce((sum, line) => sum + line.length + 1, 0)
/** The library ends lines; the empty rest after a file's last line end is no line. */
const joined = (lines: readonly string[]) => (lines.at(-1) === '' ? lines.join('\n') : `${lines.join('\n')}\n`)

/** The hunks as unified diff of at most `maxLines` lines, each cut at `maxChars`. */
export function renderDiff(diff: LineDiff, maxLines = 40, maxChars = 200): string {
  if (!diff.hunks.length) return ''
  const lines = diff.hunks.flatMap(hunk => [
    `@@ -${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@`,
    ...hunk.lines,
  ])
  const shown = lines.slice(0, maxLines).map(line => (line.length > maxChars ? `${line.slice(0, maxChars)}…` : line))
  const rest = lines.length - shown.length
  return `${shown.join('\n')}${rest ? `\n(${rest} more lines of the diff left out)` : ''}`
}
