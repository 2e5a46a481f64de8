import { existsSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createToolResultMessage, type Message, newMessageId, type ToolCallBlock } from '@cambium/llm'
import {
  type ModelServer,
  type ModelServerOptions,
  type ReplyScript,
  replyBytes,
  startModelServer,
} from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import { readEvents } from '../src/web/sse.ts'
import { answer, ask, connected, type ProviderSettings, user } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

async function serve(
  replies: readonly ReplyScript[],
  options: ModelServerOptions = {},
  settings: ProviderSettings = {},
) {
  server = await startModelServer({ replies, ...options })
  return connected(server.url, settings)
}

const sse = (...chunks: unknown[]) =>
  `${chunks.map(chunk => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`
const delta = (delta: object, finish: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: finish }],
})
const call = (fragment: object) => delta({ tool_calls: [fragment] })

describe('an answer', () => {
  it('is text, reasoning, calls, usage and a reason, each once', async () => {
    const root = await serve([
      {
        reasoning: 'I had better look.',
        text: 'I look.',
        toolCalls: [
          { name: 'read', arguments: { path: 'a' } },
          { name: 'read', arguments: { path: 'b' } },
        ],
        usage: { input: 100, output: 20, cached: 60, reasoning: 5 },
      },
    ])
    const got = await answer(root, { tools: [{ name: 'read', description: 'Reads', parameters: { type: 'object' } }] })
    expect(got.blocks.map(block => block.type)).toEqual(['reasoning', 'text', 'tool-call', 'tool-call'])
    expect(got.reasoning).toBe('I had better look.')
    expect(got.text).toBe('I look.')
    expect(got.calls.map(({ arguments: text }) => text)).toEqual(['{"path":"a"}', '{"path":"b"}'])
    expect(got.usage).toEqual({
      inputTokens: 40,
      outputTokens: 20,
      cacheReadTokens: 60,
      cacheWriteTokens: 0,
      reasoningTokens: 5,
    })
    expect(got.reason).toBe('tool-calls')
    server.expectDone()
  })

  it('joins the deltas that one network read brought', async () => {
    const root = await serve([{ text: 'word ', repeat: 2000, gatherBytes: 1 << 20 }])
    const got = await answer(root)
    expect(got.text).toBe('word '.repeat(2000))
    expect(got.chunks.filter(chunk => chunk.type === 'text-delta').length).toBeLessThan(200)
  })

  it('is the same whole where the server does not stream', async () => {
    const body = {
      choices: [{ message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 1 },
    }
    const root = await serve([{ raw: JSON.stringify(body), headers: { 'content-type': 'application/json' } }])
    const got = await answer(root)
    expect([got.text, got.reason, got.usage?.inputTokens]).toEqual(['whole', 'stop', 3])
  })

  it.each(['reasoning_content', 'reasoning'] as const)('reads reasoning from %s', async reasoningField => {
    const root = await serve([{ reasoning: 'because', text: 'so', reasoningField }])
    expect((await answer(root)).reasoning).toBe('because')
  })

  it('opens no block for empty deltas, and knows content in parts', async () => {
    const root = await serve([
      {
        raw: sse(
          delta({ content: '', reasoning_content: '' }),
          delta({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
          delta({ content: [{ type: 'text', text: 'yes' }] }),
          delta({}, 'stop'),
        ),
      },
    ])
    const got = await answer(root)
    expect(got.blocks).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'yes' },
    ])
  })

  it('counts reasoning beside the answer into the answer, as the total tells', async () => {
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 2,
      total_tokens: 20,
      completion_tokens_details: { reasoning_tokens: 8 },
    }
    const root = await serve([{ raw: sse(delta({ content: 'x' }, 'stop'), { choices: [], usage }) }])
    const got = await answer(root)
    expect(got.usage).toMatchObject({ inputTokens: 10, outputTokens: 10, reasoningTokens: 8 })
  })

  it('ends well without [DONE], with CRLF, with comments, and with empty choices around it', async () => {
    const root = await serve([
      { text: 'a', done: false },
      { text: 'b', eol: '\r\n' },
      { text: 'c', commentsMs: 1, delayMs: 5 },
      { text: 'd', fault: 'empty-choices' },
    ])
    for (const text of ['a', 'b', 'c', 'd']) expect(await answer(root)).toMatchObject({ text, reason: 'stop' })
  })

  it.each([
    ['content_filter', 'refusal'],
    ['length', 'max-tokens'],
    ['function_call', 'stop'],
    ['some_new_reason', 'stop'],
  ])('that finishes with %s finishes with %s', async (finish, reason) => {
    const root = await serve([{ text: 'said', finish }])
    expect((await answer(root)).reason).toBe(reason)
  })
})

describe('tool calls in fragments', () => {
  it('keep their own fragments: known ids, new ids on a used index, fragments without an id', async () => {
    const root = await serve([
      {
        raw: sse(
          call({ index: 0, id: 'a', function: { name: 'read', arguments: '{"path":' } }),
          call({ index: 0, function: { arguments: '"x"}' } }),
          call({ index: 0, id: 'b', function: { name: 'read', arguments: '' } }),
          call({ index: 1, function: { arguments: '{"path":"y"}' } }),
          delta({}, 'tool_calls'),
        ),
      },
    ])
    expect((await answer(root)).calls).toEqual([
      { id: 'a', name: 'read', arguments: '{"path":"x"}' },
      { id: 'b', name: 'read', arguments: '{"path":"y"}' },
    ])
  })

  it('are told apart while they take turns', async () => {
    const toolCalls = ['one', 'two', 'three'].map(name => ({ name, arguments: { text: name.repeat(20) }, sizes: [7] }))
    const root = await serve([{ toolCalls, interleave: true }])
    const { calls } = await answer(root)
    expect(calls.map(({ name, arguments: text }) => [name, JSON.parse(text).text])).toEqual([
      ['one', 'one'.repeat(20)],
      ['two', 'two'.repeat(20)],
      ['three', 'three'.repeat(20)],
    ])
  })

  it('may repeat id and name with each fragment, or give an empty name', async () => {
    const root = await serve([
      {
        raw: sse(
          call({ index: 0, id: 'a', function: { name: 'read', arguments: '{"p":' } }),
          call({ index: 0, id: 'a', function: { name: 'read', arguments: '1}' } }),
          call({ index: 1, id: 'b', function: { name: 'read', arguments: '' } }),
          call({ index: 1, function: { name: '', arguments: '{"p":2}' } }),
          call({ index: 1, id: 'b', function: { name: 'read', arguments: '' } }),
          delta({}, 'tool_calls'),
        ),
      },
    ])
    expect((await answer(root)).calls.map(({ arguments: text }) => text)).toEqual(['{"p":1}', '{"p":2}'])
  })

  it('without any id are calls of their own, also when all have the same index', async () => {
    const whole = (name: string, at: number) => call({ index: 0, id: '', function: { name, arguments: `{"n":${at}}` } })
    const root = await serve([{ raw: sse(whole('read', 1), whole('read', 2), whole('write', 3), delta({}, 'stop')) }])
    const got = await answer(root)
    expect(got.calls.map(({ name, arguments: text }) => name + text)).toEqual([
      'read{"n":1}',
      'read{"n":2}',
      'write{"n":3}',
    ])
    expect(new Set(got.calls.map(({ id }) => id)).size).toBe(3)
    expect(got.reason).toBe('tool-calls')
  })

  it('never run with glued arguments: what cannot be told apart is no JSON', async () => {
    const root = await serve([
      {
        raw: sse(
          call({ id: 'a', function: { name: 'read', arguments: '' } }),
          call({ id: 'b', function: { name: 'write', arguments: '' } }),
          call({ function: { arguments: '{"path":' } }),
          call({ function: { arguments: '{"path":' } }),
          call({ function: { arguments: '"x"}' } }),
          call({ function: { arguments: '"y"}' } }),
          delta({}, 'tool_calls'),
        ),
      },
    ])
    const { calls } = await answer(root)
    expect(calls).toHaveLength(2)
    for (const { arguments: text } of calls) {
      expect(() => JSON.parse(text)).toThrow()
      expect(text).toMatch(/^\(garbled: its arguments came mixed up/)
    }
  })

  it('that begin inside the arguments of another one fail that one alone', async () => {
    const root = await serve([
      {
        raw: sse(
          call({ index: 0, function: { name: 'read', arguments: '{"path":' } }),
          call({ index: 0, function: { name: 'list', arguments: '{"path":"y"}' } }),
          delta({}, 'tool_calls'),
        ),
      },
    ])
    const { calls } = await answer(root)
    expect(calls[0]).toMatchObject({ name: 'read', arguments: expect.stringMatching(/^\(garbled/) })
    expect(calls[1]).toMatchObject({ name: 'list', arguments: '{"path":"y"}' })
  })

  it.each(['', '  '])('with the arguments %j keep them blank, and go back as {}', async text => {
    const root = await serve([{ toolCalls: [{ name: 'list', arguments: text }] }, 'done'])
    const first = await answer(root)
    expect(first.calls[0]?.arguments).toBe(text)
    await answer(root, { messages: [user('go'), ...turn(first.blocks as ToolCallBlock[])] })
    expect(server.requests[1]?.body.messages[1]?.tool_calls?.[0]?.function.arguments).toBe('{}')
  })

  it('get ids that the session has not had, whatever the provider repeats', async () => {
    const twice = {
      toolCalls: [
        { name: 'grep', id: 'grep:3', arguments: { q: 1 } },
        { name: 'grep', id: 'grep:3', arguments: { q: 2 } },
      ],
    }
    const root = await serve([twice, { toolCalls: [{ name: 'grep', id: 'grep:3', arguments: { q: 3 } }] }, 'done'])
    const first = await answer(root)
    expect(first.calls.map(({ id }) => id)).toEqual(['grep:3', 'grep:3-2'])
    const messages = [user('go'), ...turn(first.blocks as ToolCallBlock[])]
    const second = await answer(root, { messages, takenCallIds: new Set(['grep:3-3']) })
    expect(second.calls.map(({ id }) => id)).toEqual(['grep:3-4'])
    await answer(root, { messages: [...messages, ...turn(second.blocks as ToolCallBlock[])] })
    server.expectDone()
  })

  it('may be very many, of one call or of many, and are put together as fast as they come', async () => {
    const count = 40_000
    const text = JSON.stringify({ text: 'eight ch'.repeat(count) })
    const pieces = Array.from({ length: count }, (_, i) => text.slice(i * 8, i === count - 1 ? undefined : i * 8 + 8))
    const whole = (id: string, index: number) => ({ index, id, function: { name: 'note', arguments: '{}' } })
    const root = await serve([
      { raw: sse(...pieces.map(piece => call({ index: 0, id: 'a', function: { name: 'note', arguments: piece } }))) },
      { raw: sse(...Array.from({ length: 20_000 }, (_, index) => call(whole('same', index)))) },
      { raw: sse(...Array.from({ length: 20_000 }, (_, index) => call(whole(`own${index}`, index)))) },
    ])
    const one = await answer(root)
    expect(one.calls.map(({ arguments: text }) => text.length)).toEqual([text.length])
    expect(one.calls[0]?.arguments).toBe(text)
    for (let i = 0; i < 2; i++) {
      const { calls } = await answer(root)
      expect(new Set(calls.map(({ id }) => id)).size).toBe(20_000)
    }
  })

  it('that the output limit cut are left out, also where the cut text happens to parse', async () => {
    const root = await serve([
      {
        toolCalls: [
          { name: 'read', arguments: { path: 'a' } },
          { name: 'write', arguments: { content: 'long' } },
        ],
        fault: 'length',
      },
      {
        raw: sse(
          call({ index: 0, id: 'a', function: { name: 'read', arguments: '{"path":"a"}' } }),
          call({ index: 1, id: 'b', function: { name: 'write', arguments: '{}' } }),
          delta({}, 'length'),
        ),
      },
      { toolCalls: [{ name: 'write', arguments: { content: 'long' } }], fault: 'length' },
    ])
    for (const calls of [['read'], ['read'], []]) {
      const got = await answer(root)
      expect(got.reason).toBe('max-tokens')
      expect(got.calls.map(({ name }) => name)).toEqual(calls)
      expect(got.cut.map(({ name }) => name)).toEqual(['write'])
    }
  })
})

/** The messages that an answer with calls, and a result of each, leave behind. */
function turn(blocks: readonly ToolCallBlock[], provider = 'test'): Message[] {
  return [
    {
      id: newMessageId(),
      role: 'assistant',
      content: blocks,
      source: { kind: 'model', provider, model: 'test-model' },
    },
    ...blocks
      .filter(block => block.type === 'tool-call')
      .map(({ id }) => createToolResultMessage({ callId: id, content: [{ type: 'text', text: 'ok' }] })),
  ]
}

describe('reasoning', () => {
  const history = (blocks: readonly unknown[]) => [user('go'), ...turn(blocks as ToolCallBlock[])]
  const made = { type: 'tool-call', id: 'c1', name: 'list', arguments: '{}' }

  it('goes back with its calls where the provider demands it, as an empty text where there was none', async () => {
    const root = await serve(
      [{ reasoning: 'R1', toolCalls: [{ name: 'list' }] }, 'a', 'b'],
      {},
      { reasoningKey: 'reasoning_content' },
    )
    const first = await answer(root)
    await answer(root, { messages: history(first.blocks) })
    await answer(root, { messages: history([made]) })
    expect(server.requests[1]?.body.messages[1]?.reasoning_content).toBe('R1')
    expect(server.requests[2]?.body.messages[1]?.reasoning_content).toBe('')
  })

  it('is not sent to a provider that has no key for it', async () => {
    const root = await serve(['a'])
    await answer(root, { messages: history([{ type: 'reasoning', text: 'R1' }, made]) })
    expect(server.requests[0]?.text).not.toContain('R1')
  })

  it('details and signatures go back verbatim to the provider that made them, to no other', async () => {
    const detail = (more: object) => ({ type: 'reasoning.text', index: 0, ...more })
    const extra = { google: { thought_signature: 'sig' } }
    const root = await serve([
      {
        raw: sse(
          delta({ reasoning: 'thi', reasoning_details: [detail({ text: 'thi' })] }),
          delta({ reasoning: 'nk', reasoning_details: [detail({ text: 'nk', signature: 's1' })] }),
          call({ index: 0, id: 'a', function: { name: 'list', arguments: '{}' }, extra_content: extra }),
          delta({}, 'tool_calls'),
        ),
      },
      'a',
      'b',
    ])
    const first = await answer(root)
    await answer(root, { messages: history(first.blocks) })
    await answer(root, { messages: [user('go'), ...turn(first.blocks as ToolCallBlock[], 'other')] })
    const own = server.requests[1]?.body.messages[1] as unknown as Record<string, unknown>
    expect(own['reasoning_details']).toEqual([detail({ text: 'think', signature: 's1' })])
    expect((own['tool_calls'] as object[])[0]).toMatchObject({ extra_content: extra })
    expect(server.requests[2]?.text).not.toMatch(/s1|sig/)
  })
})

describe('bytes', () => {
  it('give the same answer wherever they are split', async () => {
    const reply = {
      text: '台😀',
      toolCalls: [{ name: 'say', id: 'c', arguments: '{"t":"台😀"}' }],
      eol: '\r\n' as const,
      usage: false as const,
    }
    const bytes = replyBytes(reply, { model: 'test-model' })
    const offsets = Array.from({ length: bytes.length - 1 }, (_, at) => at + 1)
    const splits = [1, ...offsets.filter(at => at % 3 === 0 || bytes[at]! >= 0x80 || bytes[at] === 10).map(at => [at])]
    const root = await serve([{ raw: bytes, split: bytes.length }, ...splits.map(split => ({ raw: bytes, split }))])
    const whole = await answer(root)
    expect([whole.text, whole.calls[0]?.arguments]).toEqual(['台😀', '{"t":"台😀"}'])
    for (const _ of splits) expect((await answer(root)).blocks).toEqual(whole.blocks)
  })
})

describe('a stream of events', () => {
  it('is the same wherever its bytes are split', async () => {
    const bytes = Buffer.from(': hi\r\n\r\ndata: {"a":"台😀"}\r\n\r\nevent: x\ndata: 1\ndata: 2\n\ndata: [DONE]\n\n')
    const expected = [
      { data: '{"a":"台😀"}', event: undefined },
      { data: '1\n2', event: 'x' },
      { data: '[DONE]', event: undefined },
    ]
    const pieces = (cuts: readonly number[]) => [0, ...cuts].map((from, at) => bytes.subarray(from, cuts[at]))
    const all = Array.from({ length: bytes.length - 1 }, (_, at) => at + 1)
    for (const cuts of [all, ...all.map(at => [at])]) {
      // One piece a read: a socket joins what comes close together.
      const body = Readable.from(pieces(cuts), { objectMode: false, highWaterMark: 1 }) as unknown as IncomingMessage
      const events: unknown[] = []
      for await (const batch of readEvents(body, () => ({ firstMs: 1_000, idleMs: 1_000 }))) events.push(...batch)
      expect(events).toMatchObject(expected)
    }
  })
})

describe('a stream that goes wrong', () => {
  const cases: [string, ReplyScript, string, RegExp][] = [
    [
      'is reset',
      { text: 'hello there, this is long', pieceChars: 4, fault: 'reset' },
      'TRANSPORT',
      /connection to 127.0.0.1:\d+ was reset/,
    ],
    ['is reset before any header', { fault: 'reset', after: 'request' }, 'TRANSPORT', /was reset/],
    [
      'ends early',
      { text: 'hello there', pieceChars: 4, fault: 'truncate', after: 2 },
      'STREAM_CLOSED',
      /closed the stream before/,
    ],
    ['holds broken JSON', { text: 'hello', fault: 'malformed' }, 'MALFORMED_RESPONSE', /not JSON/],
    [
      'holds an error',
      { text: 'hello', fault: 'error-chunk', message: 'Overloaded', code: 'overloaded_error' },
      'SERVER',
      /Overloaded/,
    ],
    [
      'holds an error with a status',
      { raw: sse({ error: { code: 429, message: 'slow down' } }) },
      'RATE_LIMIT',
      /slow down/,
    ],
    [
      'holds an error event',
      { raw: 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n' },
      'SERVER',
      /Overloaded/,
    ],
    [
      'does not end',
      { text: 'endless '.repeat(2 ** 16), repeat: 64 },
      'MALFORMED_RESPONSE',
      /does not end: it is longer than 16777216 characters/,
    ],
    ['says nothing', { fault: 'empty' }, 'EMPTY_RESPONSE', /empty answer/],
    ['only thinks', { reasoning: 'hm' }, 'EMPTY_RESPONSE', /thought, but said nothing/],
    [
      'says that it broke',
      { text: 'hel', finish: 'insufficient_system_resource' },
      'SERVER',
      /insufficient_system_resource/,
    ],
    [
      'is a web page',
      { raw: '<html><title>Welcome</title></html>', headers: { 'content-type': 'text/html' } },
      'MALFORMED_RESPONSE',
      /no chat completion/,
    ],
    [
      'is an error without events',
      { raw: '{"error":{"message":"no","code":"rate_limit_exceeded"}}' },
      'RATE_LIMIT',
      /no/,
    ],
    [
      'is an error in a list',
      { raw: '[{"error":{"message":"not now","status":"RESOURCE_EXHAUSTED","code":429}}]' },
      'RATE_LIMIT',
      /not now/,
    ],
  ]
  it.each(cases)('because it %s', async (_what, reply, code, message) => {
    const root = await serve([reply])
    const { failure, reason } = await answer(root)
    expect([reason, failure?.code]).toEqual(['error', code])
    expect(failure?.message).toMatch(message)
  })

  it('shows what had come, and counts what it cost', async () => {
    const usage = { prompt_tokens: 7, completion_tokens: 1 }
    const root = await serve([
      { raw: `data: ${JSON.stringify({ ...delta({ content: 'part' }), usage })}\n\ndata: {"error":"broken"}\n\n` },
    ])
    const got = await answer(root)
    expect(got).toMatchObject({ text: 'part', reason: 'error', usage: { inputTokens: 7 } })
  })
})

describe('silence', () => {
  it('before the answer and within it has a bound of its own; comments do not count', async () => {
    server = await startModelServer({
      replies: [
        { text: 'hello there', pieceChars: 4, fault: 'stall', after: 2 },
        { text: 'hello there', pieceChars: 4, fault: 'stall', after: 2, commentsMs: 5 },
        { text: 'x', fault: 'stall', after: 'request' },
        { text: 'slow', delayMs: 120 },
      ],
    })
    const root = await connected(server.url, {}, { idleMs: 60 })
    for (const _ of [1, 2]) {
      const { failure, text } = await answer(root)
      expect([text, failure?.code, failure?.message]).toEqual([
        'hello th',
        'TIMEOUT',
        'test was silent for 60 ms in the middle of its answer',
      ])
    }
    await root.fiber.dispose()
    const hasty = await connected(server.url, {}, { idleMs: 60, firstEventMs: 80 })
    expect((await answer(hasty)).failure).toMatchObject({
      code: 'TIMEOUT',
      message: 'test gave no answer within 80 ms',
    })
  })

  it('before the answer may be longer than within it', async () => {
    const until = new Promise(resolve => setTimeout(resolve, 100))
    server = await startModelServer({ replies: [() => until.then(() => 'slow')] })
    const root = await connected(server.url, {}, { idleMs: 40 })
    expect(await answer(root)).toMatchObject({ text: 'slow', reason: 'stop' })
  })

  it('of the consumer does not count', async () => {
    const root = await serve([{ text: 'one two three', pieceChars: 4, delayMs: 2 }])
    await root.fiber.dispose()
    const hasty = await connected(server.url, {}, { idleMs: 150 })
    const stream = hasty.llm.stream(ask())[Symbol.asyncIterator]()
    await stream.next()
    await new Promise(resolve => setTimeout(resolve, 250))
    let last = await stream.next()
    for (let step = last; !step.done; step = await stream.next()) last = step
    expect(last.value).toMatchObject({ type: 'finish', reason: 'stop' })
  })
})

describe('cancelling', () => {
  it.each([
    ['before the headers', { fault: 'stall', after: 'request', text: 'x' }],
    ['before the first token', { fault: 'stall', after: 0, text: 'x' }],
    ['in the middle of reasoning', { fault: 'stall', after: 1, reasoning: 'long thoughts about it', pieceChars: 5 }],
  ] as [string, ReplyScript][])('%s acts at once and closes the connection', async (_when, reply) => {
    const root = await serve([reply])
    const controller = new AbortController()
    const pending = answer(root, { signal: controller.signal })
    const request = await server.request(0)
    await new Promise(resolve => setTimeout(resolve, 20))
    const asked = performance.now()
    controller.abort()
    expect(await pending).toMatchObject({ reason: 'aborted', failure: { code: 'ABORTED' } })
    expect(performance.now() - asked).toBeLessThan(500)
    expect(await request.ended).toBe('left')
  })

  it('beforehand sends nothing', async () => {
    const root = await serve([])
    expect((await answer(root, { signal: AbortSignal.abort() })).reason).toBe('aborted')
    expect(server.requests).toHaveLength(0)
  })

  it('by no longer reading closes the connection', async () => {
    const root = await serve([{ text: 'hello there', pieceChars: 2, fault: 'stall', after: 2 }])
    for await (const chunk of root.llm.stream(ask())) if (chunk.type === 'text-delta') break
    expect(await server.requests[0]?.ended).toBe('left')
  })
})

describe('a connection', () => {
  it('is used again for the next request', async () => {
    let connections = 0
    const plain = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(sse(delta({ content: 'x' }, 'stop')))
    }).on('connection', () => connections++)
    await new Promise<void>(resolve => plain.listen(0, '127.0.0.1', resolve))
    const root = await connected(`http://127.0.0.1:${(plain.address() as AddressInfo).port}/v1`)
    for (let at = 0; at < 5; at++) expect((await answer(root)).text).toBe('x')
    expect(connections).toBe(1)
    await root.fiber.dispose()
    // Resolves only if the plugin has let its connection go.
    await new Promise(resolve => plain.close(resolve))
  })

  it('is used again where the body ends after its last event', async () => {
    let connections = 0
    let ended: Promise<unknown> | undefined
    const plain = createServer((_request, response) => {
      ended = new Promise(resolve => response.once('close', resolve))
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(sse(delta({ content: 'x' }, 'stop')), () => setTimeout(() => response.end(), 5))
    }).on('connection', () => connections++)
    await new Promise<void>(resolve => plain.listen(0, '127.0.0.1', resolve))
    const root = await connected(`http://127.0.0.1:${(plain.address() as AddressInfo).port}/v1`)
    for (let at = 0; at < 5; at++) {
      expect((await answer(root)).text).toBe('x')
      await ended
    }
    expect(connections).toBeLessThan(4)
    await root.fiber.dispose()
    await new Promise(resolve => plain.close(resolve))
  })

  it('and all else of the plugin ends with it', async () => {
    const root = await serve([{ text: 'hello there', pieceChars: 2, fault: 'stall', after: 2 }])
    const pending = answer(root)
    const request = await server.request(0)
    await new Promise(resolve => setTimeout(resolve, 20))
    await root.fiber.dispose()
    expect((await pending).failure?.code).toBe('TRANSPORT')
    expect(await request.ended).toBe('left')
  })
})

// Streams that real providers sent, where they are at hand; the cases above have one of each kind that they show.
const WILD = new URL('../../../../shared/wild/sse/', import.meta.url)
const wild = existsSync(WILD)
if (!wild) console.warn('recorded streams are not at hand; their tests are skipped')

describe.skipIf(!wild)('a recorded stream', () => {
  const play = async (file: string, settings: ProviderSettings = {}) => {
    const raw = readFileSync(new URL(file, WILD))
    const root = await serve([{ raw }, { raw, split: 7 }], {}, settings)
    const got = await answer(root)
    expect((await answer(root)).blocks).toEqual(got.blocks)
    return got
  }

  it('of DeepSeek has reasoning, text and disjoint usage', async () => {
    const got = await play('deepseek-reasoning-text.sse')
    expect(got.blocks.map(({ type }) => type)).toEqual(['reasoning', 'text'])
    expect(got.reason).toBe('stop')
    expect(got.usage).toMatchObject({ inputTokens: 18, outputTokens: 219, reasoningTokens: 205 })
  })

  it('of DeepSeek has a call behind its reasoning', async () => {
    const got = await play('deepseek-reasoning-toolcall.sse')
    expect(got.blocks.map(({ type }) => type)).toEqual(['reasoning', 'tool-call'])
    expect(() => JSON.parse(got.calls[0]!.arguments)).not.toThrow()
    expect(got.usage).toMatchObject({ inputTokens: 19, cacheReadTokens: 320, outputTokens: 83 })
    expect(got.reason).toBe('tool-calls')
  })

  it('of Mistral has a call whose later fragments have an empty name', async () => {
    const got = await play('mistral-incremental-toolcall.sse')
    expect(got.calls).toMatchObject([{ name: 'webSearchTool', arguments: '{"query": "current Berlin weather"}' }])
    expect(got.usage).toMatchObject({ inputTokens: 43, cacheReadTokens: 128, outputTokens: 14 })
  })
})
