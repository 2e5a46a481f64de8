/** Runs ripgrep, and tells "nothing found" from "could not search". */

import { HarnessError, isHarnessError } from '@cambium/core'
import { outputText, type ProcessHost } from '@cambium/machine'

export interface SearchRequest {
  readonly args: readonly string[]
  readonly cwd: string
  readonly signal: AbortSignal
  readonly timeoutMs: number
  /** Another program than the one that comes along. */
  readonly program: string | undefined
  /** Each record of the output, without its separator. Returns false when it has enough. */
  onRecord(record: string): boolean
  /** Takes a record that is too long to be kept, in `onRecord`'s place: its beginning, and what `landmark` finds in it. */
  readonly long?: {
    readonly landmark: RegExp
    take(start: string, found: string | undefined): boolean
  }
  readonly separator: '\n' | '\0'
}

export interface SearchEnd {
  /** Why not everything was searched: a time limit, an unreadable folder. */
  readonly incomplete?: string
}

/** Longer records are not kept: nobody could read such a line anyway. */
const MAX_RECORD_CHARS = 4 * 2 ** 20
/** Enough to tell what a record is, and to find a landmark that two reads share. */
const START_CHARS = 256

/** @throws `SEARCH_INVALID_PATTERN`, `SEARCH_UNAVAILABLE`, `SEARCH_FAILED`, `SEARCH_CANCELLED` */
export async function runRipgrep(host: ProcessHost, request: SearchRequest): Promise<SearchEnd> {
  const program = request.program ?? (await bundledProgram())
  const enough = new AbortController()
  const records = new Records(request, () => enough.abort())
  const run = host.run({
    argv: [program, '--no-config', ...request.args],
    cwd: request.cwd,
    signal: AbortSignal.any([request.signal, enough.signal]),
    timeoutMs: request.timeoutMs,
    maxBytes: 8_192,
    onOutput(text, stream) {
      if (stream === 'stdout' && !enough.signal.aborted) records.push(text)
    },
  })
  const result = await run.catch((error: unknown) => {
    throw isHarnessError(error) && error.code === 'PROCESS_NOT_FOUND' ? unavailable(error) : error
  })
  if (enough.signal.aborted) return {}
  if (result.aborted) throw new HarnessError('SEARCH_CANCELLED', 'the search was cancelled')
  if (result.timedOut) {
    records.end()
    return { incomplete: `the search was ended after ${request.timeoutMs} ms; narrow it by path or pattern` }
  }
  // 0: found, 1: nothing found, 2: something went wrong, perhaps for some files only.
  if (result.exitCode === 0 || result.exitCode === 1) return {}
  const complaint = outputText(result, 'stderr').trim()
  if (/regex (parse error|could not be compiled)|error compiling pattern/.test(complaint)) {
    throw new HarnessError(
      'SEARCH_INVALID_PATTERN',
      `the pattern is not a regular expression: ${firstReason(complaint)}`,
      {
        fix: 'escape characters that are meant literally, as in \\( or \\.',
      },
    )
  }
  const lines = complaint.split('\n').filter(Boolean)
  if (result.exitCode === 2 && lines.length && lines.every(line => FILE_TROUBLE.test(line))) {
    return {
      incomplete: `${lines.length > 1 ? `${lines.length} files or directories` : 'one'} could not be read: ${lines[0]}`,
    }
  }
  const how = result.signal ? `was killed by ${result.signal}` : `exited with ${result.exitCode}`
  throw new HarnessError('SEARCH_FAILED', `the search failed: ripgrep ${how}${complaint ? `: ${complaint}` : ''}`)
}

/** Cuts the output into records. */
class Records {
  private readonly request: Pick<SearchRequest, 'separator' | 'onRecord' | 'long'>
  private readonly enough: () => void
  private rest = ''
  /** Set while a record passes that is too long. */
  private passing: { readonly start: string; end: string; found: string | undefined } | undefined

  constructor(request: Pick<SearchRequest, 'separator' | 'onRecord' | 'long'>, enough: () => void) {
    this.request = request
    this.enough = enough
  }

  push(text: string): void {
    const { separator, onRecord } = this.request
    let from = 0
    for (let at = text.indexOf(separator); at >= 0; at = text.indexOf(separator, from)) {
      const part = text.slice(from, at)
      from = at + 1
      const more = this.passing ? this.passed(part) : onRecord(this.rest + part)
      this.rest = ''
      if (more) continue
      this.enough()
      return
    }
    this.keep(text.slice(from))
  }

  /** The output broke off: a long record that was passing counts all the same. */
  end(): void {
    if (this.passing) this.passed('')
  }

  private keep(part: string): void {
    if (this.passing) {
      this.look(part)
      return
    }
    this.rest += part
    if (this.rest.length <= MAX_RECORD_CHARS) return
    this.passing = { start: this.rest.slice(0, START_CHARS), end: '', found: undefined }
    this.look(this.rest)
    this.rest = ''
  }

  private look(part: string): void {
    const passing = this.passing!
    passing.found ??= this.request.long?.landmark.exec(passing.end + part)?.[1]
    passing.end = part.slice(-START_CHARS)
  }

  private passed(part: string): boolean {
    this.look(part)
    const { start, found } = this.passing!
    this.passing = undefined
    return this.request.long?.take(start, found) ?? true
  }
}

const FILE_TROUBLE = /\(os error \d+\)$/

function firstReason(complaint: string): string {
  const reason = /^error: (.*)$/m.exec(complaint)?.[1]
  return reason ?? complaint.split('\n').slice(0, 4).join(' ')
}

let located: string | undefined

/** The program that comes with the package, else whatever is on the PATH. */
async function bundledProgram(): Promise<string> {
  if (located) return located
  try {
    const { rgPath } = await import('@vscode/ripgrep')
    located = rgPath
  } catch {
    // There is none for this platform; the one on the PATH may do, and its absence has an error of its own.
    located = 'rg'
  }
  return located
}

function unavailable(cause: unknown): HarnessError {
  return new HarnessError(
    'SEARCH_UNAVAILABLE',
    `there is no ripgrep for this platform (${process.platform}-${process.arch}) and none on the PATH`,
    { fix: 'install ripgrep, or set rgPath of @cambium/toolbox/search to it; until then search with bash', cause },
  )
}
