/** How the bytes of a reply reach the network. */

import type { ServerResponse } from 'node:http'
import type { Reply } from './reply.ts'

interface Exchange {
  readonly outgoing: ServerResponse
  /** Called before the connection is broken on purpose. */
  cut(): void
}

/** Cuts bytes as the script asks, keeps step with a slow reader, and stops when the client leaves. */
export class Wire {
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
