/**
 * HTTP exchanges on `node:http` and `node:https`: connections are kept, proxies come from the environment, every wait
 * is bounded, cancelling ends the connection. Global `fetch` would cost 130 ms of every start.
 */

import http from 'node:http'
import { pipeline, type Readable } from 'node:stream'
import { getProxyForUrl } from 'proxy-from-env'
import { ProxyError } from './proxy-error.ts'

export interface HttpRequest {
  readonly url: URL
  readonly method: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
  readonly signal?: AbortSignal
  /** Until the connection stands, its TLS included. */
  readonly connectMs: number
  /** Until the headers of the answer have come. */
  readonly answerMs: number
}

/** Rejection of {@link HttpTransport.send} when the headers did not come in time. */
export class AnswerTimeout extends Error {
  override readonly name = 'AnswerTimeout'
}

/** An idle connection is given up before usual servers and load balancers do, so that none dies under a request. */
const IDLE_MS = 15_000

/** The server closed a connection that was kept just as the next request went out on it. */
class StaleConnection extends Error {
  readonly code = 'ECONNRESET'
}

/** Owns its connections; `dispose` ends them all. */
export class HttpTransport {
  private readonly agents = new Map<string, http.Agent>()

  /** Resolves with the headers; the body is the caller's to read or destroy. Rejects with the network's error. */
  async send(request: HttpRequest): Promise<http.IncomingMessage> {
    try {
      return await this.exchange(request)
    } catch (error) {
      if (!(error instanceof StaleConnection) || request.signal?.aborted) throw error
      return this.exchange(request)
    }
  }

  private async exchange(request: HttpRequest): Promise<http.IncomingMessage> {
    const { url, signal } = request
    const secure = url.protocol === 'https:'
    const proxy = proxyFor(url)
    // Loaded for the first https address only: it brings TLS along.
    const { request: start } = secure ? (await import('node:https')).default : http
    const agent = await this.agent(secure, proxy)
    signal?.throwIfAborted()
    return new Promise((resolve, reject) => {
      const opening = new AbortController()
      const way = { agent, opening: opening.signal }
      const outgoing = start({ ...target(url, proxy), ...options(request, proxy), ...way } as http.RequestOptions)
      // Once there is an answer its body is ended instead: the connection of a whole one is no longer ours to break.
      let ending: { destroy(error?: Error): unknown } = outgoing
      let through = !proxy
      const lost = (error: unknown) => {
        reject(through || signal?.aborted ? error : new ProxyError(proxy?.host, { cause: error }))
      }
      const fail = (error: unknown) => {
        lost(error)
        ending.destroy(error as Error)
        opening.abort()
      }
      const refused = (status: number) => {
        reject(new ProxyError(proxy?.host, { status }))
        fail(new Error('refused by the proxy'))
      }
      const connect = setTimeout(() => fail(timedOut('CONNECT_TIMEOUT')), request.connectMs)
      const answer = setTimeout(() => fail(new AnswerTimeout('no answer in time')), request.answerMs)
      const abort = () => fail(signal?.reason instanceof Error ? signal.reason : new Error('aborted'))
      const connected = () => {
        through = true
        clearTimeout(connect)
      }
      const headersCame = () => {
        clearTimeout(connect)
        clearTimeout(answer)
      }
      signal?.addEventListener('abort', abort)
      outgoing.on('socket', socket => {
        if (outgoing.reusedSocket) connected()
        else socket.once(secure ? 'secureConnect' : 'connect', connected)
      })
      outgoing.on('proxyConnect', ({ statusCode }: { statusCode: number }) => {
        through = statusCode === 200
        if (!through) refused(statusCode)
      })
      outgoing.on('response', response => {
        headersCame()
        if (proxy && response.statusCode === 407) return refused(407)
        ending = response
        // A body that nobody reads at that moment may break as well; whoever reads it next is told by its state.
        response.on('error', () => {})
        resolve(response)
      })
      // Stays for the whole exchange: an error after the answer began is the body's, and must not go unheard here.
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        const stale = outgoing.reusedSocket && (error.code === 'ECONNRESET' || error.code === 'EPIPE')
        lost(stale ? new StaleConnection('the connection was closed', { cause: error }) : error)
      })
      outgoing.on('close', () => {
        headersCame()
        signal?.removeEventListener('abort', abort)
        lost(timedOut('ECONNRESET'))
      })
      outgoing.end(request.body)
    })
  }

  dispose(): void {
    // Ends connections in use as well, and with them their exchanges.
    for (const agent of this.agents.values()) agent.destroy()
    this.agents.clear()
  }

  private async agent(secure: boolean, proxy: URL | undefined): Promise<http.Agent> {
    const key = `${secure} ${secure ? (proxy?.href ?? '') : ''}`
    const known = this.agents.get(key)
    if (known) return known
    const settings = { keepAlive: true, timeout: IDLE_MS }
    let agent: http.Agent
    if (!secure) agent = new http.Agent(settings)
    else if (proxy) {
      const { Tunnel } = await import('./tunnel.ts')
      agent = new Tunnel(proxy.href, settings) as unknown as http.Agent
    } else agent = new (await import('node:https')).default.Agent(settings)
    const raced = this.agents.get(key)
    if (raced) agent.destroy()
    else this.agents.set(key, agent)
    return raced ?? agent
  }
}

/** True for an address that an exchange can be had with. */
export function isWebAddress(address: string): boolean {
  return URL.canParse(address) && /^https?:$/.test(new URL(address).protocol)
}

/** True for this machine's own names and addresses; they are never reached through a proxy. */
export function isLoopback(hostname: string): boolean {
  return /^(localhost|.*\.localhost|127(\.\d+){3}|\[?::1\]?|0\.0\.0\.0)$/i.test(hostname)
}

/** The proxy that the environment names for an address. @throws ProxyError for one that cannot be used */
function proxyFor(url: URL): URL | undefined {
  const found = isLoopback(url.hostname) ? '' : getProxyForUrl(url)
  if (!found) return undefined
  // One that is written as `host:port` gets the scheme of what is asked for; it means `http:`, as everywhere else.
  const address = Object.values(process.env).includes(found) ? found : found.replace(/^https:/, 'http:')
  try {
    const proxy = new URL(address)
    decodeURIComponent(proxy.username + proxy.password)
    if (/^https?:$/.test(proxy.protocol)) return proxy
  } catch {
    // What makes no address, or no login, must not be quoted: it may hold a password.
  }
  throw new ProxyError(undefined, {})
}

function target(url: URL, proxy: URL | undefined): http.RequestOptions {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const direct = { protocol: url.protocol, hostname, port: url.port, path: url.pathname + url.search }
  if (url.protocol === 'https:' || !proxy) return direct
  // A plain exchange through a proxy names the whole address (RFC 9112 §3.2.2).
  return {
    protocol: 'http:',
    hostname: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || '80',
    path: url.href,
  }
}

function options({ url, method, headers, body }: HttpRequest, proxy: URL | undefined): http.RequestOptions {
  const all: Record<string, string> = { ...headers, host: url.host }
  if (body) all['content-length'] = String(body.length)
  if (proxy && url.protocol === 'http:') {
    const { username, password } = proxy
    const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
    if (username) all['proxy-authorization'] = `Basic ${Buffer.from(login).toString('base64')}`
  }
  return { method, headers: all }
}

function timedOut(code: string): Error {
  return Object.assign(new Error(code === 'ECONNRESET' ? 'the connection was closed' : 'no connection in time'), {
    code,
  })
}

/** A body without the compression that some proxies put on it unasked. Ending one of the two ends the other. */
export async function plainBody(body: Readable & Partial<Pick<http.IncomingMessage, 'headers'>>): Promise<Readable> {
  const coding = body.headers?.['content-encoding']?.trim().toLowerCase()
  if (!coding || coding === 'identity') return body
  const { createBrotliDecompress, createGunzip, createInflate } = await import('node:zlib')
  const known = { br: createBrotliDecompress, deflate: createInflate, gzip: createGunzip, 'x-gzip': createGunzip }
  const create = Object.hasOwn(known, coding) ? known[coding as keyof typeof known] : undefined
  if (!create) throw new Error(`its body is encoded as "${coding}", which nobody asked for`)
  // Whoever reads it is told by its state.
  return pipeline(body, create(), () => {})
}

/**
 * What has come of a body, waiting for more if nothing has: all that is buffered, in one piece. Undefined at its end.
 * `waitMs` bounds the wait; then it rejects with {@link AnswerTimeout}.
 */
export function readBody(body: Readable, waitMs: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => settle(() => reject(new AnswerTimeout('nothing came in time'))), waitMs)
    const settle = (act: () => void) => {
      clearTimeout(timer)
      body.off('readable', look).off('end', end).off('error', fail).off('close', closed)
      act()
    }
    const end = () => settle(() => resolve(undefined))
    const fail = (error: Error) => settle(() => reject(error))
    const closed = () => settle(() => (body.readableEnded ? resolve(undefined) : reject(timedOut('ECONNRESET'))))
    const look = () => {
      const chunk = body.read() as Buffer | null
      if (chunk) settle(() => resolve(chunk))
    }
    if (body.readableEnded) return end()
    if (body.errored || body.destroyed) return fail(body.errored ?? timedOut('ECONNRESET'))
    body.on('readable', look).on('end', end).on('error', fail).on('close', closed)
    look()
  })
}

/** A body as text, cut at `maxBytes`; what came before it broke off or took too long. */
export async function readText(body: http.IncomingMessage, maxBytes: number, waitMs: number): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  const until = performance.now() + waitMs
  try {
    const plain = await plainBody(body)
    while (size < maxBytes) {
      const chunk = await readBody(plain, Math.max(1, until - performance.now()))
      if (!chunk) break
      chunks.push(chunk)
      size += chunk.length
    }
  } catch {
    // An error body that breaks off is still worth showing as far as it came.
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
}

/** Lets the rest of a body pass, so that its connection can be used again; ends it if that takes long. */
export function release(body: http.IncomingMessage, waitMs = 1_000): void {
  if (body.readableEnded || body.destroyed) return
  const timer = setTimeout(() => body.destroy(), waitMs)
  timer.unref()
  body.on('close', () => clearTimeout(timer))
  body.resume()
}
