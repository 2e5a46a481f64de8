/** From what went wrong on the wire to a provider-neutral failure: its code, a sentence for a person, what to do. */

import { errorMessage, isHarnessError, redact } from '@cambium/core'
import { FAILURE_CODES, type LlmFailure, type LlmFailureCode } from '../stream.ts'
import { codeOf, type ProviderError, readProviderError } from './failure-code.ts'
import { ProxyError } from './proxy-error.ts'
import { isRecord } from './value.ts'

/** What an adapter throws; the service turns it into the `finish` that carries `failure`. */
export class LlmError extends Error {
  override readonly name = 'LlmError'
  readonly failure: LlmFailure
  constructor(failure: LlmFailure, cause?: unknown) {
    super(failure.message, cause === undefined ? undefined : { cause })
    this.failure = failure
  }
}

/** Whom a failure is about: the names that its sentence and its advice need. */
export interface FailureSubject {
  readonly provider: string
  readonly model: string
  /** What was asked, for its host. */
  readonly url?: string
  /** The provider's address, to which each of its paths is appended. */
  readonly base?: string
  /** What to do about a key or a login that is refused, as an imperative sentence. */
  readonly keyFix?: string | undefined
  /** Environment variable that may hold the address. */
  readonly baseVariable?: string | undefined
  /** Model ids that are known to exist. */
  readonly models?: readonly string[]
  /** Texts that must not appear in a message. */
  readonly secrets?: readonly string[]
}

/** Any thrown value as a failure. Facts are taken from an {@link LlmError} only; anything else is unknown. */
export function toFailure(error: unknown): LlmFailure {
  if (error instanceof Error && error.name === 'LlmError') {
    const failure = Object.getOwnPropertyDescriptor(error, 'failure')?.value as LlmFailure | undefined
    if (failure && FAILURE_CODES.includes(failure.code)) return failure
  }
  if (isHarnessError(error)) {
    return { code: 'UNKNOWN', message: `${error.code}: ${error.problem}`, ...(error.fix ? { fix: error.fix } : {}) }
  }
  return { code: 'UNKNOWN', message: errorMessage(error) }
}

// Answers -------------------------------------------------------------------------------------------------------

export interface FailedResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** As much of the body as was read. */
  readonly body: string
}

/** The failure that an HTTP answer of status 300 or more stands for. `now` is for dates in `Retry-After`. */
export function failureFromResponse(response: FailedResponse, subject: FailureSubject, now = Date.now()): LlmFailure {
  const { status, headers, body } = response
  const error = readProviderError(body)
  const requestId = [first(headers['x-request-id']), first(headers['request-id']), error.requestId].find(isToken)
  const location = status < 400 ? first(headers['location']) : undefined
  const failure = location
    ? redirected(location, status, subject)
    : describe(codeOf(status, error), { ...error, status: error.status ?? status }, subject, {
        retryAfterMs: retryAfter(headers, now),
      })
  return { ...failure, status, ...(requestId ? { requestId } : {}) }
}

/** The failure that an `error` object inside a stream stands for. */
export function failureFromErrorObject(value: unknown, subject: FailureSubject): LlmFailure {
  const error = readProviderError(isRecord(value) && value['error'] !== undefined ? value : { error: value })
  const failure = describe(codeOf(error.status, error), error, subject, {})
  const { status, requestId } = error
  return { ...failure, ...(status === undefined ? {} : { status }), ...(isToken(requestId) ? { requestId } : {}) }
}

/** It is not followed: the key would go to whoever is named there. */
function redirected(location: string, status: number, { provider, base, secrets }: FailureSubject): LlmFailure {
  return {
    code: 'INVALID_REQUEST',
    message: `${provider} sends its callers on to ${quote(shownAddress(location), secrets, 200)} (${status})`,
    fix: `correct the base address${base ? ` ${shownAddress(base)}` : ''}; nothing was sent to the other one`,
  }
}

/** Something to quote to a provider's support; anything else that is called an id is left out. */
const isToken = (id: string | undefined): id is string => id !== undefined && /^[\x21-\x7e]{1,200}$/.test(id)

function describe(
  code: LlmFailureCode,
  error: ProviderError,
  subject: FailureSubject,
  extra: { retryAfterMs?: number | undefined },
): LlmFailure {
  const { provider, model, models = [] } = subject
  const status = error.status ? ` (${error.status})` : ''
  const said = error.message ? `: ${quote(error.message, subject.secrets)}` : ''
  const base = (message: string, fix?: string): LlmFailure => ({ code, message, ...(fix ? { fix } : {}) })
  const { retryAfterMs } = extra
  switch (code) {
    case 'AUTH':
      return base(
        `${provider} refused the key${status}${said}`,
        subject.keyFix ?? 'correct the apiKey of this provider in the configuration',
      )
    case 'QUOTA':
      return base(`${provider} says that the account's quota is used up${status}${said}`, 'check its billing page')
    case 'RATE_LIMIT': {
      const waitMs = retryAfterMs ?? spokenWait(error.message)
      const wait = waitMs === undefined ? '' : `; it asks to wait ${spell(waitMs)}`
      const failure = base(`${provider} limits the rate${status}${said}${wait}`)
      return waitMs === undefined ? failure : { ...failure, retryAfterMs: waitMs }
    }
    case 'UNKNOWN_MODEL': {
      // The list may be older than the provider's: what it has just refused is no advice.
      const others = models.filter(id => id !== model).slice(0, 5)
      return base(
        `${provider} has no model "${model}"${status}${said}`,
        others.length
          ? `use one of its models, such as ${others.join(', ')}`
          : `check the name of the model; cambium models ${provider} lists what there is`,
      )
    }
    case 'CONTEXT_WINDOW_EXCEEDED':
      return base(`the conversation is too long for ${provider}/${model}${status}${said}`)
    case 'SERVER':
    case 'TIMEOUT': {
      const failure = base(`${provider} is in trouble${status}${said}`)
      return retryAfterMs === undefined ? failure : { ...failure, retryAfterMs }
    }
    default:
      return status === ' (404)'
        ? base(
            `${provider} has nothing at ${subject.url ? shownAddress(subject.url) : 'that address'}${status}${said}`,
            `check the base address${subject.baseVariable ? ` in ${subject.baseVariable}` : ''}; most end in /v1`,
          )
        : base(`${provider} refused the request${status}${said}`)
  }
}

// Networks ------------------------------------------------------------------------------------------------------

/** The failure behind an error of `node:http`, `node:net`, `node:tls` or `node:dns`. */
export function failureFromNetwork(error: unknown, subject: FailureSubject): LlmFailure {
  if (error instanceof ProxyError) return failureOfProxy(error, subject)
  const { code, message } = networkError(error)
  const host = hostOf(subject.url)
  const address = subject.baseVariable ? `, or correct ${subject.baseVariable}` : ''
  const failure = (text: string, fix?: string): LlmFailure => ({
    code: 'TRANSPORT',
    message: text,
    ...(fix ? { fix } : {}),
  })
  switch (code) {
    case 'ECONNREFUSED':
      return failure(`connection refused at ${host}`, `start the server that should listen there${address}`)
    case 'ENOTFOUND':
      return failure(`the host ${host} cannot be found`, `check the network and the name${address}`)
    case 'EAI_AGAIN':
      return failure(`the name ${host} cannot be looked up now`, 'check the network connection')
    case 'ECONNRESET':
    case 'EPIPE':
      return failure(`the connection to ${host} was reset`)
    case 'ETIMEDOUT':
    case 'CONNECT_TIMEOUT':
      return failure(`no connection to ${host} in time`, `check the network, a proxy and the address${address}`)
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return failure(`${host} cannot be reached`, 'check the network connection')
  }
  if (code && (/^(ERR_TLS|ERR_SSL|CERT_|EPROTO)/.test(code) || /CERT|SELF_SIGNED|UNABLE_TO_/.test(code))) {
    const fix = /EPROTO|ERR_SSL_WRONG_VERSION/.test(code)
      ? 'use http:// if the server does not speak TLS'
      : 'name the certificate authority in NODE_EXTRA_CA_CERTS'
    return failure(`no trusted TLS connection to ${host}: ${quote(message)}`, fix)
  }
  return failure(`the exchange with ${host} failed: ${quote(message, subject.secrets)}`)
}

const PROXIES = 'HTTPS_PROXY and HTTP_PROXY'

function failureOfProxy({ host, status, cause }: ProxyError, subject: FailureSubject): LlmFailure {
  if (host === undefined) {
    return {
      code: 'TRANSPORT',
      message: 'the address of the proxy in the environment cannot be used',
      fix: `write ${PROXIES} as http://user:password@host:port, a % in the login as %25`,
    }
  }
  const { message } = failureFromNetwork(cause, { ...subject, url: `http://${host}` })
  const why = status === undefined ? message : `it answered ${status || 'with no status'}`
  return {
    code: status === 407 ? 'AUTH' : 'TRANSPORT',
    message: `no way to ${hostOf(subject.url)} through the proxy ${host}: ${why}`,
    fix:
      status === 407
        ? `correct the login of the proxy in ${PROXIES}`
        : `check ${PROXIES}; what needs no proxy is named in NO_PROXY`,
    ...(status ? { status } : {}),
  }
}

function networkError(error: unknown): { code: string | undefined; message: string } {
  // An address with several records fails with all their errors in one.
  if (error instanceof AggregateError && error.errors.length) return networkError(error.errors[0])
  const code = isRecord(error) && typeof error['code'] === 'string' ? error['code'] : undefined
  return {
    code: code ?? (errorMessage(error) === 'socket hang up' ? 'ECONNRESET' : undefined),
    message: errorMessage(error),
  }
}

function hostOf(url: string | undefined): string {
  if (!url) return 'the server'
  try {
    return new URL(url).host
  } catch {
    return url
  }
}

// Pieces --------------------------------------------------------------------------------------------------------

const LONGEST_MESSAGE = 500

/** Space, and what moves a cursor or turns text around. */
const BLANK = /[\s\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu

/** The provider's words on one line, without secrets, cut only then: the rest of one would tell it as well. */
export function quote(text: string, secrets: readonly string[] = [], maxChars = LONGEST_MESSAGE): string {
  let out = redact(text.replace(BLANK, ' ').trim())
  for (const secret of secrets) if (secret.length >= 6) out = out.replaceAll(secret, '***')
  return out.length > maxChars ? `${out.slice(0, maxChars)}…` : out
}

/** The failure as it may be shown and stored, whoever made it. */
export function redactFailure(failure: LlmFailure): LlmFailure {
  const { message, fix, requestId } = failure
  const shown = {
    message: redact(message),
    ...(fix === undefined ? {} : { fix: redact(fix) }),
    ...(requestId === undefined ? {} : { requestId: redact(requestId) }),
  }
  return shown.message === message && shown.fix === fix && shown.requestId === requestId
    ? failure
    : { ...failure, ...shown }
}

/** An address without a password or a key that stands in it. */
export function shownAddress(address: string): string {
  const plain = address.replace(/^(\w+:\/\/)[^/?#]*@/, '$1***@').replace(/([?&][^=&#]+=)[^&#]+/g, '$1***')
  return redact(plain)
}

/** Milliseconds to wait by `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110 §10.2.3). */
function retryAfter(headers: FailedResponse['headers'], now: number): number | undefined {
  const exact = first(headers['retry-after-ms'])?.trim() ?? ''
  if (NUMBER.test(exact)) return bounded(Number(exact))
  const value = first(headers['retry-after'])?.trim() ?? ''
  if (NUMBER.test(value)) return bounded(Number(value) * 1000)
  const date = DATE.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? undefined : bounded(Math.max(0, date - now))
}

const NUMBER = /^\d+(\.\d+)?$/
const DATE = /^([A-Z][a-z]{2}|\d{4}-)/
/** No limit fills up later than that; what asks for more, as the year 9999 does, is not to be had for now. */
const LONGEST_WAIT_MS = 31 * 24 * 3_600_000

const bounded = (ms: number): number => Math.min(Math.ceil(ms), LONGEST_WAIT_MS)

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, sec: 1_000, m: 60_000, min: 60_000, h: 3_600_000 }

/** What a message asks for, as OpenAI's does inside a stream, where no header can say it: `Please try again in 1m2.5s.` */
function spokenWait(message: string): number | undefined {
  const said = /(?:try again|retry) (?:in|after) ((?:\d+(?:\.\d+)? ?(?:ms|m|min\w*|s|sec\w*|h|hours?)(?![a-z]) ?)+)/i
  const [, time = ''] = said.exec(message) ?? []
  const parts = [...time.matchAll(/(\d+(?:\.\d+)?) ?(ms|min|m|sec|s|h)/gi)]
  if (!parts.length) return undefined
  return bounded(parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNIT_MS[unit!.toLowerCase()]!, 0))
}

function spell(ms: number): string {
  const seconds = Math.ceil(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 120 ? `${minutes} minutes` : `${Math.ceil(minutes / 60)} hours`
}

const first = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value)
