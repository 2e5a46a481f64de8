/** What servers and what stands before them really send, and how long they may: for every protocol the same. */

import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import type { Context } from '@cambium/core'
import * as anthropic from '@cambium/llm/anthropic'
import * as openai from '@cambium/llm/openai'
import * as responses from '@cambium/llm/responses'
import { afterEach, describe, expect, it } from 'vitest'
import { answer, clearEnvironment, tree } from './llm.ts'

const PLUGINS = { openai, anthropic, responses }
type Name = keyof typeof PLUGINS

let server: Server | undefined
const sockets = new Set<Socket>()
afterEach(() => {
  server?.close()
  for (const socket of sockets) socket.destroy()
})

/** A provider that answers each request with what `say` writes. */
async function provider(protocol: Name, say: (socket: Socket) => void, config = {}): Promise<Context> {
  clearEnvironment()
  server = createServer(socket => {
    sockets.add(socket.on('error', () => {}))
    socket.on('data', data => {
      if (data.includes('}')) say(socket)
    })
  })
  await new Promise<void>(resolve => server!.listen(0, '127.0.0.1', resolve))
  const root = await tree()
  const baseURL = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  await root.plugin(PLUGINS[protocol], { providers: { test: { baseURL, apiKey: 'a-key' } }, ...config } as never)
  return root
}

const event = (data: { readonly type?: string }) => {
  return `${data.type ? `event: ${data.type}\n` : ''}data: ${JSON.stringify(data)}\n\n`
}
const delta = (delta: object, finish: string | null = null) =>
  event({ choices: [{ index: 0, delta, finish_reason: finish }] } as object)

const EVENTS = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n'

const WIRE: Record<Name, { readonly text: string; readonly finish: string; readonly life: string }> = {
  openai: { text: delta({ content: 'hi' }), finish: delta({}, 'stop'), life: event({ choices: [] } as object) },
  anthropic: {
    text: [
      { type: 'message_start', message: {} },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: 'hi' } },
    ]
      .map(event)
      .join(''),
    finish: event({ type: 'message_delta', delta: { stop_reason: 'end_turn' } } as { type: string }),
    life: event({ type: 'ping' }),
  },
  responses: {
    text: event({ type: 'response.output_text.delta', item_id: 'm', output_index: 0, delta: 'hi' } as { type: string }),
    finish: event({ type: 'response.completed', response: { status: 'completed' } } as { type: string }),
    life: event({ type: 'response.in_progress' }),
  },
}

describe.each(Object.keys(WIRE) as Name[])('a provider of %s', protocol => {
  const { text, finish, life } = WIRE[protocol]
  const living = (socket: Socket) => {
    const timer = setInterval(() => socket.write(life), 5)
    socket.on('close', () => clearInterval(timer))
  }

  it('that only says that it is still there is a TIMEOUT in the end', async () => {
    const say = (socket: Socket) => {
      socket.write(EVENTS + text)
      living(socket)
    }
    const { text: said, failure } = await answer(await provider(protocol, say, { firstEventMs: 60, idleMs: 1_000 }))
    expect(said).toBe('hi')
    expect(failure).toEqual({
      code: 'TIMEOUT',
      message: 'test has sent nothing for 180 ms but signs that it is still there',
    })
  })

  it('that has finished and still says that it is there has answered', async () => {
    const say = (socket: Socket) => {
      socket.write(EVENTS + text + finish)
      living(socket)
    }
    const got = await answer(await provider(protocol, say, { idleMs: 60 }))
    expect([got.text, got.reason]).toEqual(['hi', 'stop'])
  })

  it('that thinks for long, and says that it is there meanwhile, is waited for', async () => {
    const say = (socket: Socket) => {
      socket.write(EVENTS)
      let left = 60
      const timer = setInterval(() => {
        if (left--) return socket.write(life)
        clearInterval(timer)
        return socket.end(text + finish)
      }, 5)
    }
    const got = await answer(await provider(protocol, say, { firstEventMs: 500, idleMs: 200 }))
    expect([got.text, got.reason]).toEqual(['hi', 'stop'])
  })
})

describe('a server', () => {
  const good = delta({ content: 'hi' }) + delta({}, 'stop')
  const OK = 'HTTP/1.1 200 OK\r\nconnection: close\r\n'
  const reply =
    (head: string, body: string | Buffer = '') =>
    async (config?: object) => {
      const say = (socket: Socket) => {
        socket.write(`${head}\r\n`)
        socket.end(body)
      }
      return answer(await provider('openai', say, config))
    }

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('that compresses unasked is understood: %s', async (coding, compress) => {
    const head = `${OK}content-encoding: ${coding}\r\n`
    expect((await reply(head, compress(good))()).text).toBe('hi')
    const refused = await reply(head.replace('200 OK', '400 Bad'), compress('{"error":{"message":"no such thing"}}'))()
    expect(refused.failure?.message).toBe('test refused the request (400): no such thing')
    const cut = await reply(head, compress(good).subarray(0, -12))()
    expect(['TRANSPORT', 'STREAM_CLOSED']).toContain(cut.failure?.code)
  })

  it('that encodes in a way that nobody reads is named', async () => {
    const { failure } = await reply(`${OK}content-encoding: exotic\r\n`, good)()
    expect(failure).toMatchObject({ code: 'TRANSPORT', message: /its body is encoded as "exotic"/ })
  })

  it('that sends us on is not followed, and the person told where it points', async () => {
    const { failure } = await reply(
      'HTTP/1.1 307 Go\r\nconnection: close\r\nlocation: https://me:pw@other.example/v1/x?token=abc\r\n',
    )()
    expect(failure?.code).toBe('INVALID_REQUEST')
    expect(failure?.message).toBe('test sends its callers on to https://***@other.example/v1/x?token=*** (307)')
    expect(failure?.fix).toMatch(/^correct the base address http:.*; nothing was sent to the other one$/)
  })

  it('that sends events without data, or space around its end mark, is understood', async () => {
    const body = `data:\n\nevent: ping\ndata: \n\n${good}data: [DONE] \n\n`
    expect(await reply(OK, body)()).toMatchObject({ text: 'hi', reason: 'stop' })
  })

  it('that does not stream may answer at length', async () => {
    const content = 'word '.repeat(100_000)
    const body = JSON.stringify({ choices: [{ index: 0, message: { content }, finish_reason: 'stop' }] })
    expect((await reply(OK, body)()).text).toHaveLength(content.length)
  })

  it('cannot write on the terminal of who reads its refusal, nor make up an id of any length', async () => {
    const error = { message: '\x1b]0;mine\x07\x1b[31m\u009b2Jred \u202egnp', code: 400 }
    const body = JSON.stringify({ error, request_id: '\x1b[2J'.repeat(100) })
    const { failure } = await reply('HTTP/1.1 400 Bad\r\nconnection: close\r\n', body)()
    expect(failure?.message).toBe('test refused the request (400): ]0;mine [31m 2Jred gnp')
    expect(failure).not.toHaveProperty('requestId')
  })

  const MONTH = 31 * 24 * 3_600_000
  it.each([
    ['retry-after: 1e309', undefined],
    ['retry-after: -5', undefined],
    ['retry-after: 3, 4', undefined],
    ['retry-after: 99999999999999999999', MONTH],
    ['retry-after: Fri, 31 Dec 9999 23:59:59 GMT', MONTH],
    ['retry-after: Wed, 21 Oct 2015 07:28:00 GMT', 0],
    ['retry-after-ms: \r\nretry-after: 7', 7_000],
    ['retry-after-ms: Infinity\r\nretry-after: 7', 7_000],
  ])('that asks for an odd wait: %s', async (header, expected) => {
    const { failure } = await reply(`HTTP/1.1 429 No\r\nconnection: close\r\n${header}\r\n`)()
    expect(failure?.code).toBe('RATE_LIMIT')
    expect(failure?.retryAfterMs).toBe(expected)
  })

  it('that closes a kept connection under the next request is asked again on a new one', async () => {
    const body = `${Buffer.byteLength(good).toString(16)}\r\n${good}\r\n0\r\n\r\n`
    const asked = new Map<Socket, number>()
    const root = await provider('openai', socket => {
      asked.set(socket, (asked.get(socket) ?? 0) + 1)
      if (asked.get(socket)! > 1) socket.resetAndDestroy()
      else socket.write(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`)
    })
    for (let n = 0; n < 3; n++) expect((await answer(root)).text).toBe('hi')
    expect([...asked.values()]).toEqual([2, 2, 1])
  })

  it('whose list of models stands still is a TIMEOUT, and a cancelled one ABORTED', async () => {
    let asked = () => {}
    const came = new Promise<void>(resolve => {
      asked = resolve
    })
    const root = await provider('openai', () => {}, { connectMs: 300 })
    server!.on('connection', socket => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{"da')
        asked()
      })
    })
    const controller = new AbortController()
    const cancelled = root.llm.discover('test', controller.signal)
    const late = root.llm.discover('test', new AbortController().signal)
    await came
    controller.abort()
    await expect(cancelled).rejects.toMatchObject({ failure: { code: 'ABORTED' } })
    const failure = { code: 'TIMEOUT', message: 'test gave no answer in time' }
    await expect(late).rejects.toMatchObject({ failure })
  })

  it('may be asked many times at once under one signal, without a warning of Node', async () => {
    const warnings: Error[] = []
    const hear = (warning: Error) => void warnings.push(warning)
    process.on('warning', hear)
    const root = await provider('openai', socket => socket.end(`${OK}\r\n${good}`))
    const { signal } = new AbortController()
    await Promise.all(Array.from({ length: 12 }, () => answer(root, { signal })))
    await new Promise(setImmediate)
    process.off('warning', hear)
    expect(warnings).toEqual([])
  })
})
