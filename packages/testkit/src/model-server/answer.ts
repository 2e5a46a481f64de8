/** Sends one scripted reply over HTTP: the error, the stream or the whole answer, and the faults of the wire. */

import type { ServerResponse } from 'node:http'
import { ChatSpeech } from './chat.ts'
import { answeredError, errorBody, overrides, statusError } from './errors.ts'
import { MessagesSpeech } from './messages.ts'
import type { Reply } from './reply.ts'
import type { ModelProtocol } from './request.ts'
import { ResponsesSpeech } from './responses.ts'
import { callIdOf, type Envelope, type Speech } from './speech.ts'
import { Wire } from './wire.ts'

export interface Exchange {
  readonly outgoing: ServerResponse
  readonly protocol: ModelProtocol
  readonly envelope: Envelope
  /** Whether the request asked for a stream. */
  readonly stream: boolean
  /** Called before the server breaks the connection on purpose. */
  cut(): void
  /** Called with the id of each item that the server keeps. */
  keep(id: string): void
}

const SPEECHES = { chat: ChatSpeech, messages: MessagesSpeech, responses: ResponsesSpeech }

export async function sendReply(reply: Reply, exchange: Exchange): Promise<void> {
  const { outgoing, protocol, envelope } = exchange
  const wire = new Wire(exchange, reply)
  if (reply.after === 'request' && (reply.fault === 'reset' || reply.fault === 'stall')) return wire.fail(reply.fault)
  const error = answeredError(reply, envelope.model, protocol)
  const headers = { ...retryAfter(reply), ...reply.headers }
  if (error) {
    const body = errorBody({ ...error.error, ...overrides(reply) }, error.status, protocol)
    outgoing.writeHead(error.status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
    return
  }
  const speech = new SPEECHES[protocol](reply, envelope)
  for (const id of itemIds(speech)) exchange.keep(id)
  if (exchange.stream || reply.raw !== undefined) {
    outgoing.writeHead(reply.status ?? 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      ...headers,
    })
    outgoing.flushHeaders()
    if (reply.raw === undefined) return sendStream(reply, speech, protocol, wire)
    await wire.push(reply.raw)
    return wire.end()
  }
  outgoing.writeHead(200, { 'content-type': 'application/json', ...headers })
  await sendWhole(reply, speech, protocol, wire)
}

const itemIds = (speech: Speech) => (speech instanceof ResponsesSpeech ? speech.output.map(item => item.id) : [])

function retryAfter({ retryAfter: value }: Reply): Record<string, string> {
  if (value === undefined) return {}
  return { 'retry-after': value instanceof Date ? value.toUTCString() : String(value) }
}

/** After how many deltas the stream breaks, or undefined for one that does not. */
function breakingPoint({ fault, after }: Reply): number | undefined {
  if (fault === 'truncate') return typeof after === 'number' ? after : Number.POSITIVE_INFINITY
  if (fault === 'error-chunk' || fault === 'failed') return typeof after === 'number' ? after : 0
  if (fault === 'reset' || fault === 'stall' || fault === 'malformed') return typeof after === 'number' ? after : 1
  return undefined
}

async function sendStream(reply: Reply, speech: Speech, protocol: ModelProtocol, wire: Wire) {
  let breaks = breakingPoint(reply)
  let sent = 0
  for (const frame of speech.opening()) await wire.push(frame)
  for (const frame of speech.deltas()) {
    if (sent === breaks) {
      if (await breakStream(reply, speech, protocol, wire)) return
      breaks = undefined
    }
    if (sent === reply.pause?.after) await wire.wait(reply.pause.until)
    if (reply.delayMs) await wire.wait(reply.delayMs)
    await wire.push(frame)
    sent++
  }
  if (breaks !== undefined && (await breakStream(reply, speech, protocol, wire))) return
  for (const frame of speech.closing()) await wire.push(frame)
  await wire.end()
}

/** True when nothing may follow. */
async function breakStream(reply: Reply, speech: Speech, protocol: ModelProtocol, wire: Wire): Promise<boolean> {
  const { fault } = reply
  if (fault === 'malformed') {
    await wire.push(speech.malformed())
    return false
  }
  if (fault === 'error-chunk' || fault === 'failed') await wire.push(speech.failure(brokenOff(reply, protocol)))
  if (fault === 'reset' || fault === 'stall') await wire.fail(fault)
  else await wire.end()
  return true
}

const brokenOff = (reply: Reply, protocol: ModelProtocol) => ({ ...statusError(529, protocol), ...overrides(reply) })

/** A fault of the stream becomes the same fault in the middle of the JSON. */
async function sendWhole(reply: Reply, speech: Speech, protocol: ModelProtocol, wire: Wire) {
  if (reply.delayMs) await wire.wait(reply.delayMs)
  if (reply.pause) await wire.wait(reply.pause.until)
  const body = JSON.stringify(speech.whole())
  const { fault } = reply
  if (fault === 'error-chunk' || fault === 'failed') {
    await wire.push(JSON.stringify(errorBody(brokenOff(reply, protocol), 529, protocol)))
  } else {
    await wire.push(breakingPoint(reply) === undefined ? body : body.slice(0, Math.floor(body.length / 2)))
  }
  if (fault === 'reset' || fault === 'stall') await wire.fail(fault)
  else await wire.end()
}

/** The whole stream of a reply without a network fault, for a test that feeds a decoder itself. */
export function replyBytes(reply: Reply, envelope: Partial<Envelope> = {}, protocol: ModelProtocol = 'chat'): Buffer {
  let calls = 0
  const speech = new SPEECHES[protocol](reply, {
    id: answerId(protocol, 1, '0'.repeat(24)),
    model: 'test-model',
    created: 0,
    includeUsage: true,
    includeEncrypted: true,
    inputTokens: 1,
    callId: () => callIdOf(protocol, ++calls),
    ...envelope,
  })
  return Buffer.from([...speech.opening(), ...speech.deltas(), ...speech.closing()].join(''))
}

/** The id of the nth answer of a server; ids of Responses go back with their items, so they tell requests apart. */
export function answerId(protocol: ModelProtocol, n: number, seed: string): string {
  if (protocol === 'chat') return `chatcmpl-${n}`
  return protocol === 'messages' ? `msg_${seed}` : `resp_${seed}`
}
