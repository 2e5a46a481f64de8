/** Which code a provider's error has: its own structured code first, then the status, then its wording. */

import type { LlmFailureCode } from '../stream.ts'
import { isRecord } from './value.ts'

/** What could be read from an error body, whatever its dialect. */
export interface ProviderError {
  readonly message: string
  /** Every structured code or type it carries, lower case. */
  readonly codes: readonly string[]
  /** A status that the error itself names. */
  readonly status?: number
  readonly requestId?: string
  /** The field of the request that it complains of. */
  readonly param?: string
}

/** Reads an error body: `{error: {message, code, type}}`, `{error: "…"}`, `{message}`, `{detail}`, `[{error}]`, or plain text. */
export function readProviderError(body: unknown): ProviderError {
  let value = body
  if (typeof body === 'string') {
    try {
      value = JSON.parse(body)
    } catch {
      return { message: plain(body), codes: [] }
    }
  }
  if (Array.isArray(value)) value = value[0]
  if (!isRecord(value)) return { message: typeof value === 'string' ? value : '', codes: [] }
  const inner = value['error']
  const error = isRecord(inner) ? inner : value
  const codes: string[] = []
  let status: number | undefined
  for (const key of ['code', 'type', 'status'] as const) {
    const code = error[key]
    if (typeof code === 'number' || (typeof code === 'string' && /^[45]\d\d$/.test(code))) status ??= Number(code)
    else if (typeof code === 'string') codes.push(code.toLowerCase())
  }
  const message = wording(typeof inner === 'string' ? inner : error['message'], error['detail'], value['detail'])
  const requestId = typeof value['request_id'] === 'string' ? value['request_id'] : undefined
  return {
    message,
    codes,
    ...(status !== undefined && status >= 400 && status <= 599 ? { status } : {}),
    ...(requestId ? { requestId } : {}),
    ...(typeof error['param'] === 'string' ? { param: error['param'] } : {}),
  }
}

function wording(...candidates: unknown[]): string {
  for (const candidate of candidates) {
    if (typeof candidate === 'string' && candidate.trim()) return candidate
    if (candidate !== undefined && candidate !== null && typeof candidate === 'object') return JSON.stringify(candidate)
  }
  return ''
}

/** An HTML page's title, or the text itself. */
function plain(body: string): string {
  const title = /<title>([^<]*)<\/title>/i.exec(body)?.[1]
  return title ?? (/^\s*</.test(body) ? '' : body)
}

const STRUCTURED: readonly (readonly [LlmFailureCode, RegExp])[] = [
  [
    'CONTEXT_WINDOW_EXCEEDED',
    /^(context_length_exceeded|context_window_exceeded|exceed_context_size_error|request_too_large|model_max_prompt_tokens_exceeded|string_above_max_length)$/,
  ],
  [
    'QUOTA',
    /^(insufficient_quota|quota_exceeded|exceeded_current_quota_error|insufficient_balance|insufficient_credits|billing_.*|payment_required|credit_balance_too_low|usage_limit_reached|usage_not_included)$/,
  ],
  [
    'RATE_LIMIT',
    /^(rate_limit(_exceeded|_error|_reached_error)?|too_many_requests|tokens|requests|resource_exhausted)$/,
  ],
  [
    'AUTH',
    /^(invalid_api_key|incorrect_api_key|authentication_error|invalid_authentication(_error)?|permission_(error|denied)|unauthenticated|unauthorized|access_denied)$/,
  ],
  [
    'UNKNOWN_MODEL',
    /^(model_not_found|model_not_supported|unknown_model|invalid_model|model_not_available|deploymentnotfound)$/,
  ],
  [
    'SERVER',
    /^(overloaded(_error)?|server_error|api_error|internal(_server)?_error|internal|service_unavailable(_error)?|unavailable|engine_overloaded_error|slow_down)$/,
  ],
  ['TIMEOUT', /^(timeout(_error)?|deadline_exceeded|request_timeout)$/],
]

/**
 * Wordings of a request that does not fit. Each row is one that a provider really uses; a limit of the answer
 * (`max_tokens is too large`) is not an overflow, and neither is a rate of tokens.
 */
const OVERFLOW = [
  /prompt is too long/i,
  /input is too long/i,
  /maximum (context|prompt|input) length/i,
  /maximum allowed input length/i,
  /exceeds? (the )?(available |model'?s? |maximum |max )*(context|input token)/i,
  /(context|prompt|input)( window| size| length)? (is |was |has been )?exceed/i,
  /context[ _](length|window|size)[ _]exceeded/i,
  /input token count.{0,40}exceeds/i,
  /request_too_large|request exceeds the maximum size/i,
  /reduce the length of (the |your )?(messages|prompt|input)/i,
  /(greater|longer|larger) than the (maximum )?context/i,
  /too many input tokens/i,
]
const ANSWER_LIMIT = /max_(completion_|output_|new_)?tokens/i

const QUOTA =
  /insufficient (quota|balance|credits?|funds)|quota.{0,40}(exceeded|exhausted)|exceeded your current quota|credit balance|billing|payment required|out of credits/i
/** A quota that fills up again by itself is a rate. */
const REFILLED = /per (minute|second|hour)|retry in|try again in/i
const MODEL =
  /model\b.{0,100}(does not exist|not exist|not found|no longer available)|model [`'"]?[\w./:@-]+[`'"]? (is not (supported|available)|is unknown)|(unknown|invalid|no such|unsupported) model\b|no endpoints found|not a valid model/i
const KEY =
  /(invalid|incorrect|missing|expired|wrong|no) (api[ -_]?key|credentials)|api[ -_]?key.{0,30}(invalid|not valid|incorrect|expired|missing)/i

/** What a response that has begun says of its own request, a picture in it for the most part. */
const REFUSED =
  /^(invalid|unsupported|unknown_parameter|missing_required|image_|empty_image|failed_to_download_image|content_policy|cyber_policy)/

const isQuota = (message: string) => QUOTA.test(message) && !REFILLED.test(message)

function isOverflow(message: string): boolean {
  if (!OVERFLOW.some(wording => wording.test(message))) return false
  return !ANSWER_LIMIT.test(message) || /context|prompt|messages|input/i.test(message)
}

/** The code of an error that came with `status`, or inside a stream that had begun well. */
export function codeOf(status: number | undefined, error: ProviderError): LlmFailureCode {
  const { codes, message } = error
  for (const [code, pattern] of STRUCTURED) {
    // `tokens` and `requests` are types of a rate limit, and `quota` wordings beat them: both come with 429.
    if (!codes.some(name => pattern.test(name))) continue
    return code === 'RATE_LIMIT' && isQuota(message) ? 'QUOTA' : code
  }
  const effective = status === undefined || status === 200 ? error.status : status
  if (effective === 429) return isQuota(message) ? 'QUOTA' : 'RATE_LIMIT'
  if (effective === 402) return 'QUOTA'
  if (effective === 401) return 'AUTH'
  if (effective === 403) return isQuota(message) ? 'QUOTA' : 'AUTH'
  if (effective === 408) return 'TIMEOUT'
  if (effective === 413) return 'CONTEXT_WINDOW_EXCEEDED'
  // Anthropic's API says so with 400; any other word of money in a refusal may be a quotation of the request.
  if (effective === 400 && /credit balance is too low/i.test(message)) return 'QUOTA'
  if (isOverflow(message)) return 'CONTEXT_WINDOW_EXCEEDED'
  if (effective === 404)
    return MODEL.test(message) || codes.includes('not_found_error') ? 'UNKNOWN_MODEL' : 'INVALID_REQUEST'
  // Not implemented: asking again changes nothing.
  if (effective === 501) return 'INVALID_REQUEST'
  if (effective === 409 || (effective !== undefined && effective >= 500)) return 'SERVER'
  if (MODEL.test(message)) return 'UNKNOWN_MODEL'
  if (KEY.test(message)) return 'AUTH'
  if (effective !== undefined && effective >= 300) return 'INVALID_REQUEST'
  // Inside a stream without any code: the provider began to answer, so the request was right and its side broke.
  return codes.some(name => REFUSED.test(name)) ? 'INVALID_REQUEST' : 'SERVER'
}
