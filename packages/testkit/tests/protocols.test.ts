import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type ModelServer, type Reply, type ReplyScript, replyBytes, startModelServer } from '@cambium/testkit'
import { afterEach, describe, expect, it } from 'vitest'
import {
  ask,
  askMessages,
  askResponses,
  callParts,
  chunksOf,
  hello,
  helloMessages,
  helloResponses,
  type NamedEvent,
  namedEvents,
} from './http-client.ts'

const open: ModelServer[] = []
async function serve(...replies: ReplyScript[]) {
  const server = await startModelServer({ replies })
  open.push(server)
  return server
}
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const script: Reply = {
  reasoning: 'Both files.',
  text: '台 and 😀',
  toolCalls: [
    { name: 'read', arguments: { path: '台.txt' }, sizes: [1, 5] },
    { id: 'mine', name: 'ls' },
  ],
  pieceChars: 3,
  usage: { input: 100, output: 30, cached: 40, written: 10, reasoning: 5 },
}

const kinds = (events: readonly NamedEvent[]) => events.map(({ data }) => data.type)
const joined = (events: readonly NamedEvent[], key: string) =>
  events.map(({ data }) => ((data['delta'] as Record<string, string>)?.[key] ?? '') as string).join('')

describe('a reply over Messages', () => {
  it('comes as blocks, one after the other, thinking signed, usage at both ends', async () => {
    const server = await serve(script)
    const events = namedEvents((await askMessages(server.url, helloMessages())).body)
    expect(events.every(({ event, data }) => event === data.type)).toBe(true)
    expect(kinds(events).filter(kind => kind !== 'content_block_delta')).toEqual([
      ...['message_start', 'ping'],
      ...Array(4).fill(['content_block_start', 'content_block_stop']).flat(),
      ...['message_delta', 'message_stop'],
    ])
    expect(joined(events, 'thinking')).toBe('Both files.')
    expect(joined(events, 'text')).toBe('台 and 😀')
    expect(joined(events, 'partial_json')).toBe('{"path":"台.txt"}{}')
    expect(joined(events, 'signature')).toMatch(/^[A-Za-z0-9+/]{40,}=*$/)
    const starts = events.flatMap(({ data }) => (data['content_block'] ? [data['content_block']] : []))
    expect(starts.slice(2)).toEqual([
      { type: 'tool_use', id: 'toolu_1', name: 'read', input: {} },
      { type: 'tool_use', id: 'mine', name: 'ls', input: {} },
    ])
    const counts = { input_tokens: 50, cache_creation_input_tokens: 10, cache_read_input_tokens: 40 }
    expect(events[0]!.data).toMatchObject({ message: { usage: { ...counts, output_tokens: 1 } } })
    expect(events.at(-2)!.data).toMatchObject({
      delta: { stop_reason: 'tool_use' },
      usage: { ...counts, output_tokens: 30 },
    })
  })

  it('comes whole to a request that does not stream', async () => {
    const server = await serve(script)
    const { body } = await askMessages(server.url, helloMessages({ stream: false }))
    expect(JSON.parse(body)).toMatchObject({
      type: 'message',
      content: [
        { type: 'thinking', thinking: 'Both files.' },
        { type: 'text', text: '台 and 😀' },
        { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: '台.txt' } },
        { type: 'tool_use', id: 'mine', input: {} },
      ],
      stop_reason: 'tool_use',
      usage: { output_tokens: 30 },
    })
  })

  it('knows hidden thinking, thinking that is not shown, refusals and the output limit', async () => {
    const server = await serve(
      { reasoning: 'secret', redacted: true, text: 'a' },
      { reasoning: '', text: 'a' },
      { refusal: 'I will not.' },
      { text: 'abcd', fault: 'length' },
      { text: 'a', finish: 'stop', usageIn: 'finish-chunk', usage: { input: 9, output: 1 } },
    )
    const next = async () => namedEvents((await askMessages(server.url, helloMessages())).body)
    const hidden = await next()
    expect(hidden[2]!.data['content_block']).toMatchObject({ type: 'redacted_thinking', data: expect.any(String) })
    expect(JSON.stringify(hidden)).not.toContain('secret')
    const unshown = await next()
    expect(kinds(unshown).slice(2, 5)).toEqual(['content_block_start', 'content_block_delta', 'content_block_stop'])
    expect(unshown[3]!.data['delta']).toMatchObject({ type: 'signature_delta' })
    expect((await next()).at(-2)!.data).toMatchObject({ delta: { stop_reason: 'refusal' } })
    const cut = await next()
    expect(joined(cut, 'text')).toBe('ab')
    expect(cut.at(-2)!.data).toMatchObject({ delta: { stop_reason: 'max_tokens' } })
    const late = await next()
    expect(late[0]!.data).toMatchObject({ message: { usage: { input_tokens: 0 } } })
    expect(late.at(-2)!.data).toMatchObject({ delta: { stop_reason: 'end_turn' }, usage: { input_tokens: 9 } })
  })

  it('fails in its own words, before and inside the answer', async () => {
    const server = await serve(
      { fault: '529' },
      { fault: '401' },
      { fault: 'overflow' },
      { fault: 'unknown-model' },
      { text: 'abc', pieceChars: 1, fault: 'error-chunk', after: 2, type: 'api_error', message: 'broke' },
    )
    const next = async () => {
      const { status, body } = await askMessages(server.url, helloMessages())
      return [status, JSON.parse(body)]
    }
    const error = (type: string, message: unknown) => ({ type: 'error', error: { type, message } })
    expect(await next()).toMatchObject([529, error('overloaded_error', 'Overloaded')])
    expect(await next()).toMatchObject([401, error('authentication_error', expect.any(String))])
    expect(await next()).toMatchObject([
      400,
      error('invalid_request_error', expect.stringMatching(/^prompt is too long/)),
    ])
    expect(await next()).toMatchObject([404, error('not_found_error', 'model: claude-sonnet-4-5')])
    const broken = namedEvents((await askMessages(server.url, helloMessages())).body)
    expect(joined(broken, 'text')).toBe('ab')
    expect(broken.at(-1)).toEqual({ event: 'error', data: error('api_error', 'broke') })
  })
})

describe('a reply over Responses', () => {
  it('comes as items, each added and done, and once more in the response that ends it', async () => {
    const server = await serve(script)
    const events = namedEvents((await askResponses(server.url, helloResponses())).body)
    expect(events.map(({ data }) => data['sequence_number'])).toEqual(events.map((_, at) => at))
    expect(events.every(({ event, data }) => event === data.type)).toBe(true)
    expect([...new Set(kinds(events).map(kind => kind.replace('response.', '')))]).toEqual([
      ...['created', 'in_progress', 'output_item.added', 'reasoning_summary_part.added'],
      ...['reasoning_summary_text.delta', 'reasoning_summary_text.done', 'reasoning_summary_part.done'],
      ...['output_item.done', 'content_part.added', 'output_text.delta', 'output_text.done', 'content_part.done'],
      ...['function_call_arguments.delta', 'function_call_arguments.done', 'completed'],
    ])
    const done = events.flatMap(({ data }) => (data.type === 'response.output_item.done' ? [data['item']] : []))
    const { response } = events.at(-1)!.data as unknown as { response: Record<string, unknown> }
    expect(response['output']).toEqual(done)
    expect(done).toMatchObject([
      { type: 'reasoning', summary: [{ text: 'Both files.' }], encrypted_content: expect.any(String) },
      { type: 'message', content: [{ type: 'output_text', text: '台 and 😀' }] },
      { type: 'function_call', call_id: 'call_1', name: 'read', arguments: '{"path":"台.txt"}' },
      { type: 'function_call', call_id: 'mine', name: 'ls', arguments: '{}' },
    ])
    expect(response['usage']).toEqual({
      input_tokens: 100,
      input_tokens_details: { cached_tokens: 40 },
      output_tokens: 30,
      output_tokens_details: { reasoning_tokens: 5 },
      total_tokens: 130,
    })
  })

  it('shows encrypted content only to a request that asks for it', async () => {
    const server = await serve({ reasoning: 'r', text: 'a' })
    const { body } = await askResponses(server.url, helloResponses({ include: [] }))
    expect(body).not.toContain('encrypted_content')
  })

  it('knows refusals, the output limit and failure', async () => {
    const server = await serve(
      { refusal: 'I will not.' },
      { toolCalls: [{ name: 'w', arguments: '{"a":"long"}' }], fault: 'length' },
      { text: 'a', finish: 'content_filter' },
      { text: 'a', fault: 'failed', after: 1, code: 'insufficient_quota', message: 'no more' },
      { text: 'a', fault: 'error-chunk', message: 'overloaded' },
    )
    const next = async () => namedEvents((await askResponses(server.url, helloResponses())).body)
    const refused = await next()
    expect(kinds(refused)).toContain('response.refusal.delta')
    expect(refused.at(-1)!.data).toMatchObject({
      response: { status: 'completed', output: [{ content: [{ type: 'refusal', refusal: 'I will not.' }] }] },
    })
    expect((await next()).at(-1)!.data).toMatchObject({
      type: 'response.incomplete',
      response: {
        incomplete_details: { reason: 'max_output_tokens' },
        output: [{ status: 'incomplete', arguments: '{"a":"' }],
      },
    })
    expect((await next()).at(-1)!.data).toMatchObject({
      response: { incomplete_details: { reason: 'content_filter' } },
    })
    const failed = await next()
    expect(kinds(failed).slice(-2)).toEqual(['error', 'response.failed'])
    expect(failed.at(-1)!.data).toMatchObject({
      response: { status: 'failed', error: { code: 'insufficient_quota', message: 'no more' } },
    })
    expect((await next()).at(-1)!.data).toMatchObject({
      type: 'error',
      code: 'overloaded_error',
      message: 'overloaded',
    })
  })
})

describe('in every protocol', () => {
  const asks = {
    chat: (url: string, headers = {}) => ask(url, hello(), headers),
    messages: (url: string, headers = {}) => askMessages(url, helloMessages(), headers),
    responses: (url: string, headers = {}) => askResponses(url, helloResponses(), headers),
  }
  const protocols = Object.keys(asks) as (keyof typeof asks)[]
  const texts = (protocol: keyof typeof asks, body: string) =>
    protocol === 'chat'
      ? chunksOf(body).flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.content || []))
      : namedEvents(body).flatMap(({ data }) => {
          const delta = data['delta'] as { text?: string } | string | undefined
          return (typeof delta === 'object' ? delta.text : delta) ?? []
        })

  it.each(protocols)('a request of %s is known by its protocol and checked for the key', async protocol => {
    const server = await startModelServer({ apiKey: 'right', otherwise: 'ok' })
    open.push(server)
    expect((await asks[protocol](server.url, { authorization: 'Bearer wrong' })).status).toBe(401)
    expect((await asks[protocol](server.url, { authorization: 'Bearer right' })).status).toBe(200)
    expect((await asks[protocol](server.url, { 'x-api-key': 'right' })).status).toBe(200)
    expect(server.requests.map(request => request.protocol)).toEqual([protocol, protocol, protocol])
    server.expectDone()
  })

  it.each(protocols)('a fault of %s comes after the same deltas', async protocol => {
    for (const after of [0, 1, 3]) {
      const server = await serve({ text: 'abcdef', pieceChars: 1, fault: 'truncate', after })
      expect(texts(protocol, (await asks[protocol](server.url)).body)).toEqual([...'abcdef'].slice(0, after))
    }
    const server = await serve({ text: 'abc', pieceChars: 1, fault: 'malformed' }, { text: 'abc', fault: 'reset' })
    const { body } = await asks[protocol](server.url)
    expect(() => texts(protocol, body)).toThrow(SyntaxError)
    expect((await asks[protocol](server.url)).broken).toBe('ECONNRESET')
  })

  it.each(protocols)('bytes of %s may come one at a time with CRLF', async protocol => {
    const server = await serve({ ...script, split: 1, eol: '\r\n' }, { ...script })
    const split = await asks[protocol](server.url)
    expect(split.reads.every(read => read.length === 1)).toBe(true)
    expect(texts(protocol, split.body).join('')).toContain('台 and 😀')
  })

  it.each(protocols)('fragments of parallel calls of %s take turns when asked', async protocol => {
    const part = { name: 'read', arguments: '{"a":1}', sizes: [4] }
    const bytes = replyBytes({ toolCalls: [part, part], interleave: true }, {}, protocol).toString()
    const order =
      protocol === 'chat'
        ? callParts(bytes).map(({ index }) => index)
        : namedEvents(bytes).flatMap(({ data }) => {
            const begins = 'content_block' in data || data.type === 'response.output_item.added'
            return begins || data['delta'] ? ((data['index'] ?? data['output_index'] ?? []) as number) : []
          })
    expect(order).toEqual([0, 1, 0, 1, 0, 1])
  })
})

it('events look as those of recorded providers do', ctx => {
  const folder = fileURLToPath(new URL('../../../../shared/wild/sse/', import.meta.url))
  if (!existsSync(folder)) return ctx.skip('there are no recorded streams beside this checkout')
  const shapes = (body: string) => {
    const keys = new Map<string, Set<string>>()
    for (const { data } of namedEvents(body)) {
      const inner = data['delta'] ?? data['content_block'] ?? data['item'] ?? data['part']
      const type = `${data.type} ${(inner as { type?: string })?.type ?? ''}`
      keys.set(type, new Set([...(keys.get(type) ?? []), ...Object.keys(data), ...Object.keys(Object(inner))]))
    }
    return keys
  }
  const cases = [
    ['messages', ['anthropic-thinking', 'anthropic-tooluse']],
    ['responses', ['responses-reasoning-toolcall']],
  ] as const
  for (const [protocol, files] of cases) {
    const ours = shapes(replyBytes({ ...script, pieceChars: 100 }, {}, protocol).toString())
    const theirs = shapes(files.map(file => readFileSync(`${folder}${file}.sse`, 'utf8')).join('\n'))
    for (const [type, keys] of theirs) {
      const mine = [...(ours.get(type) ?? [])]
      expect(mine.length, `${protocol}: ${type}`).toBeGreaterThan(0)
      for (const key of mine) if (!/^\d+$/.test(key)) expect(keys, `${protocol}: ${type}`).toContain(key)
    }
  }
})
