/** The strict provider: what is wrong with a request, in whatever protocol. */

import type { IncomingHttpHeaders } from 'node:http'
import { isObject, type Json, Refusal, refuse, type StrictRules } from './refusal.ts'
import type { ModelProtocol } from './request.ts'
import { checkChat } from './strict-chat.ts'
import { checkMessagesHeaders, checkMessagesRequest } from './strict-messages.ts'
import { checkResponsesRequest } from './strict-responses.ts'

export interface Inspection {
  /** The parsed body; undefined when it is not JSON. */
  readonly body: unknown
  /** The first thing that is wrong. */
  readonly problem?: string
  /** The provider's code for it. */
  readonly code?: string | null
}

const CHECKS: Record<ModelProtocol, (body: Json, size: number, rules: StrictRules) => void> = {
  chat: checkChat,
  messages: checkMessagesRequest,
  responses: checkResponsesRequest,
}

/** The parsed body of a request, and the first thing that is wrong with it, if any. */
export function inspectRequest(
  { bytes, headers, protocol }: { bytes: Uint8Array; headers: IncomingHttpHeaders; protocol: ModelProtocol },
  rules?: StrictRules,
): Inspection {
  let body: unknown
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    body = JSON.parse(text)
  } catch (error) {
    return { body: undefined, problem: `the body is not well-formed JSON in UTF-8: ${(error as Error).message}` }
  }
  if (!rules) return { body }
  try {
    if (!isObject(body)) refuse('the body is not an object')
    if (protocol === 'messages') checkMessagesHeaders(body, headers)
    checkUnicode(body, 'body')
    CHECKS[protocol](body, bytes.length, rules)
    return { body }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { body, problem: error.message, code: error.code }
  }
}

function checkUnicode(value: unknown, at: string): void {
  if (typeof value === 'string') {
    if (/\p{Surrogate}/u.test(value)) refuse(`${at} holds a lone surrogate`)
  } else if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) checkUnicode(item, `${at}[${index}]`)
  } else if (isObject(value)) {
    for (const [key, item] of Object.entries(value)) {
      checkUnicode(key, `a key of ${at}`)
      checkUnicode(item, `${at}.${key}`)
    }
  }
}
