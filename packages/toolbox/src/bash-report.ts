/** What the model reads about a command that was run. */

import { redactCut } from '@cambium/core'
import type { OutputGap, ProcessResult } from '@cambium/machine'
import { plainText } from './terminal-text.ts'
import { count } from './wording.ts'

export interface ReportInput {
  readonly result: ProcessResult
  readonly timeoutMs: number
  readonly maxTimeoutMs: number
  /** Stands in front: where the command really ran, say. */
  readonly note?: string | undefined
}

/** Output first, then a marker for each fact about the end that is not plain success. Never empty. */
export function reportCommand({ result, timeoutMs, maxTimeoutMs, note }: ReportInput): string {
  const output = renderOutput(result)
  const lines = [...(note ? [`[${note}]`] : []), output || '(no output)']
  if (result.timedOut) {
    const more = timeoutMs < maxTimeoutMs ? `; timeout_ms can be up to ${maxTimeoutMs}` : ''
    lines.push(`[timed out after ${timeoutMs} ms and was ended${more}]`)
  }
  if (result.aborted) lines.push(`[cancelled after ${Math.round(result.durationMs)} ms]`)
  if (result.signal) lines.push(`[killed by signal: ${result.signal}]`)
  if (result.exitCode === null && !result.signal) lines.push('[did not end even by SIGKILL and was left behind]')
  if (result.exitCode || (result.exitCode === 0 && !output)) lines.push(`[exit code: ${result.exitCode}]`)
  return lines.join('\n')
}

function renderOutput(result: ProcessResult): string {
  const pieces: string[] = []
  let text = ''
  let spill = result.spill
  const flush = () => {
    // Where output was left out a secret may have been cut in two.
    const plain = plainText(result.droppedBytes ? redactCut(text) : text).trimEnd()
    if (plain) pieces.push(plain)
    text = ''
  }
  for (const part of result.output) {
    if ('text' in part) {
      text += part.text
      continue
    }
    flush()
    pieces.push(gapMarker(part, spill))
    spill = undefined
  }
  flush()
  return pieces.join('\n')
}

function gapMarker(gap: OutputGap, spill: ProcessResult['spill']): string {
  const what = gap.omittedLines
    ? `${count(gap.omittedLines, 'line')} (${gap.omittedBytes} bytes)`
    : `${gap.omittedBytes} bytes`
  const of = gap.stream === 'stderr' ? ' of stderr' : ''
  if (!spill) return `[… ${what}${of} omitted …]`
  const where = spill.complete
    ? `the full output is in ${spill.path}`
    : `the first part of the output is in ${spill.path}`
  return `[… ${what}${of} omitted; ${where}, read it or grep in it …]`
}
