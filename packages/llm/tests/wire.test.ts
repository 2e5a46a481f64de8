/** What servers and what stands before them really send, and how long they may: for every protocol the same. */

import type { AddressInfo } from 'node:net'
import { createServer, type Server, type Socket } from 'node:net'
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
