/** What goes to standard output, in the three forms that a script can ask for. */

import { HarnessError } from '@cambium/core'
import type { LiveEvent, Session, SessionEvent } from '@cambium/session'
import type { Failure } from './failure.ts'
import { NO_USAGE, type Outcome } from './outcome.ts'
import { escapeCommands } from './printable.ts'
import type { Output } from './status-line.ts'

export const OUTPUT_FORMS = ['text', 'json', 'jsonl'] as const
export type OutputForm = (typeof OUTPUT_FORMS)[number]

/** The object that `--output json` prints, and that ends `--output jsonl` as the data of `headless/result`. */
export interface Report extends Omit<Outcome, 'failure' | 'exitCode'> {
  readonly exitCode: number
  /** Absent when there was none yet. */
  readonly session?: string
  /** Of a copy: the session that it comes from, and how many of its events it has taken over. */
  readonly parent?: { readonly id: string; readonly events: number }
  readonly cwd?: string
  /** `provider/model` of the last request. */
  readonly model?: string
  readonly durationMs: number
  readonly error?: Failure
}

/** A stream that its reader may leave at any time. */
export class Stdout {
  private readonly stream: Output
  private readonly left: () => void
  private error: Error | undefined

  /** `left` is called once when the reader has gone; what is written afterwards is dropped. */
  constructor(stream: Output, left: () => void) {
    this.stream = stream
    this.left = left
    stream.on('error', this.fail)
  }

  /** Resolves when the text has left the process, or the reader has. @throws `CLI_STDOUT` when it cannot be written. */
  async write(text: string): Promise<void> {
    return this.writeSafe(this.stream.isTTY ? escapeCommands(text) : text)
  }

  /** As {@link write}, of text that may command a terminal: with colours, and nothing in it that is not ours. */
  async writeSafe(text: string): Promise<void> {
    if (text && !this.error)
      await new Promise<void>(resolve =>
        this.stream.write(text, error => {
          if (error) this.fail(error)
          resolve()
        }),
      )
    if (!this.error || LEFT.has((this.error as NodeJS.ErrnoException).code ?? '')) return
    throw new HarnessError('CLI_STDOUT', `standard output cannot be written: ${this.error.message}`, {
      cause: this.error,
    })
  }

  /** Stops listening to the stream. */
  release(): void {
    this.stream.off('error', this.fail)
  }

  private readonly fail = (error: Error) => {
    if (this.error) return
    this.error = error
    if (LEFT.has((error as NodeJS.ErrnoException).code ?? '')) this.left()
  }
}

const LEFT = new Set(['EPIPE', 'ERR_STREAM_DESTROYED', 'ECONNRESET'])

/** One event as a line; `session` tells a child's events from the task's own. */
export function eventLine(session: Session, event: SessionEvent | LiveEvent): string {
  return line({ session: session.id, ...event })
}

/** What ends the output. An answer that is missing prints nothing: the message is on standard error. */
export function reportText(form: OutputForm, report: Report): string {
  if (form === 'json') return line(report)
  if (form === 'jsonl') return line({ type: 'headless/result', time: Date.now(), data: report })
  // Half an answer that a person cut short is no result.
  return report.answer && report.stopReason !== 'interrupted' ? `${report.answer}\n` : ''
}

/** As {@link reportText}, for a run that failed before there was an outcome. */
export function failureReport(
  form: OutputForm,
  error: Failure,
  exitCode: number,
  facts: Pick<Report, 'session' | 'cwd' | 'durationMs'> & { readonly stopReason?: Report['stopReason'] },
): string {
  const nothing = { answer: '', turns: 0, steps: 0, toolCalls: 0, denied: [], usage: NO_USAGE }
  return reportText(form, { ...nothing, stopReason: 'failed', exitCode, ...facts, error })
}

// U+2028 and U+2029 are valid in JSON, and line breaks to readers that do not frame on newlines alone.
function line(value: object): string {
  const json = JSON.stringify(value)
  return `${/[\u2028\u2029]/.test(json) ? json.replace(/\u2028/g, '\\u2028').replace(/\u2029/g, '\\u2029') : json}\n`
}
