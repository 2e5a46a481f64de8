/** What a script of the model server may say: the shape of a reply, and the check that it is one. */

import { HarnessError } from '@cambium/core'
import { OVERFLOW_WORDINGS } from './errors.ts'
import type { ModelRequest } from './request.ts'

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
  /** Of the input, what was written to the cache. */
  written?: number
  reasoning?: number
}

const FAULTS = {
  'unknown-model': 'the model does not exist (404; `status: 400` for the other spelling)',
  overflow: 'the request is longer than the context window, in the words of `wording`',
  reset: 'the connection is reset after `after` deltas',
  stall: 'nothing more comes after `after` deltas; with `commentsMs`, only comments',
  truncate: 'the body ends in good order after `after` deltas, with neither finish nor [DONE]',
  malformed: 'one chunk after `after` deltas is broken JSON; the rest follows',
  'error-chunk': 'a 200 whose stream holds an error event after `after` deltas, and ends',
  failed: 'as error-chunk; over Responses followed by `response.failed`',
  'invalid-arguments': 'the arguments of every tool call lack their last character',
  'duplicate-ids': 'every tool call has the id of the first',
  length: 'the output limit in the middle of the last call’s arguments, or of the text',
  empty: 'an answer that stops without having said anything',
  'empty-choices': 'chunks with `choices: []` around the content, or instead of it; elsewhere events that say nothing',
} as const

/** A named fault, or an HTTP status: `'429'`. */
export type Fault = keyof typeof FAULTS | `${number}`

export interface Reply {
  /** Sent first, before the text. Empty: reasoning that happened but is not shown, where the protocol knows that. */
  reasoning?: string
  /** The reasoning is hidden from the client, and has to come back all the same. Chat completions say nothing of it. */
  redacted?: boolean
  text?: string
  /** After the text: the model declines, in the protocol's own way. */
  refusal?: string
  /** All in one assistant message. */
  toolCalls?: readonly ScriptedToolCall[]
  /**
   * Further deltas, sent as they stand after the others (streamed replies only). Messages and Responses have no
   * envelope of their own: there each is a whole event, named by its `type`.
   */
  deltas?: readonly Readonly<Record<string, unknown>>[]
  /** `tool_calls` when there are calls, else `stop`; said in the protocol's word for it, or as it stands. */
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
  /** False leaves out the closing `[DONE]` or `message_stop`. */
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
  redacted: FLAG,
  text: TEXT,
  refusal: TEXT,
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
