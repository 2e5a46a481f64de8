/** What a provider says when it does not answer: the error of each status and fault, in the shape of each protocol. */

import type { Reply } from './reply.ts'
import type { ModelProtocol } from './request.ts'

/** In the words of chat completions; {@link errorBody} puts it into the protocol's shape. */
export interface ProviderError {
  readonly message?: string | undefined
  readonly type?: string
  readonly code?: string | number | null
}

/** What providers answer when a request is too long. */
export const OVERFLOW_WORDINGS = {
  openai: {
    status: 400,
    error: {
      message:
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please reduce the length of the messages.",
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
    },
  },
  'too-long': {
    status: 400,
    error: { message: 'prompt is too long: 210042 tokens > 200000 maximum', type: 'invalid_request_error' },
  },
  requested: {
    status: 400,
    error: {
      message:
        "This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (66000 in the messages, 4000 in the completion).",
      type: 'invalid_request_error',
      code: 'invalid_request_error',
    },
  },
  exceeds: {
    status: 400,
    error: { message: "Input length 9001 exceeds model's maximum context length (8192).", type: 'BadRequestError' },
  },
  'input-length': {
    status: 400,
    error: { message: 'Input is longer than the maximum allowed input length of 8192 tokens', code: 400 },
  },
  'context-size': {
    status: 400,
    error: {
      message: 'the request exceeds the available context size, try increasing it',
      type: 'exceed_context_size_error',
      code: 400,
      n_prompt_tokens: 9001,
      n_ctx: 8192,
    },
  },
  code: { status: 400, error: { message: 'Bad request', code: 'context_length_exceeded' } },
  'token-count': {
    status: 400,
    error: {
      message: 'The input token count (9001) exceeds the maximum number of tokens allowed (8192).',
      status: 'INVALID_ARGUMENT',
      code: 400,
    },
  },
  'too-large': {
    status: 413,
    error: { message: 'Request exceeds the maximum size', type: 'request_too_large' },
  },
} as const

const STATUS_ERRORS: Record<string, ProviderError> = {
  400: { message: 'The request was not understood.', type: 'invalid_request_error', code: null },
  401: { message: 'Incorrect API key provided.', type: 'invalid_request_error', code: 'invalid_api_key' },
  402: { message: 'Insufficient balance', type: 'unknown_error', code: 'invalid_request_error' },
  403: { message: 'This key may not use the model.', type: 'permission_error', code: 'permission_denied' },
  429: { message: 'Rate limit reached for requests.', type: 'requests', code: 'rate_limit_exceeded' },
  500: { message: 'The server had an error while processing your request.', type: 'server_error', code: null },
  503: { message: 'The engine is currently overloaded.', type: 'server_error', code: 'service_unavailable' },
  529: { message: 'Overloaded', type: 'overloaded_error', code: null },
}

/** Messages names its errors by type alone. */
const MESSAGES_TYPES: Record<string, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The status and the error that a reply's fault answers with, if it is one that is answered instead of the model. */
export function answeredError(
  reply: Reply,
  model: string,
  protocol: ModelProtocol,
): { status: number; error: ProviderError } | undefined {
  const { fault } = reply
  if (fault === 'unknown-model') {
    const status = reply.status ?? 404
    if (protocol === 'messages') return { status, error: { message: `model: ${model}` } }
    const message = `The model \`${model}\` does not exist or you do not have access to it.`
    return { status, error: { message, type: 'invalid_request_error', code: 'model_not_found' } }
  }
  if (fault === 'overflow') {
    const { status, error } = OVERFLOW_WORDINGS[reply.wording ?? (protocol === 'messages' ? 'too-long' : 'openai')]
    return { status: reply.status ?? status, error }
  }
  const status = Number(fault)
  if (!status) return undefined
  return { status, error: statusError(status, protocol) }
}

export function statusError(status: number, protocol: ModelProtocol): ProviderError {
  const error = STATUS_ERRORS[status] ?? { message: `Status ${status}`, type: 'error', code: null }
  return protocol === 'messages' ? { message: error.message, type: messagesType(status) } : error
}

/** An error as the body of an answer. */
export function errorBody(error: ProviderError, status: number, protocol: ModelProtocol): object {
  if (protocol === 'messages') {
    const { message, type = messagesType(status) } = error
    return { type: 'error', error: { type, message }, request_id: 'req_testkit' }
  }
  return { error: protocol === 'responses' ? { ...error, param: null } : error }
}

/** What the script puts in the place of parts of an error. */
export function overrides({ message, type, code }: Reply): ProviderError {
  return {
    ...(message === undefined ? {} : { message }),
    ...(type === undefined ? {} : { type }),
    ...(code === undefined ? {} : { code }),
  }
}

const messagesType = (status: number) => MESSAGES_TYPES[status] ?? (status < 500 ? MESSAGES_TYPES[400]! : 'api_error')
