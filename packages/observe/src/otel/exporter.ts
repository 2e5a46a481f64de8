/** Sends spans to a collector, in batches that are bounded, and tries again for a while. Never in anybody's way. */

import { request as httpRequest } from 'node:http'
import { errorMessage, sleep } from '@cambium/core'
import type { Target } from './settings.ts'
import { exportRequest, type Span } from './span.ts'

export interface ExporterOptions {
  readonly target: Target
  /** Bound of one request. */
  readonly timeoutMs: number
  /** Longest wait of a span for company. */
  readonly flushMs: number
  /** Further ones are dropped, and counted. */
  readonly maxQueued: number
  readonly maxBatch: number
  readonly warn: (text: string) => void
}

const ATTEMPTS = 5
const FIRST_WAIT_MS = 500
const MAX_WAIT_MS = 30_000
/** Less than anybody waits for who leaves, so that it can still say what was lost. */
const LAST_MS = 2_500
const MAX_ANSWER_BYTES = 64 * 1024

interface Answer {
  readonly status: number
  readonly retryAfterMs: number | undefined
  readonly body: string
}

export class Exporter {
  private readonly options: ExporterOptions
  private readonly queue: Span[] = []
  private readonly life = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private sending: Promise<void> | undefined
  private dropped = 0
  private down = false
  private leaving = false
  private refused = ''

  constructor(options: ExporterOptions) {
    this.options = options
  }

  add(span: Span): void {
    const { maxQueued, maxBatch, flushMs } = this.options
    if (this.queue.length >= maxQueued) {
      this.dropped++
      return
    }
    this.queue.push(span)
    if (this.queue.length >= maxBatch) void this.send()
    else this.timer ??= setTimeout(() => void this.send(), flushMs).unref()
  }

  /** Sends what is left, for as long as the signal lets it; what is then left is given up. */
  async flush(signal: AbortSignal): Promise<void> {
    const stop = () => this.life.abort()
    const last = setTimeout(stop, LAST_MS)
    this.leaving = true
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    try {
      await this.send()
    } finally {
      signal.removeEventListener('abort', stop)
      stop()
      clearTimeout(last)
      clearTimeout(this.timer)
      const lost = this.dropped + this.queue.length
      if (lost) this.options.warn(`${lost} spans were not sent`)
    }
  }

  private send(): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    this.sending ??= this.drain().finally(() => {
      this.sending = undefined
    })
    return this.sending
  }

  private async drain(): Promise<void> {
    const { signal } = this.life
    while (this.queue.length && !signal.aborted) {
      const batch = this.queue.slice(0, this.options.maxBatch)
      const taken = await this.deliver(batch)
      if (signal.aborted && !taken) return
      this.queue.splice(0, batch.length)
      if (!taken) this.dropped += batch.length
    }
  }

  /** False for a batch that nobody takes. */
  private async deliver(batch: readonly Span[]): Promise<boolean> {
    const { target } = this.options
    const text = exportRequest(batch, target.resource)
    const body = target.gzip ? await zipped(text) : Buffer.from(text)
    for (let attempt = 1; ; attempt++) {
      let problem: string
      let answered = false
      let waitMs = Math.min(FIRST_WAIT_MS * 2 ** (attempt - 1), MAX_WAIT_MS)
      try {
        const answer = await this.post(body)
        answered = true
        if (answer.status >= 200 && answer.status < 300) {
          this.taken(answer)
          return true
        }
        problem = `${target.url.host} answered ${answer.status}`
        if (![429, 502, 503, 504].includes(answer.status)) {
          this.refuse(`${problem}: spans are dropped. Look at the endpoint and its headers`)
          return false
        }
        waitMs = Math.min(answer.retryAfterMs ?? waitMs, MAX_WAIT_MS)
      } catch (error) {
        if (this.life.signal.aborted) return false
        problem = `${target.url.host} cannot be reached: ${errorMessage(error)}`
      }
      if (!this.down) this.options.warn(`${problem}. Spans wait, and are dropped when too many do`)
      this.down = true
      // Who is leaving waits for one that is busy, and not for one that is not there.
      if (attempt >= ATTEMPTS || (this.leaving && !answered)) return false
      try {
        // Up to a fifth more, so that many do not come back at once.
        await sleep(waitMs * (1 + Math.random() / 5), this.life.signal)
      } catch {
        // It is leaving.
        return false
      }
    }
  }

  private taken({ body }: Answer): void {
    if (this.down) this.options.warn(`${this.options.target.url.host} takes spans again`)
    this.down = false
    const partial = partialSuccess(body)
    if (partial) this.refuse(partial)
  }

  /** Said when it is another thing than the last time. */
  private refuse(text: string): void {
    if (this.refused === text) return
    this.refused = text
    this.options.warn(text)
  }

  private async post(body: Buffer): Promise<Answer> {
    const { target, timeoutMs } = this.options
    const { url, headers, gzip } = target
    const request = url.protocol === 'https:' ? (await import('node:https')).request : httpRequest
    const signal = AbortSignal.any([this.life.signal, AbortSignal.timeout(timeoutMs)])
    return new Promise((resolve, reject) => {
      const sent = request(url, {
        method: 'POST',
        agent: false,
        signal,
        headers: {
          ...headers,
          'content-type': 'application/json',
          'content-length': body.length,
          ...(gzip ? { 'content-encoding': 'gzip' } : {}),
        },
      })
      sent.on('error', reject)
      sent.on('response', response => {
        const parts: Buffer[] = []
        let size = 0
        response.on('data', (part: Buffer) => {
          size += part.length
          if (size <= MAX_ANSWER_BYTES) parts.push(part)
        })
        response.on('error', reject)
        response.on('end', () => {
          const retryAfterMs = waitOf(response.headers['retry-after'])
          resolve({ status: response.statusCode ?? 0, retryAfterMs, body: Buffer.concat(parts).toString('utf8') })
        })
      })
      sent.end(body)
    })
  }
}

async function zipped(text: string): Promise<Buffer> {
  const { gzip } = await import('node:zlib')
  return new Promise((resolve, reject) => gzip(text, (error, bytes) => (error ? reject(error) : resolve(bytes))))
}

/** Seconds, or a date. */
function waitOf(header: string | undefined): number | undefined {
  if (!header) return undefined
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined
}

function partialSuccess(body: string): string | undefined {
  let answer: { partialSuccess?: { rejectedSpans?: unknown; errorMessage?: unknown } } | undefined
  try {
    answer = JSON.parse(body) as typeof answer
  } catch {
    // An answer that is no JSON says nothing of what was left out.
    return undefined
  }
  const { rejectedSpans, errorMessage: why } = answer?.partialSuccess ?? {}
  const rejected = Number(rejectedSpans ?? 0)
  if (!rejected && !why) return undefined
  return `the collector refused ${rejected} spans${why ? `: ${String(why).slice(0, 500)}` : ''}`
}
