/** The one error type a person, a status page or a model is shown: what happened, where, what to do. */

export interface ErrorDetails {
  /** The place: `cordis.yml:12:3`, a path, a plugin's name. */
  where?: string | undefined
  /** What the reader can do about it, as an imperative sentence. */
  fix?: string | undefined
  cause?: unknown
}

/**
 * A failure with a stable code (`OWNER_PROBLEM`). `message` is the whole text a person reads:
 * the code and the problem, then `where:` and `fix:` on lines of their own.
 */
export class HarnessError extends Error {
  override readonly name = 'HarnessError'
  readonly code: string
  /** The problem alone, in one sentence. */
  readonly problem: string
  readonly where: string | undefined
  readonly fix: string | undefined

  constructor(code: string, problem: string, details: ErrorDetails = {}) {
    const lines = [`${code}: ${problem}`]
    if (details.where) lines.push(`  where: ${details.where}`)
    if (details.fix) lines.push(`  fix:   ${details.fix}`)
    super(lines.join('\n'), details.cause === undefined ? undefined : { cause: details.cause })
    this.code = code
    this.problem = problem
    this.where = details.where
    this.fix = details.fix
  }
}

/** True for a `HarnessError`, of another copy of this package too. */
export function isHarnessError(error: unknown): error is HarnessError {
  return error instanceof Error && error.name === 'HarnessError' && typeof (error as HarnessError).code === 'string'
}

/** A thrown value's message in one string, never throwing itself, whatever was thrown. */
export function errorMessage(error: unknown): string {
  try {
    if (error instanceof AggregateError && error.errors.length) return error.errors.map(errorMessage).join('; ')
    if (error instanceof Error) return error.message || error.name
    return typeof error === 'string' ? error : (JSON.stringify(error) ?? String(error))
  } catch {
    // A hostile getter or `toJSON`: there is nothing readable, and saying so is all that is left.
    return '<unprintable thrown value>'
  }
}
