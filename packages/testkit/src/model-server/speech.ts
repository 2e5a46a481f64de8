/** What the three protocols share when a scripted reply is put into their words. */

import type { ProviderError } from './errors.ts'
import type { Reply, ScriptedToolCall } from './reply.ts'
import type { ModelProtocol } from './request.ts'

/** What a reply has to know of its request. */
export interface Envelope {
  id: string
  model: string
  created: number
  /** Chat completions: whether the request asked for usage in a chunk of its own. */
  includeUsage: boolean
  /** Responses: whether it asked for the encrypted content of reasoning. */
  includeEncrypted: boolean
  inputTokens: number
  /** Makes the id of a call whose script names none. */
  callId: () => string
}

/** One reply in the words of one protocol; used once. */
export interface Speech {
  /** What comes before the first delta. */
  opening(): Iterable<string>
  /** One frame for each delta: what the `after` of a fault counts. The same script has as many in each protocol. */
  deltas(): Iterable<string>
  /** Finish, usage and the end mark. */
  closing(): Iterable<string>
  /** The answer to a request that does not stream. */
  whole(): object
  /** An event that is broken JSON. */
  malformed(): string
  /** The events by which an answer that had begun says that it failed. */
  failure(error: ProviderError): string
}

export interface WireCall {
  id: string
  name: string
  text: string
  sizes: readonly number[]
  index: number | null
}

const CALL_PREFIX: Record<ModelProtocol, string> = { chat: 'call_', messages: 'toolu_', responses: 'call_' }
export const callIdOf = (protocol: ModelProtocol, n: number) => `${CALL_PREFIX[protocol]}${n}`

export function wireCalls(reply: Reply, envelope: Envelope): WireCall[] {
  if (reply.fault === 'empty') return []
  const calls = (reply.toolCalls ?? []).map((call: ScriptedToolCall, at) => {
    const given = call.arguments ?? {}
    const text = typeof given === 'string' ? given : JSON.stringify(given)
    return {
      id: call.id ?? envelope.callId(),
      name: call.name,
      text: reply.fault === 'invalid-arguments' ? text.slice(0, -1) : text,
      sizes: call.sizes?.length ? call.sizes : [24],
      index: call.index === undefined ? at : call.index,
    }
  })
  if (reply.fault === 'duplicate-ids') for (const call of calls) call.id = calls[0]!.id
  if (reply.fault === 'length' && calls.length) {
    const cut = calls[calls.length - 1]!
    cut.text = cut.text.slice(0, Math.floor(cut.text.length / 2))
  }
  return calls
}

/** Pieces of whole characters: a provider's JSON never holds half a surrogate pair. */
export function* pieces(text: string, sizes: readonly number[]): Generator<string> {
  const characters = [...text]
  let at = 0
  for (let turn = 0; at < characters.length; turn++) {
    const size = Math.max(1, sizes[Math.min(turn, sizes.length - 1)]!)
    yield characters.slice(at, at + size).join('')
    at += size
  }
}

/** The pieces of text and reasoning of a reply. */
export const proseOf = (reply: Reply, text: string) => pieces(text, [reply.pieceChars ?? 24])

/** The pieces of its text, which may repeat. */
export function* textPieces(reply: Reply): Generator<string> {
  const text = spokenText(reply)
  if (reply.repeat === undefined) yield* proseOf(reply, text)
  else for (let turn = 0; turn < reply.repeat; turn++) yield text
}

export const wholeText = (reply: Reply) => spokenText(reply).repeat(reply.repeat ?? 1)

function spokenText(reply: Reply): string {
  const text = reply.fault === 'empty' ? '' : (reply.text ?? '')
  return reply.fault === 'length' && !reply.toolCalls?.length ? text.slice(0, Math.floor(text.length / 2)) : text
}

/** Takes from each in turn until all are empty. */
export function* inTurns<T>(sources: Iterator<T>[]): Generator<T> {
  let open = sources
  while (open.length) {
    const still: Iterator<T>[] = []
    for (const source of open) {
      const { value, done } = source.next()
      if (done) continue
      yield value
      still.push(source)
    }
    open = still
  }
}

/** Calls one after the other, or taking turns. */
export function* inOrder<T>(reply: Reply, calls: Generator<T>[]): Generator<T> {
  if (reply.interleave) yield* inTurns(calls)
  else for (const call of calls) yield* call
}

/**
 * Frames with what opens their block joined to the first and what closes it to the last, so that it takes no delta of
 * its own. Both are made when their turn comes.
 */
export function* enclosed(open: () => string, frames: Iterable<string>, close: () => string): Generator<string> {
  let held = open()
  let empty = true
  for (const frame of frames) {
    if (!empty) yield held
    held = empty ? held + frame : frame
    empty = false
  }
  yield held + close()
}

/** Whether it has a reasoning of any kind. */
export const thinks = (reply: Reply) =>
  reply.fault !== 'empty' && (reply.reasoning !== undefined || reply.redacted === true)

export interface Counts {
  input: number
  output: number
  cached: number
  written: number
  reasoning: number
}

/** Estimated where the script does not say; undefined where it wants none. */
export function countsOf(reply: Reply, envelope: Envelope): Counts | undefined {
  if (reply.usage === false) return undefined
  const calls = JSON.stringify(reply.toolCalls ?? '').length
  const said = (reply.text?.length ?? 0) * (reply.repeat ?? 1) + (reply.reasoning?.length ?? 0) + calls
  const estimate = { input: envelope.inputTokens, output: Math.ceil(said / 4) }
  return { cached: 0, written: 0, reasoning: 0, ...(reply.usage ?? estimate) }
}
