/** The plainest client of a model server: what came over the wire, read by read. */

import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'

export interface Delta {
  content?: string | null
  reasoning_content?: string | null
  tool_calls?: { index: number; id?: string; function: { name?: string; arguments: string } }[]
}

export interface Chunk {
  choices: { delta: Delta; finish_reason: string | null }[]
  usage?: Record<string, unknown>
  error?: Record<string, unknown>
}

export interface Answer {
  status: number
  headers: IncomingMessage['headers']
  /** One buffer for each read. */
  reads: Buffer[]
  body: string
  /** Why the body broke off, if it did. */
  broken: string | undefined
}

export interface Call {
  request: ClientRequest
  /** Resolves with the status at the headers; the body may still be coming. */
  head: Promise<number>
  /** Resolves when the body so far fits. */
  until(fits: (body: string) => boolean): Promise<string>
  answer: Promise<Answer>
}

/** Posts a chat completion to a server's url, or to the full address of another protocol. */
export function call(url: string, body: unknown, headers: Record<string, string> = {}): Call {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const reads: Buffer[] = []
  const sofar = () => Buffer.concat(reads).toString('utf8')
  let look = () => {}
  const request = httpRequest(url.endsWith('/v1') ? `${url}/chat/completions` : url, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'application/json', ...headers },
  })
  const head = new Promise<number>((resolve, reject) => {
    request.once('error', reject)
    request.once('response', incoming => resolve(incoming.statusCode ?? 0))
  })
  const answer = new Promise<Answer>((resolve, reject) => {
    let begun = false
    // Newer Nodes tell the request as well when its answer breaks off.
    request.on('error', error => begun || reject(error))
    request.once('response', incoming => {
      begun = true
      let broken: string | undefined
      // Listeners at once, not iteration: an iterator joins reads that have queued up.
      incoming.on('data', (read: Buffer) => {
        reads.push(read)
        look()
      })
      incoming.on('error', (error: NodeJS.ErrnoException) => {
        broken = error.code
      })
      incoming.on('close', () => {
        resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, reads, body: sofar(), broken })
      })
    })
  })
  // A test may look at one of them alone.
  head.catch(() => {})
  answer.catch(() => {})
  request.end(bytes)
  return {
    request,
    answer,
    head,
    until: fits =>
      new Promise(resolve => {
        look = () => {
          if (fits(sofar())) resolve(sofar())
        }
        look()
      }),
  }
}

export const ask = (url: string, body: unknown, headers?: Record<string, string>) => call(url, body, headers).answer

export const hello = (more: object = {}) => ({
  model: 'test-model',
  stream: true,
  messages: [{ role: 'user', content: 'hello' }],
  ...more,
})

/** The data of every event of a stream, `[DONE]` and comments left out; what is no JSON is given as text. */
export function chunksOf(body: string): Chunk[] {
  return body
    .split(/\r?\n\r?\n/)
    .filter(event => event.startsWith('data: ') && event !== 'data: [DONE]')
    .map(event => JSON.parse(event.slice(6)) as Chunk)
}

/** Folds a stream into one message, as a client would. */
export function fold(body: string) {
  let text = ''
  let reasoning = ''
  let finish: string | null = null
  const calls: { id?: string; name: string; arguments: string }[] = []
  for (const { choices } of chunksOf(body)) {
    for (const { delta, finish_reason } of choices) {
      text += delta.content ?? ''
      reasoning += delta.reasoning_content ?? ''
      for (const part of delta.tool_calls ?? []) {
        calls[part.index] ??= { ...(part.id ? { id: part.id } : {}), name: part.function.name ?? '', arguments: '' }
        calls[part.index]!.arguments += part.function.arguments
      }
      finish = finish_reason ?? finish
    }
  }
  return { text, reasoning, calls, finish }
}

/** The parts of tool calls in the order in which they came. */
export function callParts(body: string) {
  return chunksOf(body).flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
}

export interface NamedEvent {
  readonly event: string | undefined
  readonly data: Record<string, unknown> & { readonly type: string }
}

/** The events of a stream that names them. */
export function namedEvents(body: string): NamedEvent[] {
  return body
    .split(/\r?\n\r?\n/)
    .filter(event => event.includes('data: '))
    .map(event => ({
      event: /^event: (.*?)\r?$/m.exec(event)?.[1],
      data: JSON.parse(/^data: (.*?)\r?$/m.exec(event)![1]!),
    }))
}

export const VERSION = { 'anthropic-version': '2023-06-01' }

export const askMessages = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  ask(`${url}/messages`, body, { ...VERSION, ...headers })
export const askResponses = (url: string, body: unknown, headers: Record<string, string> = {}) =>
  ask(`${url}/responses`, body, headers)

export const helloMessages = (more: object = {}) => ({
  model: 'claude-sonnet-4-5',
  max_tokens: 4096,
  stream: true,
  messages: [{ role: 'user', content: 'hello' }],
  ...more,
})

export const helloResponses = (more: object = {}) => ({
  model: 'gpt-5',
  stream: true,
  store: false,
  include: ['reasoning.encrypted_content'],
  input: [{ role: 'user', content: [{ type: 'input_text', text: 'hello' }] }],
  ...more,
})
