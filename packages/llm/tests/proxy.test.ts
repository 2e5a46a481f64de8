/** Proxies of the environment that do not let an exchange through. */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { answer, connected } from './llm.ts'

let proxy: Server
let address: string
let say: (socket: Socket) => void
const sockets = new Set<Socket>()

beforeEach(async () => {
  proxy = createServer(socket => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)))
    socket.once('data', () => say(socket))
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  address = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
})
afterEach(() => {
  proxy.close()
  for (const socket of sockets) socket.destroy()
})

/** What comes of a request to an address that lies behind the proxy. */
async function refused(scheme: string, written: string, limits = {}) {
  const root = await connected(`${scheme}://models.example/v1`, { apiKey: 'a-key' }, limits)
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']) vi.stubEnv(name, written)
  vi.stubEnv('NO_PROXY', '')
  vi.stubEnv('no_proxy', '')
  const { failure } = await answer(root)
  expect(JSON.stringify(failure)).not.toContain('hunter2')
  return failure
}

const login = () => `http://me:hunter2@${address}`
const replying = (status: string) => (socket: Socket) =>
  void socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 2\r\n\r\nno`)

describe('a proxy', () => {
  it.each(['http', 'https'])('that wants another login is told as such, not as the provider: %s', async scheme => {
    say = replying('407 Proxy Authentication Required')
    expect(await refused(scheme, login())).toMatchObject({
      code: 'AUTH',
      message: `no way to models.example through the proxy ${address}: it answered 407`,
      fix: 'correct the login of the proxy in HTTPS_PROXY and HTTP_PROXY',
    })
  })

  it('that blocks a host does not make its key look wrong', async () => {
    say = replying('403 Forbidden')
    const failure = await refused('https', login())
    expect(failure).toMatchObject({ code: 'TRANSPORT', message: /through the proxy .*: it answered 403$/ })
  })

  it('that never answers is given up in time, and so is its connection', async () => {
    say = () => {}
    const failure = await refused('https', login(), { connectMs: 80 })
    expect(failure).toMatchObject({ code: 'TRANSPORT', message: /through the proxy .* in time$/ })
    await vi.waitFor(() => expect(sockets.size).toBe(0))
  })

  it('that never answers keeps no connection of a request that was cancelled', async () => {
    const asked = new Promise<void>(resolve => {
      say = () => resolve()
    })
    const root = await connected('https://models.example/v1', { apiKey: 'a-key' })
    vi.stubEnv('https_proxy', login())
    vi.stubEnv('no_proxy', '')
    vi.stubEnv('NO_PROXY', '')
    const controller = new AbortController()
    const cancelled = answer(root, { signal: controller.signal })
    await asked
    controller.abort()
    expect((await cancelled).reason).toBe('aborted')
    await vi.waitFor(() => expect(sockets.size).toBe(0))
  })

  it.each(['http', 'https'])('that is not there is what cannot be reached: %s', async scheme => {
    const failure = await refused(scheme, 'http://me:hunter2@127.0.0.1:1')
    expect(failure?.message).toBe(
      'no way to models.example through the proxy 127.0.0.1:1: connection refused at 127.0.0.1:1',
    )
    expect(failure?.fix).toMatch(/NO_PROXY/)
  })

  it('that is written without a scheme speaks HTTP', async () => {
    say = replying('502 Bad Gateway')
    expect((await refused('https', address))?.message).toMatch(/it answered 502$/)
  })

  it.each(['http://me:hunter2@ nowhere:99', 'http://me:hunter2%zz@127.0.0.1:1', 'socks5://me:hunter2@127.0.0.1:1'])(
    'that cannot be used is told without its password: %s',
    async written => {
      const failure = await refused('https', written)
      expect(failure?.message).toBe('the address of the proxy in the environment cannot be used')
    },
  )
})
