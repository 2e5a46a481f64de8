/** A server that speaks Murmur, so that the example needs no network; it says what is written down here. */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

/** The events of one answer, or a status and an error. An event `wait` says no more, `drop` breaks the connection. */
export type MurmurReply = readonly (object | 'wait' | 'drop')[] | { readonly status: number; readonly error: object }

export interface MurmurServer {
  /** Up to where the protocol goes on. */
  readonly url: string
  /** Each request: what let it in, and its body. */
  readonly requests: { readonly access: string; readonly body: Record<string, unknown> }[]
  close(): Promise<void>
}

/** `lets` judges the key or the word that a request carries. */
export async function startMurmurServer(
  replies: MurmurReply[],
  lets: (access: string) => boolean = () => true,
): Promise<MurmurServer> {
  const requests: MurmurServer['requests'] = []
  const server = createServer(async (request, response) => {
    const access = String(request.headers['x-murmur-key'] ?? request.headers['x-murmur-word'] ?? '')
    if (!lets(access)) return refuse(response, 401, { message: 'I do not know you.', code: 'invalid_api_key' })
    if (request.url !== '/v1/murmurs') return refuse(response, 404, { message: 'there is nothing' })
    requests.push({ access, body: (await json(request)) as Record<string, unknown> })
    const reply = replies.shift()
    if (!reply) return refuse(response, 500, { message: 'nothing is left to be said' })
    if ('status' in reply) return refuse(response, reply.status, reply.error)
    say(request, response, reply)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    async close() {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

function refuse(response: ServerResponse, status: number, error: object) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
}

function say(request: IncomingMessage, response: ServerResponse, events: readonly (object | 'wait' | 'drop')[]) {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (const event of events) {
    if (event === 'wait') return
    if (event === 'drop') return request.socket.destroy()
    response.write(`data: ${JSON.stringify(event)}\n\n`)
  }
  response.end()
}
