/** What a provider of logins throws and returns, held to its contract; nothing of it is quoted that could be a secret. */

import { errorMessage, HarnessError, type JsonObject, REDACTED, redact, toJson } from '@cambium/core'
import type { AuthProvider, Grant } from './contract.ts'
import { isRecord } from './document.ts'

const MAX_HEADERS = 50
const MAX_HEADER_CHARS = 16 * 1024

/** A time in seconds would mean 1970 as milliseconds, and a grant that has always expired. */
const EARLIEST_MS = 1e11

/** @throws `AUTH_PROVIDER_INVALID` */
export function checkedGrant({ id }: AuthProvider, answer: unknown): Grant {
  const { data, expiresAt } = isRecord(answer) ? answer : {}
  if (!isRecord(data)) throw invalid(id, 'gave no grant: an object with data')
  if (expiresAt !== undefined && (typeof expiresAt !== 'number' || !(expiresAt > EARLIEST_MS))) {
    throw invalid(id, 'gave an expiresAt that is no time in milliseconds since 1970')
  }
  let copy: JsonObject
  try {
    copy = toJson(data) as JsonObject
  } catch {
    throw invalid(id, 'gave a grant whose data JSON cannot hold')
  }
  return expiresAt === undefined ? { data: copy } : { data: copy, expiresAt }
}

/** @throws `AUTH_PROVIDER_INVALID` */
export function checkedHeaders(provider: AuthProvider, grant: Grant): Record<string, string> {
  const { id } = provider
  let answer: unknown
  try {
    answer = provider.headers(grant)
  } catch (error) {
    throw invalid(id, `could not say what a request carries: ${inSafeWords(error)}`)
  }
  const entries = isRecord(answer) && !(answer instanceof Promise) ? Object.entries(answer) : []
  if (!entries.length || entries.length > MAX_HEADERS) throw invalid(id, 'gave no headers: a map of names to texts')
  for (const [name, value] of entries) {
    if (!/^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name)) throw invalid(id, 'gave a header whose name is none')
    // A line end would be the start of another header.
    if (typeof value !== 'string' || value.length > MAX_HEADER_CHARS || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw invalid(id, `gave a header ${name} with a value that no header may have`)
    }
  }
  return Object.fromEntries(entries) as Record<string, string>
}

/** The first line of what went wrong, without what is known or looks like a token. */
export function inSafeWords(error: unknown): string {
  const [line = ''] = redact(errorMessage(error ?? '')).split('\n')
  const safe = line.replace(/[\w~+=-]{20,}/g, run => (/\d/.test(run) && /[A-Za-z]/.test(run) ? REDACTED : run))
  return safe.length > 200 ? `${safe.slice(0, 200)}…` : safe || 'no reason was given'
}

const NETWORK =
  /^(ECONN\w+|ENOTFOUND|EAI_AGAIN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|CONNECT_TIMEOUT|UND_ERR_\w*TIMEOUT|UND_ERR_SOCKET)$/

/** It did not come to an answer: the grant may be as good as ever. */
export function isNetworkError(error: unknown, depth = 0): boolean {
  if (typeof error !== 'object' || error === null || depth > 3) return false
  const { code, cause } = error as { code?: unknown; cause?: unknown }
  return (typeof code === 'string' && NETWORK.test(code)) || isNetworkError(cause, depth + 1)
}

export const invalid = (id: string, problem: string) =>
  new HarnessError('AUTH_PROVIDER_INVALID', `the login of ${id} cannot be used: its plugin ${problem}`, {
    fix: 'report it to whoever wrote the plugin',
  })
