/** `GET /metrics` on this machine, and nothing else. */

import { createServer, type Server } from 'node:http'
import { HarnessError } from '@cambium/core'
import { CONTENT_TYPE } from './prometheus.ts'

/** Who scrapes asks every few seconds; whoever asks more waits, or is let go. */
const MAX_CONNECTIONS = 16
const REQUEST_MS = 5_000

export interface Place {
  readonly host: string
  readonly port: number
}

/** Resolves when it listens; with undefined where somebody else has the port. @throws `METRICS_PORT` */
export async function serve(text: () => string, { host, port }: Place): Promise<Server | undefined> {
  const server = createServer({ requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS, keepAliveTimeout: REQUEST_MS })
  server.maxConnections = MAX_CONNECTIONS
  server.on('request', (request, response) => {
    request.resume()
    const [path] = (request.url ?? '').split('?')
    const reads = request.method === 'GET' || request.method === 'HEAD'
    if (path !== '/metrics' || !reads) {
      response.writeHead(path === '/metrics' ? 405 : 404, { 'content-type': 'text/plain' })
      response.end(path === '/metrics' ? 'only GET\n' : 'only /metrics\n')
      return
    }
    const body = text()
    response.writeHead(200, { 'content-type': CONTENT_TYPE, 'content-length': Buffer.byteLength(body) })
    response.end(request.method === 'HEAD' ? undefined : body)
  })
  const listens = await new Promise<boolean>((resolve, reject) => {
    server.once('error', cause => {
      if ((cause as NodeJS.ErrnoException).code === 'EADDRINUSE') return resolve(false)
      const problem = `${host}:${port} cannot be listened on: ${cause.message}`
      reject(new HarnessError('METRICS_PORT', problem, { fix: 'choose another `port`, or 0 for any', cause }))
    })
    server.listen(port, host, () => resolve(true))
  })
  if (!listens) return undefined
  // It watches a harness, and keeps no process that has nothing else to do.
  server.unref()
  return server
}

export function close(server: Server): Promise<void> {
  return new Promise(resolve => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
