/** What a person is told when a request is tried again, or goes on with another model. */

import type { FallbackNotice, LlmFailure, RetryNotice } from '@cambium/llm'
import { duration, oneLine } from './printable.ts'

const MAX_MESSAGE = 400

/** `connection refused at 127.0.0.1:8080, trying again (2/5)`, with the wait when it is long enough to be felt. */
export function retryLine({ failure, attempt, maxAttempts, delayMs }: RetryNotice): string {
  const wait = delayMs < 2000 ? '' : ` in ${Math.round(delayMs / 1000)} s`
  return `${said(failure)}, trying again${wait} (${attempt}/${maxAttempts})`
}

/** `openai is in trouble (503), going on with deepseek/deepseek-chat; openai/gpt-5 is left alone for 5 min 0 s` */
export function fallbackLine({ failure, from, to, restMs }: FallbackNotice): string {
  const rest = `${from.provider}/${from.model} is left alone for ${duration(restMs)}`
  return `${said(failure)}, going on with ${oneLine(`${to.provider}/${to.model}; ${rest}`, MAX_MESSAGE)}`
}

const said = ({ message }: LlmFailure) => oneLine(message.replace(/\.$/, ''), MAX_MESSAGE)
