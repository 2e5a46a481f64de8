/** Sends one scripted reply over HTTP: the error, the stream or the whole completion, and the faults of the wire. */

import type { ServerResponse } from 'node:http'
import { OVERFLOW_WORDINGS, type Reply } from './model-server-reply.ts'
import { closingFrames, completion, deltaFrames, type Envelope, openingFrames, sse } from './model-server-stream.ts'

export interface Exchange {
  readonly outgoing: ServerResponse
  readonly envelope: Envelope
  /** Whether the request asked for a stream. */
  readonly stream: boolean
  /** Called before the server breaks the connection on purpose. */
  cut(): void
}

const STATUS_ERRORS: Record<string, { message: string; type: string; code: string | null }> = {
  400: { message: 'The request was not understood.', type: 'invalid_request_error', code: null },
  401: { message: 'Incorrect API key provided.', type: 'invalid_request_error', code: 'invalid_api_key' },
  402: { message: 'Insufficient balance', type: 'unknown_error', code: 'invalid_request_error' },
  403: { message: 'This key may not use the model.', type: 'permission_error', code: 'permission_denied' },
  429: { message: 'Rate limit reached for requests.', type: 'requests', code: 'rate_limit_exceeded' },
  500: { message: 'The server had an error while processing your request.', type: 'server_error', code: null },
  503: { message: 'The engine is currently overloaded.', type: 'server_error', code: 'service_unavailable' },
  529: { message: 'Overloaded', type: 'overloaded_error', code: null },
}

export async function sendReply(reply: Reply, exchange: Exchange): Promise<void> {
  const { outgoing } = exchange
  const wire = new Wire(exchange, reply)
  if (reply.after === 'request' && (reply.fault === 'reset' || reply.fault === 'stall')) return wire.fail(reply.fault)
  const error = errorOf(reply, exchange.envelope)
  const headers = { ...retryAfter(reply), ...reply.headers }
  if (error) {
    const body = JSON.stringify({ error: { ...error.error, ...overrides(reply) } })
    outgoing.writeHead(error.status, { 'content-type': 'application/json', ...headers }).end(body)
  } else if (exchange.stream || reply.raw !== undefined) {
    outgoing.writeHead(reply.status ?? 200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      ...headers,
    })
    outgoing.flushHeaders()
    if (reply.raw === undefined) return sendStream(reply, exchange.envelope, wire)
    await wire.push(reply.raw)
    await wire.end()
  } else {
    outgoing.writeHead(200, { 'content-type': 'application/json', ...headers })
    await sendWhole(reply, exchange.envelope, wire)
  }
}

function errorOf(reply: Reply, { model }: Envelope): { status: number; error: object } | undefined {
  const { fault } = reply
  if (fault === 'unknown-model') {
    const message = `The model \`${model}\` does not exist or you do not have access to it.`
    return { status: reply.status ?? 404, error: { message, type: 'invalid_request_error', code: 'model_not_found' } }
  }
  if (fault === 'overflow') {
    const { status, error } = OVERFLOW_WORDINGS[reply.wording ?? 'openai']
    return { status: reply.status ?? status, error }
  }
  const status = Number(fault)
  if (!status) return undefined
  return { status, error: STATUS_ERRORS[status] ?? { message: `Status ${status}`, type: 'error', code: null } }
}

function overrides({ message, type, code }: Reply): object {
  return {
    ...(message === undefined ? {} : { message }),
    ...(type === undefined ? {} : { type }),
    ...(code === undefined ? {} : { code }),
  }
}

function retryAfter({ retryAfter: value }: Reply): Record<string, string> {
  if (value === undefined) return {}
  return { 'retry-after': value instanceof Date ? value.toUTCString() : String(value) }
}

/** After how many deltas the stream breaks, or undefined for one that does not. */
function breakingPoint({ fault, after }: Reply): number | undefined {
  if (fault === 'truncate') return typeof after === 'number' ? after : Number.POSITIVE_INFINITY
  if (fault === 'error-chunk') return typeof after === 'number' ? after : 0
  if (fault === 'reset' || fault === 'stall' || fault === 'malformed') return typeof after === 'number' ? after : 1
  return undefined
}

async function sendStream(reply: Reply, envelope: Envelope, wire: Wire) {
  let breaks = breakingPoint(reply)
  let sent = 0
  for (const frame of openingFrames(reply, envelope)) await wire.push(frame)
  for (const frame of deltaFrames(reply, envelope)) {
    if (sent === breaks) {
      if (await breakStream(reply, wire)) return
      breaks = undefined
    }
    if (sent === reply.pause?.after) await wire.wait(reply.pause.until)
    if (reply.delayMs) await wire.wait(reply.delayMs)
    await wire.push(frame)
    sent++
  }
  if (breaks !== undefined && (await breakStream(reply, wire))) return
  for (const frame of closingFrames(reply, envelope)) await wire.push(frame)
  await wire.end()
}

/** True when nothing may follow. */
async function breakStream(reply: Reply, wire: Wire): Promise<boolean> {
  if (reply.fault === 'malformed') {
    await wire.push(sse(reply, '{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"content":"bro'))
    return false
  }
  if (reply.fault === 'error-chunk') {
    const error = { ...STATUS_ERRORS['529'], ...overrides(reply) }
    await wire.push(sse(reply, JSON.stringify({ error })))
  }
  if (reply.fault === 'reset' || reply.fault === 'stall') await wire.fail(reply.fault)
  else await wire.end()
  return true
}

/** A fault of the stream becomes the same fault in the middle of the JSON. */
async function sendWhole(reply: Reply, envelope: Envelope, wire: Wire) {
  if (reply.delayMs) await wire.wait(reply.delayMs)
  if (reply.pause) await wire.wait(reply.pause.until)
  const body = JSON.stringify(completion(reply, envelope))
  const { fault } = reply
  if (fault === 'error-chunk') {
    await wire.push(JSON.stringify({ error: { ...STATUS_ERRORS['529'], ...overrides(reply) } }))
  } else {
    await wire.push(breakingPoint(reply) === undefined ? body : body.slice(0, Math.floor(body.length / 2)))
  }
  if (fault === 'reset' || fault === 'stall') await wire.fail(fault)
  else await wire.end()
}

/** The network side: cuts bytes as the script asks, keeps step with a slow reader, and stops when the client leaves. */
class Wire {
  private readonly exchange: Exchange
  private readonly reply: Reply
  private readonly closed: Promise<void>
  private gathered: Uint8Array[] = []
  private gatheredBytes = 0
  private offset = 0

  constructor(exchange: Exchange, reply: Reply) {
    this.exchange = exchange
    this.reply = reply
    const { outgoing } = exchange
    // Writing to a client that has left fails on this event; `ended` of the request is where it is told.
    outgoing.on('error', () => {})
    this.closed = outgoing.closed ? Promise.resolve() : new Promise(resolve => outgoing.once('close', () => resolve()))
  }

  async push(text: string | Uint8Array) {
    const bytes = typeof text === 'string' ? Buffer.from(text) : text
    const { gatherBytes } = this.reply
    if (!gatherBytes) return this.write(bytes)
    this.gathered.push(bytes)
    this.gatheredBytes += bytes.length
    if (this.gatheredBytes >= gatherBytes) await this.flush()
  }

  async flush() {
    const bytes = Buffer.concat(this.gathered)
    this.gathered = []
    this.gatheredBytes = 0
    if (bytes.length) await this.write(bytes)
  }

  /** Waits so many milliseconds or for the promise, no longer than the client stays. */
  async wait(until: number | PromiseLike<unknown>) {
    await this.flush()
    const { commentsMs } = this.reply
    const comments = commentsMs
      ? setInterval(() => void this.write(Buffer.from(': keep-alive\n\n')), commentsMs)
      : undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    const over = typeof until === 'number' ? new Promise(resolve => (timer = setTimeout(resolve, until))) : until
    try {
      await Promise.race([over, this.closed])
    } finally {
      clearInterval(comments)
      clearTimeout(timer)
    }
  }

  async fail(fault: 'reset' | 'stall') {
    if (fault === 'stall') return this.wait(this.closed)
    await this.flush()
    const { socket } = this.exchange.outgoing
    if (!socket || socket.destroyed) return
    // What was written has to leave before the reset, or the client would see fewer deltas than the script says.
    await new Promise(resolve => socket.write('', resolve))
    this.exchange.cut()
    socket.resetAndDestroy()
  }

  async end() {
    await this.flush()
    this.exchange.outgoing.end()
  }

  private async write(bytes: Uint8Array) {
    const { outgoing } = this.exchange
    for (const piece of this.cuts(bytes)) {
      if (outgoing.destroyed) return
      if (outgoing.write(piece)) continue
      await Promise.race([new Promise(resolve => outgoing.once('drain', resolve)), this.closed])
    }
  }

  private *cuts(bytes: Uint8Array): Generator<Uint8Array> {
    const { split } = this.reply
    const start = this.offset
    this.offset += bytes.length
    if (split === undefined) return yield bytes
    let from = 0
    while (from < bytes.length) {
      const at = start + from
      const next = typeof split === 'number' ? at - (at % split) + split : Math.min(...split.filter(cut => cut > at))
      const to = Math.min(bytes.length, next - start)
      yield bytes.subarray(from, to)
      from = to
    }
  }
}
