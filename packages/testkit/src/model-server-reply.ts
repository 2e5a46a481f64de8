/** What a script of the model server may say: the shape of a reply, and the check that it is one. */

import { HarnessError } from '@cambium/core'
import type { ModelRequest } from './model-server.ts'

export interface ScriptedToolCall {
  /** Unique in the server by default. */
  id?: string
  name: string
  /** An object is sent as JSON, a string as it stands, valid or not. `{}` by default. */
  arguments?: string | object
  /** Characters of each fragment of the arguments; the last size repeats. 24 by default. */
  sizes?: readonly number[]
  /** The call's `index` on the wire; its place in the list by default, null to leave it out. */
  index?: number | null
}

export interface ScriptedUsage {
  /** All input tokens, the cached ones included. */
  input: number
  output: number
  cached?: number
  reasoning?: number
}

const FAULTS = {
  'unknown-model': 'the model does not exist (404; `status: 400` for the other spelling)',
  overflow: 'the request is longer than the context window, in the words of `wording`',
  reset: 'the connection is reset after `after` deltas',
  stall: 'nothing more comes after `after` deltas; with `commentsMs`, only comments',
  truncate: 'the body ends in good order after `after` deltas, with neither finish nor [DONE]',
  malformed: 'one chunk after `after` deltas is broken JSON; the rest follows',
  'error-chunk': 'a 200 whose stream holds `data: {"error": …}` after `after` deltas, and ends',
  'invalid-arguments': 'the arguments of every tool call lack their last character',
  'duplicate-ids': 'every tool call has the id of the first',
  length: 'finish_reason `length` in the middle of the last call’s arguments, or of the text',
  empty: 'a completion that stops without having said anything',
  'empty-choices': 'chunks with `choices: []` around the content, or instead of it',
} as const

/** A named fault, or an HTTP status: `'429'`. */
export type Fault = keyof typeof FAULTS | `${number}`

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

export interface Reply {
  /** Sent first, before the text. */
  reasoning?: string
  text?: string
  /** All in one assistant message. */
  toolCalls?: readonly ScriptedToolCall[]
  /** Further deltas, sent as they stand after the others (streamed replies only). */
  deltas?: readonly Readonly<Record<string, unknown>>[]
  /** `tool_calls` when there are calls, else `stop`. */
  finish?: string
  /** An estimate of four characters a token by default; false for none. */
  usage?: ScriptedUsage | false
  /** `own-chunk`: a last chunk of its own, if the request asked for it with `stream_options.include_usage` (the default). */
  usageIn?: 'own-chunk' | 'finish-chunk'
  /** The name of the field that reasoning text travels in. `reasoning_content` by default. */
  reasoningField?: 'reasoning_content' | 'reasoning'

  /** Characters of each delta of text and reasoning. 24 by default. */
  pieceChars?: number
  /** Sends the text this many times over, each time as one delta. */
  repeat?: number
  /** Fragments of parallel calls take turns instead of coming call by call. */
  interleave?: boolean
  /** Waits this long before each delta. */
  delayMs?: number
  /** Sends an SSE comment this often while it waits. */
  commentsMs?: number
  /** Stops after that many deltas until the promise has settled. */
  pause?: { after: number; until: PromiseLike<unknown> }
  /** Cuts the body into network writes of that many bytes, or at these byte offsets. */
  split?: number | readonly number[]
  /** Joins what is ready into writes of about that many bytes. */
  gatherBytes?: number
  eol?: '\n' | '\r\n'
  /** False leaves out the closing `[DONE]`. */
  done?: boolean

  fault?: Fault
  /** How many deltas come before the fault; `request`: not even headers. Default: 1 for reset, stall and malformed, 0 for error-chunk, all for truncate. */
  after?: number | 'request'
  /** The `Retry-After` header: seconds, or a moment as an HTTP date. */
  retryAfter?: number | string | Date
  wording?: keyof typeof OVERFLOW_WORDINGS
  status?: number
  /** Replace parts of the error that the fault answers with. */
  message?: string
  code?: string | number | null
  type?: string

  /** The whole body, sent as it stands; `status` and `headers` go with it. */
  raw?: string | Uint8Array
  headers?: Readonly<Record<string, string>>

  /** Answers that many requests. 1 by default. */
  times?: number
  /** Only a request that this fits takes the reply: a text found in its body, a pattern, or a question. */
  when?: string | RegExp | ((request: ModelRequest) => boolean)
}

/** A reply, a text for `{ text }`, or what makes one out of the request. */
export type ReplyScript = Reply | string | ((request: ModelRequest) => Reply | string | Promise<Reply | string>)

const NUMBER = (value: unknown) => typeof value === 'number' && value >= 0
const TEXT = (value: unknown) => typeof value === 'string'
const FLAG = (value: unknown) => typeof value === 'boolean'
const OBJECT = (value: unknown) => typeof value === 'object' && value !== null && !Array.isArray(value)
const LIST = (value: unknown) => Array.isArray(value)
const ONE_OF = (values: readonly unknown[]) => (value: unknown) => values.includes(value)
const EITHER =
  (...checks: ((value: unknown) => boolean)[]) =>
  (value: unknown) =>
    checks.some(check => check(value))

const KEYS: Record<keyof Reply, (value: unknown) => boolean> = {
  reasoning: TEXT,
  text: TEXT,
  toolCalls: value =>
    LIST(value) && (value as unknown[]).every(call => OBJECT(call) && TEXT((call as ScriptedToolCall).name)),
  deltas: value => LIST(value) && (value as unknown[]).every(OBJECT),
  finish: TEXT,
  usage: EITHER(OBJECT, ONE_OF([false])),
  usageIn: ONE_OF(['own-chunk', 'finish-chunk']),
  reasoningField: ONE_OF(['reasoning_content', 'reasoning']),
  pieceChars: value => NUMBER(value) && (value as number) >= 1,
  repeat: NUMBER,
  interleave: FLAG,
  delayMs: NUMBER,
  commentsMs: NUMBER,
  pause: OBJECT,
  split: EITHER(value => NUMBER(value) && (value as number) >= 1, LIST),
  gatherBytes: NUMBER,
  eol: ONE_OF(['\n', '\r\n']),
  done: FLAG,
  fault: value => String(value) in FAULTS || /^[45]\d\d$/.test(String(value)),
  after: EITHER(NUMBER, ONE_OF(['request'])),
  retryAfter: EITHER(NUMBER, TEXT, value => value instanceof Date),
  wording: value => TEXT(value) && (value as string) in OVERFLOW_WORDINGS,
  status: NUMBER,
  message: TEXT,
  code: EITHER(TEXT, NUMBER, value => value === null),
  type: TEXT,
  raw: EITHER(TEXT, value => value instanceof Uint8Array),
  headers: OBJECT,
  times: value => NUMBER(value) && (value as number) >= 1,
  when: EITHER(TEXT, value => value instanceof RegExp || typeof value === 'function'),
}

/**
 * A reply in its full form.
 *
 * @throws `MODEL_SERVER_SCRIPT` for an unknown key or a value that its key cannot have.
 */
export function toReply(value: unknown, where: string): Reply {
  if (typeof value === 'string') return { text: value }
  if (!OBJECT(value)) throw wrong(`a reply is a text or a map, not ${JSON.stringify(value)}`, where)
  const reply = value as Record<string, unknown>
  for (const [key, item] of Object.entries(reply)) {
    const check = KEYS[key as keyof Reply]
    if (!check) throw wrong(`a reply has no key "${key}"`, where, `use one of ${Object.keys(KEYS).join(', ')}`)
    if (item !== undefined && !check(item)) {
      const faults =
        key === 'fault' ? `use an HTTP status from 400, or one of ${Object.keys(FAULTS).join(', ')}` : undefined
      throw wrong(`"${key}" of a reply cannot be ${JSON.stringify(item)}`, where, faults)
    }
  }
  return typeof reply['fault'] === 'number' ? { ...reply, fault: `${reply['fault']}` } : reply
}

function wrong(problem: string, where: string, fix = 'correct the script of the model server') {
  return new HarnessError('MODEL_SERVER_SCRIPT', problem, { where, fix })
}
