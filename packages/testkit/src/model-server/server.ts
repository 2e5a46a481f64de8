/**
 * A model server on this machine that speaks the protocols of three providers from a script, faults included, so that
 * an adapter, a loop or a whole program can be tried against real HTTP.
 */

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { HarnessError } from '@cambium/core'
import { answerId, sendReply } from './answer.ts'
import { errorBody, type ProviderError } from './errors.ts'
import { type Reply, type ReplyScript, toReply } from './reply.ts'
import type { ModelProtocol, ModelRequest, ModelRequestBody, ModelRequestEnd } from './request.ts'
import { callIdOf } from './speech.ts'
import { inspectRequest } from './strict.ts'

export interface ModelServerOptions {
  /** Answers in order, one a request (see `times` and `when`). */
  replies?: readonly ReplyScript[]
  /** Answers every request that no reply is left for, instead of the error. */
  otherwise?: ReplyScript
  /** False answers whatever arrives, as long as it is JSON. */
  strict?: boolean
  /** The strict provider of chat completions refuses two messages of one role in a row, tool results aside. */
  alternateRoles?: boolean
  /** The strict provider refuses input + output above it, in tokens of four characters. */
  contextWindow?: number
  /** A refusal of your own: the text of the 400, or nothing. */
  check?: (request: ModelRequest) => string | undefined
  /** What `GET /v1/models` lists; when given, a request for another model gets a 404. */
  models?: readonly string[]
  /** When given, a request with another bearer token or `x-api-key` gets a 401. */
  apiKey?: string
  port?: number
}

export interface ModelServer {
  /** `http://127.0.0.1:<port>/v1`; below it `chat/completions`, `messages`, `responses` and `models`. */
  readonly url: string
  /** Every request for an answer so far, oldest first. */
  readonly requests: readonly ModelRequest[]
  /** Every other request, as `GET /v1/models`. */
  readonly others: readonly string[]
  /** The request for an answer at `index`, as soon as it is there. */
  request(index: number): Promise<ModelRequest>
  /** @throws `MODEL_SERVER_NOT_DONE` listing replies that are left, requests that found none, and refused ones. */
  expectDone(): void
  /** Ends open exchanges and frees the port. Idempotent. */
  close(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const PATHS: Record<string, ModelProtocol> = {
  '/chat/completions': 'chat',
  '/messages': 'messages',
  '/responses': 'responses',
}
const MAX_BODY_BYTES = 64 * 1024 * 1024

interface Left {
  readonly script: ReplyScript
  readonly when: Reply['when']
  times: number
}

/** Starts a server on a free port of 127.0.0.1. Whoever starts it closes it. */
export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const left = (options.replies ?? []).map((script, index): Left => {
    if (typeof script === 'function') return { script, when: undefined, times: 1 }
    const reply = toReply(script, `reply ${index}`)
    return { script: reply, when: reply.when, times: reply.times ?? 1 }
  })
  if (options.otherwise && typeof options.otherwise !== 'function') toReply(options.otherwise, 'otherwise')
  const requests: ModelRequest[] = []
  const others: string[] = []
  const faults: string[] = []
  const waiting = new Map<number, (request: ModelRequest) => void>()
  const stored = new Set<string>()
  const rules =
    options.strict === false
      ? undefined
      : { alternateRoles: options.alternateRoles ?? false, contextWindow: options.contextWindow, stored }
  let calls = 0
  let closing: Promise<void> | undefined

  function take(request: ModelRequest): ReplyScript | undefined {
    const entry = left.find(({ times, when }) => times > 0 && (when === undefined || matches(request, when)))
    if (!entry) return options.otherwise
    entry.times--
    return entry.script
  }

  async function answer(protocol: ModelProtocol, incoming: IncomingMessage, outgoing: ServerResponse) {
    const bytes = await readBody(incoming)
    const time = Date.now()
    const text = bytes.toString('utf8')
    let cut = false
    const inspection = inspectRequest({ bytes, headers: incoming.headers, protocol }, rules)
    const request = {
      index: requests.length,
      protocol,
      method: incoming.method ?? '',
      path: incoming.url ?? '',
      headers: incoming.headers,
      time,
      text,
      body: (inspection.body ?? {}) as ModelRequestBody,
      problem: undefined as string | undefined,
      ended: endOf(outgoing, () => cut || closing !== undefined),
    }
    const fault = (problem: string) => {
      request.problem = problem
      faults.push(`request ${request.index}: ${problem}`)
    }
    const refused = refusal(request, inspection.problem, inspection.code, options)
    if (refused?.status === 400) fault(`refused: ${refused.error.message}`)
    const script = refused ? undefined : take(request)
    if (!refused && !script) fault('no reply is left for it')
    requests.push(request)
    waiting.get(request.index)?.(request)
    waiting.delete(request.index)
    const fail = (status: number, error: ProviderError) =>
      sendJson(outgoing, status, errorBody(error, status, protocol))
    if (refused) return fail(refused.status, refused.error)
    if (!script) return fail(500, unexpected(request))
    let reply: Reply
    try {
      reply = toReply(
        typeof script === 'function' ? await script(request) : script,
        `reply to request ${request.index}`,
      )
    } catch (error) {
      fault(`its reply failed: ${(error as Error).message}`)
      return fail(500, { message: request.problem, type: 'server_error', code: 'script_failed' })
    }
    const { model, stream, stream_options: asked, include, store } = request.body
    const seed = createHash('sha256').update(`${request.index} ${text}`).digest('hex').slice(0, 24)
    const envelope = {
      id: answerId(protocol, request.index + 1, seed),
      model,
      created: Math.floor(time / 1000),
      includeUsage: (asked as { include_usage?: boolean } | undefined)?.include_usage === true,
      includeEncrypted: Array.isArray(include) && include.includes('reasoning.encrypted_content'),
      inputTokens: Math.ceil(bytes.length / 4),
      callId: () => callIdOf(protocol, ++calls),
    }
    const markCut = () => {
      cut = true
    }
    const keep = (id: string) => void (store !== false && stored.add(id))
    await sendReply(reply, { outgoing, protocol, envelope, stream: stream === true, cut: markCut, keep })
  }

  function list(incoming: IncomingMessage, outgoing: ServerResponse) {
    const ids = options.models ?? ['test-model']
    if (incoming.headers['anthropic-version']) {
      const data = ids.map(id => ({ type: 'model', id, display_name: id, created_at: '2025-01-01T00:00:00Z' }))
      return sendJson(outgoing, 200, { data, has_more: false, first_id: ids[0] ?? null, last_id: ids.at(-1) ?? null })
    }
    const data = ids.map(id => ({ id, object: 'model', created: 0, owned_by: 'script' }))
    sendJson(outgoing, 200, { object: 'list', data })
  }

  const server = createServer((incoming, outgoing) => {
    const path = (incoming.url ?? '').replace(/\?.*$/, '').replace(/^\/v1(?=\/)/, '')
    const protocol = PATHS[path]
    if (incoming.method === 'POST' && protocol) {
      answer(protocol, incoming, outgoing).catch(error => {
        // The client went away while it was sending or being answered: `ended` tells, there is nobody to answer.
        outgoing.destroy()
        if (!incoming.destroyed) faults.push(`the server failed: ${(error as Error).stack}`)
      })
      return
    }
    others.push(`${incoming.method} ${incoming.url}`)
    incoming.resume()
    if (incoming.method === 'GET' && path === '/models') return list(incoming, outgoing)
    faults.push(`${incoming.method} ${incoming.url}: there is no such path`)
    const message = `Invalid URL (${incoming.method} ${incoming.url})`
    sendJson(outgoing, 404, { error: { message, type: 'invalid_request_error' } })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo

  const close = () => {
    closing ??= new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
    return closing
  }

  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    others,
    request(index) {
      const there = requests[index]
      if (there) return Promise.resolve(there)
      return new Promise(resolve => {
        const before = waiting.get(index)
        waiting.set(index, request => {
          before?.(request)
          resolve(request)
        })
      })
    },
    expectDone() {
      const rest = left.flatMap(({ times }, index) => (times > 0 ? [`reply ${index} is left ${times} times`] : []))
      const problems = [...faults, ...rest]
      if (!problems.length) return
      throw new HarnessError('MODEL_SERVER_NOT_DONE', `the script and the requests differ: ${problems.join('; ')}`)
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

function matches(request: ModelRequest, when: NonNullable<Reply['when']>): boolean {
  if (typeof when === 'function') return when(request)
  return typeof when === 'string' ? request.text.includes(when) : when.test(request.text)
}

function refusal(
  request: ModelRequest,
  problem: string | undefined,
  code: string | null | undefined,
  options: ModelServerOptions,
): { status: number; error: ProviderError } | undefined {
  const messages = request.protocol === 'messages'
  const type = 'invalid_request_error'
  if (options.apiKey !== undefined && !hasKey(request, options.apiKey)) {
    if (messages) return { status: 401, error: { message: 'invalid x-api-key' } }
    return { status: 401, error: { message: 'Incorrect API key provided.', type, code: 'invalid_api_key' } }
  }
  if (problem) return { status: 400, error: { message: problem, type, code: code ?? null } }
  if (options.models && !options.models.includes(request.body.model)) {
    if (messages) return { status: 404, error: { message: `model: ${request.body.model}` } }
    const message = `The model \`${request.body.model}\` does not exist or you do not have access to it.`
    return { status: 404, error: { message, type, code: 'model_not_found' } }
  }
  const own = options.check?.(request)
  return own === undefined ? undefined : { status: 400, error: { message: own, type, code: null } }
}

const hasKey = ({ headers }: ModelRequest, key: string) =>
  headers.authorization === `Bearer ${key}` || headers['x-api-key'] === key

function unexpected(request: ModelRequest): ProviderError {
  const message = `the script has no reply left for request ${request.index}`
  return { message, type: 'server_error', code: 'unexpected_request' }
}

function sendJson(outgoing: ServerResponse, status: number, body: unknown) {
  outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function readBody(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > MAX_BODY_BYTES) throw new Error(`a request body above ${MAX_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function endOf(outgoing: ServerResponse, byUs: () => boolean): Promise<ModelRequestEnd> {
  return new Promise(resolve => {
    outgoing.once('close', () => resolve(outgoing.writableFinished ? 'finished' : byUs() ? 'cut' : 'left'))
  })
}
