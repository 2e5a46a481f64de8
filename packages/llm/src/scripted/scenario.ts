/** A scenario: the answers of a scripted model, one a request, each with what it expects of the request. */

import { HarnessError, type JsonValue, nearest } from '@cambium/core'
import { FAILURE_CODES, type FinishReason, type LlmFailureCode, type LlmRequest } from '../stream.ts'
import { isRecord } from '../web/value.ts'

/** A text that must be contained, or `/a pattern/`. */
export type Matcher = string

export interface ScenarioTurn {
  /** What the request must look like; anything else fails it, so that a scenario never answers past the point. */
  readonly expect?: {
    /** The last thing that the user said. */
    readonly user?: Matcher
    /** The last tool result. */
    readonly result?: Matcher
    readonly system?: Matcher
    /** Names of tools that must be offered. */
    readonly tools?: readonly string[]
  }
  /** Answers only requests of that purpose; without it, only steps of the conversation. */
  readonly purpose?: NonNullable<LlmRequest['purpose']>
  readonly reasoning?: string
  readonly text?: string
  readonly calls?: readonly { readonly name: string; readonly id?: string; readonly arguments?: JsonValue }[]
  readonly usage?: { readonly input?: number; readonly output?: number; readonly cached?: number }
  readonly finish?: FinishReason
  /** Ends the answer, after its text, with a failure. */
  readonly fault?: { readonly code: LlmFailureCode; readonly message?: string; readonly retryAfterMs?: number }
  /** Waits that long before each piece of text. */
  readonly delayMs?: number
  /** Characters a piece. */
  readonly pieceChars?: number
  /** Answers that many requests; 1 by default. */
  readonly times?: number
  /** Where it is written, for messages. */
  readonly at: string
}

const TURN_KEYS = [
  'expect',
  'purpose',
  'reasoning',
  'text',
  'calls',
  'usage',
  'finish',
  'fault',
  'delayMs',
  'pieceChars',
  'times',
]
const EXPECT_KEYS = ['user', 'result', 'system', 'tools']
const CALL_KEYS = ['name', 'id', 'arguments']
const FINISHES = ['stop', 'tool-calls', 'max-tokens', 'refusal']

/**
 * The turns of a scenario as it is written; `at` names the place of each.
 *
 * @throws `LLM_SCENARIO_INVALID` for an unknown key or a value that its key cannot have.
 */
export function readTurns(value: unknown, at: (index: number) => string): ScenarioTurn[] {
  const list = isRecord(value) ? value['turns'] : value
  if (!Array.isArray(list) || !list.length) {
    throw invalid('it has no turns', at(0), 'write a list of answers under turns:')
  }
  return list.map((turn, index) => readTurn(typeof turn === 'string' ? { text: turn } : turn, at(index)))
}

function readTurn(value: unknown, at: string): ScenarioTurn {
  if (!isRecord(value)) throw invalid('a turn is a text or a map', at)
  known(value, TURN_KEYS, 'a turn', at)
  const { expect, calls, fault, finish } = value
  for (const key of ['text', 'reasoning', 'purpose']) {
    if (value[key] !== undefined && typeof value[key] !== 'string') throw invalid(`${key} is not a text`, at)
  }
  for (const key of ['delayMs', 'pieceChars', 'times']) {
    const number = value[key]
    if (number !== undefined && !(typeof number === 'number' && number >= 0))
      throw invalid(`${key} is not a number`, at)
  }
  if (expect !== undefined) {
    if (!isRecord(expect)) throw invalid('expect is not a map', at)
    known(expect, EXPECT_KEYS, 'expect', at)
    for (const key of ['user', 'result', 'system']) if (expect[key] !== undefined) matcher(expect[key], key, at)
    if (expect['tools'] !== undefined && !Array.isArray(expect['tools'])) throw invalid('tools is not a list', at)
  }
  if (calls !== undefined) {
    if (!Array.isArray(calls)) throw invalid('calls is not a list', at)
    for (const call of calls) {
      if (!isRecord(call) || typeof call['name'] !== 'string') throw invalid('a call has no name', at)
      known(call, CALL_KEYS, 'a call', at)
    }
  }
  if (finish !== undefined && !FINISHES.includes(String(finish))) {
    throw invalid(`finish cannot be ${JSON.stringify(finish)}`, at, `use one of ${FINISHES.join(', ')}`)
  }
  const given = typeof fault === 'string' ? { code: fault } : fault
  if (given !== undefined && !(isRecord(given) && FAILURE_CODES.includes(given['code'] as LlmFailureCode))) {
    throw invalid('fault names no failure code', at, `use one of ${FAILURE_CODES.join(', ')}`)
  }
  if (value['text'] === undefined && value['reasoning'] === undefined && !calls && !given && !finish) {
    throw invalid('a turn says nothing', at, 'give it text, calls or a fault')
  }
  return { ...value, ...(given ? { fault: given } : {}), at } as ScenarioTurn
}

function known(value: Record<string, unknown>, keys: readonly string[], what: string, at: string) {
  for (const key of Object.keys(value)) {
    if (keys.includes(key)) continue
    const near = nearest(key, keys)
    throw invalid(`${what} has no key "${key}"`, at, near ? `did you mean ${near}?` : `use one of ${keys.join(', ')}`)
  }
}

function matcher(value: unknown, key: string, at: string): RegExp | string {
  if (typeof value !== 'string') throw invalid(`expect.${key} is not a text`, at)
  const pattern = /^\/(.*)\/([a-z]*)$/s.exec(value)
  if (!pattern) return value
  try {
    return new RegExp(pattern[1]!, pattern[2])
  } catch {
    throw invalid(`expect.${key} is no pattern: ${value}`, at)
  }
}

function invalid(problem: string, at: string, fix = 'correct the scenario') {
  return new HarnessError('LLM_SCENARIO_INVALID', `the scenario cannot be used: ${problem}`, { where: at, fix })
}

/** What a turn may look at. */
export interface Seen {
  readonly user: string
  readonly result: string
  readonly system: string
  readonly tools: readonly string[]
}

export function seenIn(request: LlmRequest): Seen {
  let user = ''
  let result = ''
  for (const message of request.messages) {
    if (message.role !== 'user') continue
    for (const block of message.content) {
      if (block.type === 'text' && message.source.kind === 'user') user = block.text
      if (block.type === 'tool-result') {
        result = block.content.map(item => (item.type === 'text' ? item.text : '')).join('\n')
      }
    }
  }
  return { user, result, system: request.system ?? '', tools: request.tools?.map(tool => tool.name) ?? [] }
}

/** What of the request is not as the turn expects it, in words; undefined when all is. */
export function mismatch(turn: ScenarioTurn, seen: Seen): string | undefined {
  const { expect = {} } = turn
  for (const key of ['user', 'result', 'system'] as const) {
    if (expect[key] === undefined) continue
    const wanted = matcher(expect[key], key, turn.at)
    const text = seen[key]
    if (typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text)) continue
    const what = { user: "the user's last message", result: 'the last tool result', system: 'the system prompt' }[key]
    return `${what} does not have ${JSON.stringify(expect[key])}; it is ${JSON.stringify(text.slice(-300))}`
  }
  const absent = expect.tools?.find(tool => !seen.tools.includes(tool))
  return absent === undefined ? undefined : `the tool ${absent} is not offered, only ${seen.tools.join(', ') || 'none'}`
}

/**
 * Fills `{{user}}`, `{{result}}` and `{{result /pattern/}}` (its first group, or all that it matches) in every string.
 *
 * @throws Error when a pattern matches nothing.
 */
export function fill<T extends JsonValue>(value: T, seen: Seen): T {
  if (typeof value === 'string') return fillText(value, seen) as T
  if (Array.isArray(value)) return value.map(item => fill(item as JsonValue, seen)) as unknown as T
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fill(item as JsonValue, seen)])) as T
}

function fillText(text: string, seen: Seen): string {
  return text.replace(/\{\{\s*(user|result)(?:\s+\/(.+?)\/([a-z]*))?\s*\}\}/g, (_whole, key, pattern, flags) => {
    const source = seen[key as 'user' | 'result']
    if (pattern === undefined) return source
    const found = new RegExp(pattern, flags).exec(source)
    if (!found) throw new Error(`/${pattern}/ is not found in ${JSON.stringify(source.slice(-300))}`)
    return found[1] ?? found[0]
  })
}
