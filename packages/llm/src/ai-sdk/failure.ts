/** From what a package throws to a failure. Facts are taken from an error's own data only: no getter of it is run. */

import { errorMessage } from '@cambium/core'
import type { LlmFailure, LlmFailureCode } from '../stream.ts'
import {
  type FailureSubject,
  failureFromErrorObject,
  failureFromNetwork,
  failureFromResponse,
  quote,
} from '../web/failure.ts'
import { isRecord } from '../web/value.ts'

/** Errors of the AI SDK that come from no answer of a provider, by their names. */
const NAMED: Readonly<Record<string, LlmFailureCode>> = {
  AI_LoadAPIKeyError: 'MISSING_CREDENTIAL',
  AI_LoadSettingError: 'MISSING_CREDENTIAL',
  AI_NoSuchModelError: 'UNKNOWN_MODEL',
  AI_UnsupportedFunctionalityError: 'UNSUPPORTED_CONTENT',
  AI_InvalidPromptError: 'INVALID_REQUEST',
  AI_InvalidArgumentError: 'INVALID_REQUEST',
  AI_EmptyResponseBodyError: 'EMPTY_RESPONSE',
  AI_NoContentGeneratedError: 'EMPTY_RESPONSE',
  AI_JSONParseError: 'MALFORMED_RESPONSE',
  AI_TypeValidationError: 'MALFORMED_RESPONSE',
  AI_InvalidResponseDataError: 'MALFORMED_RESPONSE',
}
const MAX_CAUSES = 8

export function failureFromPackage(error: unknown, subject: FailureSubject): LlmFailure {
  const about = { ...subject, url: textOf(error, 'url') ?? subject.url ?? '' }
  const status = own(error, 'statusCode')
  if (typeof status === 'number' && status >= 300) {
    const body = textOf(error, 'responseBody') ?? JSON.stringify({ message: errorMessage(error) })
    return failureFromResponse({ status, headers: headersOf(own(error, 'responseHeaders')), body }, about)
  }
  // What it holds are the words of the provider itself, as it sent them in its stream.
  if (typeof error === 'string') return failureFromErrorObject({ message: error }, about)
  if (!(error instanceof Error) && isRecord(error)) return failureFromErrorObject(error, about)
  const network = causes(error).find(isNetwork)
  if (network) return failureFromNetwork(network, about)
  const said = quote(errorMessage(error), subject.secrets)
  const code = NAMED[textOf(error, 'name') ?? ''] ?? (status === undefined ? 'UNKNOWN' : 'MALFORMED_RESPONSE')
  const fix = code === 'MISSING_CREDENTIAL' ? subject.keyFix : undefined
  return { code, message: `${subject.provider}: ${said}`, ...(fix ? { fix } : {}) }
}

/** A value that is the object's own and no getter. */
function own(value: unknown, key: string): unknown {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined
  try {
    return Object.getOwnPropertyDescriptor(value, key)?.value
  } catch {
    // A proxy that refuses.
    return undefined
  }
}

function textOf(value: unknown, key: string): string | undefined {
  const text = own(value, key)
  return typeof text === 'string' && text ? text : undefined
}

function headersOf(value: unknown): Record<string, string> {
  if (!isRecord(value)) return {}
  const entries = Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return Object.fromEntries(entries.map(([name, text]) => [name.toLowerCase(), text]))
}

function causes(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (let at = error; at !== undefined && at !== null && chain.length < MAX_CAUSES; at = own(at, 'cause'))
    chain.push(at)
  return chain
}

/** `ECONNREFUSED`, `ENOTFOUND`, `UND_ERR_SOCKET`, or `fetch failed` that says no more. */
function isNetwork(error: unknown): boolean {
  if (/^(E[A-Z]{3,}|UND_ERR_\w+|CERT_\w+|\w+_CERT\w*|ERR_TLS_\w+)$/.test(textOf(error, 'code') ?? '')) return true
  return error instanceof TypeError && /^(fetch failed|terminated)$/.test(textOf(error, 'message') ?? '')
}
