import { existsSync, readFileSync } from 'node:fs'
import type { JsonObject } from '@cambium/core'
import { type AssistantBlock, createToolResultMessage, type Message, newMessageId } from '@cambium/llm'
import * as responses from '@cambium/llm/responses'
import { type ModelServer, type ModelServerOptions, type ReplyScript, startModelServer } from '@cambium/testkit'
import * as fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { type Answer, answer, clearEnvironment, tree, user } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

type Settings = Partial<responses.ProviderConfig>

async function mounted(providers: Record<string, Settings>, config: Partial<responses.Config> = {}) {
  clearEnvironment()
  const root = await tree()
  await root.plugin(responses, { providers, ...config } as responses.Config)
  return root
}

/** A tree whose provider `test` is a strict server of this protocol with these answers. */
async function serve(replies: readonly ReplyScript[], options: ModelServerOptions = {}, settings: Settings = {}) {
  server = await startModelServer({ replies, ...options })
  return mounted({ test: { baseURL: server.url, ...settings } })
}

type Event = JsonObject & { type: string }
const sse = (...events: Event[]) =>
  events.map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
/** The same without the names of events, as several servers send them. */
const bare = (...events: Event[]) => events.map(event => `data: ${JSON.stringify(event)}\n\n`).join('')

const added = (output_index: number, item: JsonObject): Event => ({
  type: 'response.output_item.added',
  output_index,
  item,
})
const done = (output_index: number, item: JsonObject): Event => ({
  type: 'response.output_item.done',
  output_index,
  item,
})
const text = (delta: string, more: JsonObject = {}): Event => ({
  type: 'response.output_text.delta',
  output_index: 0,
  content_index: 0,
  item_id: 'msg_1',
  delta,
  ...more,
})
const message = (said: string, more: JsonObject = {}) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: said, annotations: [] }],
  ...more,
})
const call = (more: JsonObject = {}) => ({
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'read',
  arguments: '{"path":"a"}',
  status: 'completed',
  ...more,
})
const thought = (said: string, more: JsonObject = {}) => ({
  type: 'reasoning',
  id: 'rs_1',
  summary: said ? [{ type: 'summary_text', text: said }] : [],
  encrypted_content: 'sealed',
  ...more,
})
const args = (delta: string, more: JsonObject = {}): Event => ({
  type: 'response.function_call_arguments.delta',
  output_index: 0,
  item_id: 'fc_1',
  delta,
  ...more,
})
const completed = (output: JsonObject[] = [], more: JsonObject = {}): Event => ({
  type: 'response.completed',
  response: { id: 'resp_1', object: 'response', status: 'completed', error: null, output, ...more },
})
const incomplete = (reason: string, output: JsonObject[] = []): Event => ({
  type: 'response.incomplete',
  response: { status: 'incomplete', incomplete_details: { reason }, output },
})

const raw = (...events: Event[]) => ({ raw: sse(...events) })
const tools = [{ name: 'read', description: 'Reads', parameters: { type: 'object', properties: {} } }]

describe('an answer', () => {
  it('is reasoning, text, calls, usage and a reason, each once', async () => {
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
    const got = await answer(root, { model: 'gpt-5', tools })
    expect(got.blocks.map(block => block.type)).toEqual(['reasoning', 'text', 'tool-call', 'tool-call'])
    expect([got.reasoning, got.text]).toEqual(['I had better look.', 'I look.'])
    expect(got.calls.map(({ arguments: sent }) => sent)).toEqual(['{"path":"a"}', '{"path":"b"}'])
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

  const whole = [thought('hm'), message('said'), call()]
  const said: AssistantBlock[] = [
    {
      type: 'reasoning',
      text: 'hm',
      replay: {
        protocol: 'responses',
        item: { id: 'rs_1', summary: [{ type: 'summary_text', text: 'hm' }], encrypted_content: 'sealed' },
      },
    },
    { type: 'text', text: 'said' },
    { type: 'tool-call', id: 'call_1', name: 'read', arguments: '{"path":"a"}' },
  ]

  it.each([
    [
      'in events of every kind',
      [
        { type: 'response.created', response: { status: 'in_progress' } },
        added(0, { ...thought(''), encrypted_content: 'early' }),
        { type: 'response.reasoning_summary_part.added', item_id: 'rs_1', output_index: 0, summary_index: 0 },
        {
          type: 'response.reasoning_summary_text.delta',
          item_id: 'rs_1',
          output_index: 0,
          summary_index: 0,
          delta: 'h',
        },
        {
          type: 'response.reasoning_summary_text.delta',
          item_id: 'rs_1',
          output_index: 0,
          summary_index: 0,
          delta: 'm',
        },
        {
          type: 'response.reasoning_summary_text.done',
          item_id: 'rs_1',
          output_index: 0,
          summary_index: 0,
          text: 'hm',
        },
        done(0, thought('hm')),
        added(1, message('', { content: [], status: 'in_progress' })),
        {
          type: 'response.content_part.added',
          item_id: 'msg_1',
          output_index: 1,
          part: { type: 'output_text', text: '' },
        },
        text('sa', { output_index: 1 }),
        text('id', { output_index: 1 }),
        { type: 'response.output_text.done', item_id: 'msg_1', output_index: 1, content_index: 0, text: 'said' },
        { type: 'response.output_text.annotation.added', item_id: 'msg_1', output_index: 1 },
        done(1, message('said')),
        added(2, { type: 'web_search_call', id: 'ws_1', status: 'in_progress' }),
        { type: 'response.web_search_call.searching', item_id: 'ws_1', output_index: 2 },
        done(2, { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { query: 'x' } }),
        added(3, call({ arguments: '', status: 'in_progress' })),
        args('{"path"', { output_index: 3 }),
        args(':"a"}', { output_index: 3 }),
        { type: 'response.function_call_arguments.done', item_id: 'fc_1', output_index: 3, arguments: '{"path":"a"}' },
        done(3, call()),
        { type: 'keepalive' },
        completed([...whole, { type: 'web_search_call', id: 'ws_1' }]),
      ],
    ],
    ['in items that are only finished', [done(0, whole[0]!), done(1, whole[1]!), done(2, whole[2]!), completed()]],
    ['in its last event alone', [completed(whole)]],
    [
      'in deltas alone',
      [
        { type: 'response.reasoning_summary_text.delta', output_index: 0, summary_index: 0, delta: 'hm' },
        text('said', { output_index: 1 }),
        added(2, call({ arguments: '' })),
        args('{"path":"a"}', { output_index: 2 }),
        completed(whole),
      ],
    ],
    [
      'without places',
      [
        { type: 'response.output_item.added', item: thought('') },
        { type: 'response.reasoning_summary_text.delta', item_id: 'rs_1', delta: 'hm' },
        { type: 'response.output_item.done', item: thought('hm') },
        { type: 'response.output_item.added', item: message('', { content: [] }) },
        { type: 'response.output_text.delta', item_id: 'msg_1', delta: 'said' },
        { type: 'response.output_item.done', item: message('said') },
        { type: 'response.output_item.added', item: call({ arguments: '' }) },
        { type: 'response.function_call_arguments.delta', item_id: 'fc_1', delta: '{"path":"a"}' },
        { type: 'response.output_item.done', item: call() },
        completed(whole),
      ],
    ],
    [
      'with ids that change from event to event',
      [
        added(0, thought('', { id: 'a1' })),
        {
          type: 'response.reasoning_summary_text.delta',
          output_index: 0,
          item_id: 'a2',
          summary_index: 0,
          delta: 'hm',
        },
        done(0, thought('hm')),
        added(1, message('', { id: 'b1', content: [] })),
        text('said', { output_index: 1, item_id: 'b2' }),
        done(1, message('said', { id: 'b3' })),
        added(2, call({ id: 'c1', arguments: '' })),
        args('{"path":"a"}', { output_index: 2, item_id: 'c2' }),
        done(2, call({ id: 'c3' })),
        completed([thought('hm', { id: 'a4' }), message('said', { id: 'b4' }), call({ id: 'c4' })]),
      ],
    ],
    [
      'with one place for all items',
      [
        added(0, thought('')),
        done(0, thought('hm')),
        added(0, message('', { content: [] })),
        text('said'),
        done(0, message('said')),
        added(0, call()),
        args('{"path":"a"}'),
        done(0, call()),
        completed(whole),
      ],
    ],
  ] as [string, Event[]][])('is the same %s', async (_how, events) => {
    const root = await serve([{ raw: sse(...events) }, { raw: bare(...events) }], { strict: false })
    for (let n = 0; n < 2; n++) {
      const got = await answer(root)
      expect(got.failure).toBeUndefined()
      expect(got.blocks).toEqual(said)
      expect(shown(got)).toEqual({ reasoning: 'hm', text: 'said', arguments: '{"path":"a"}' })
    }
  })

  it('is the same whole where the server does not stream', async () => {
    const body = { object: 'response', status: 'completed', error: null, output: whole, usage: { input_tokens: 3 } }
    const root = await serve([{ raw: JSON.stringify(body), headers: { 'content-type': 'application/json' } }], {
      strict: false,
    })
    const got = await answer(root)
    expect(got.blocks).toEqual(said)
    expect([got.reason, got.usage?.inputTokens]).toEqual(['tool-calls', 3])
  })

  it('keeps the parts of reasoning in order, and each item for itself', async () => {
    const part = (id: string, output_index: number, summary_index: number, delta: string): Event => ({
      type: 'response.reasoning_summary_text.delta',
      item_id: id,
      output_index,
      summary_index,
      delta,
    })
    const two = {
      id: 'rs_1',
      summary: [
        { type: 'summary_text', text: 'one' },
        { type: 'summary_text', text: 'two' },
      ],
    }
    const root = await serve(
      [
        raw(
          added(0, thought('')),
          part('rs_1', 0, 0, 'one'),
          part('rs_1', 0, 1, 'two'),
          done(0, thought('', two)),
          added(1, thought('', { id: 'rs_2' })),
          part('rs_2', 1, 0, 'three'),
          done(1, thought('three', { id: 'rs_2' })),
          done(2, message('so')),
          completed(),
        ),
      ],
      { strict: false },
    )
    const got = await answer(root)
    expect(got.blocks.map(block => (block.type === 'tool-call' ? '' : block.text))).toEqual([
      'one\n\ntwo',
      'three',
      'so',
    ])
    expect(got.blocks[0]).toMatchObject({ replay: { item: two } })
    expect(got.blocks[1]).toMatchObject({ replay: { item: { id: 'rs_2' } } })
  })

  it('keeps reasoning that shows nothing, and the text of models that hide nothing', async () => {
    const open = { type: 'reasoning', id: 'rs_9', summary: [], content: [{ type: 'reasoning_text', text: 'open' }] }
    const root = await serve(
      [
        raw(added(0, thought('')), done(0, thought('')), done(1, message('so')), completed()),
        raw(
          added(0, { ...open, content: [] }),
          { type: 'response.reasoning_text.delta', item_id: 'rs_9', output_index: 0, content_index: 0, delta: 'open' },
          done(0, open),
          done(1, message('so')),
          completed(),
        ),
        raw(
          added(0, { type: 'reasoning', id: 'rs_1', summary: [] }),
          done(0, { type: 'reasoning', id: 'rs_1', summary: [] }),
          done(1, message('so')),
          completed(),
        ),
      ],
      { strict: false },
    )
    expect((await answer(root)).blocks[0]).toMatchObject({
      type: 'reasoning',
      text: '',
      replay: { item: { encrypted_content: 'sealed' } },
    })
    expect((await answer(root)).blocks[0]).toMatchObject({
      type: 'reasoning',
      text: 'open',
      replay: { item: { id: 'rs_9' } },
    })
    expect((await answer(root)).blocks.map(block => block.type)).toEqual(['text'])
  })

  it('takes the text that its end says where the deltas said another, and what they lacked', async () => {
    const opened = sse(added(0, message('', { content: [] })), text('sai'))
    const ending = (whole: string) => ({
      raw: opened + sse(done(0, message(whole)), completed()),
      split: [opened.length],
    })
    const root = await serve([ending('says so'), ending('said')], { strict: false })
    const other = await answer(root)
    expect(other.text).toBe('says so')
    // The first where both came with one read of the network.
    expect(['says so', 'sai']).toContain(shown(other).text)
    const more = await answer(root)
    expect([more.text, shown(more).text]).toEqual(['said', 'said'])
  })

  it('holds each item once, though its end names items that no event did', async () => {
    const second = { id: 'msg_2', content: [{ type: 'output_text', text: 'two', annotations: [] }] }
    const root = await serve(
      [
        raw(
          added(0, message('', { content: [] })),
          text('one'),
          completed([message('zero', { id: 'msg_0' }), message('one'), message('', second)]),
        ),
        raw(done(0, message('one')), done(0, message('', second)), completed()),
      ],
      { strict: false },
    )
    const texts = async () => (await answer(root)).blocks.map(block => block.type === 'text' && block.text)
    expect((await texts()).sort()).toEqual(['one', 'two', 'zero'])
    expect(await texts()).toEqual(['one', 'two'])
  })

  it('that refuses is text and a refusal', async () => {
    const refusal = { type: 'response.refusal.delta', item_id: 'msg_1', output_index: 0, content_index: 0 }
    const item = message('', { content: [{ type: 'refusal', refusal: 'I will not.' }] })
    const root = await serve(
      [
        raw(
          added(0, message('', { content: [] })),
          { ...refusal, delta: 'I will' },
          { ...refusal, delta: ' not.' },
          done(0, item),
          completed([item]),
        ),
        raw(added(0, message('', { content: [] })), text('I wi'), incomplete('content_filter')),
      ],
      { strict: false },
    )
    expect(await answer(root)).toMatchObject({ text: 'I will not.', reason: 'refusal' })
    expect(await answer(root)).toMatchObject({ text: 'I wi', reason: 'refusal' })
  })

  it('that is cut by its limit leaves the cut call open, whether its arguments parse or not', async () => {
    const cut = (sent: string) => call({ id: 'fc_2', call_id: 'call_2', arguments: sent, status: 'incomplete' })
    const scripts = ['{"path":"b"', '{}', ''].map(sent =>
      raw(
        done(0, call()),
        added(1, cut('')),
        args(sent, { output_index: 1, item_id: 'fc_2' }),
        done(1, cut(sent)),
        incomplete('max_output_tokens', [call(), cut(sent)]),
      ),
    )
    const root = await serve(scripts, { strict: false })
    for (const _ of scripts) {
      const got = await answer(root)
      expect(got.reason).toBe('max-tokens')
      expect(got.calls.map(({ id }) => id)).toEqual(['call_1'])
      expect(got.cut).toEqual([{ id: 'call_2', name: 'read' }])
    }
  })

  it('whose last call was filtered does not run it', async () => {
    const root = await serve([raw(added(0, call({ arguments: '' })), args('{}'), incomplete('content_filter'))], {
      strict: false,
    })
    const got = await answer(root)
    expect(got.reason).toBe('refusal')
    expect(got.calls[0]!.arguments).toMatch(/^\(garbled: the answer was broken off here\)/)
  })

  it('takes no piece of another call, however they are mixed', async () => {
    const second = { id: 'fc_2', call_id: 'call_2', arguments: '{"path":"b"}' }
    const root = await serve(
      [
        raw(
          added(0, call({ arguments: '' })),
          added(1, call({ ...second, arguments: '' })),
          args('{"pa', { output_index: 1, item_id: 'fc_2' }),
          args('{"path"'),
          args('th":"b"}', { output_index: 1, item_id: 'fc_2' }),
          args(':"a"}'),
          done(1, call(second)),
          done(0, call()),
          completed([call(), call(second)]),
        ),
      ],
      { strict: false },
    )
    const got = await answer(root)
    expect(got.calls.map(({ id, arguments: sent }) => [id, sent])).toEqual([
      ['call_1', '{"path":"a"}'],
      ['call_2', '{"path":"b"}'],
    ])
  })

  it('is the same at every split of its bytes', async () => {
    const bytes = Buffer.from(
      sse(
        added(0, message('', { content: [] })),
        text('台 👍'),
        done(0, message('台 👍')),
        added(1, call({ arguments: '' })),
        args('{"path":"台👍"}', { output_index: 1 }),
        done(1, call({ arguments: '{"path":"台👍"}' })),
        completed(),
      ).replace('\n\n', '\r\n\r\n'),
    )
    const splits = [1, ...Array.from({ length: 12 }, (_, n) => [Math.floor((bytes.length / 12) * n) + 3])]
    const root = await serve(
      splits.map(split => ({ raw: bytes, split })),
      { strict: false },
    )
    for (const _ of splits) {
      const got = await answer(root)
      expect([got.text, got.calls[0]!.arguments]).toEqual(['台 👍', '{"path":"台👍"}'])
    }
  })

  it('reads no wrong call out of a stream with random damage, and always ends', async () => {
    const events = [
      added(0, message('', { content: [] })),
      text('a'),
      done(0, message('a')),
      added(1, call({ arguments: '' })),
      args('{"path"', { output_index: 1 }),
      args(':"a"}', { output_index: 1 }),
      done(1, call()),
      completed([message('a'), call()], { usage: { input_tokens: 1, output_tokens: 1 } }),
    ]
    server = await startModelServer({ strict: false, otherwise: () => ({ raw: damaged }) })
    const root = await mounted({ test: { baseURL: server.url } })
    let damaged: string | Uint8Array = ''
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(events.length - 1), { maxLength: 6 }),
        fc.nat(1000),
        fc.boolean(),
        async (drops, at, cut) => {
          const kept = sse(...events.filter((_, index) => !drops.includes(index)))
          damaged = cut ? kept.slice(0, Math.floor((kept.length * at) / 1000)) : kept
          const got = await answer(root)
          expect(got.reason).toBeDefined()
          if (got.reason === 'error')
            expect(got.failure!.code).toMatch(/^(STREAM_CLOSED|EMPTY_RESPONSE|MALFORMED_RESPONSE|TRANSPORT)$/)
          for (const { arguments: sent } of got.reason === 'error' ? [] : got.calls) expect(sent).toBe('{"path":"a"}')
        },
      ),
      { numRuns: 60 },
    )
  })
})

/** What the deltas alone said. */
function shown({ chunks }: Answer) {
  const seen = { reasoning: '', text: '', arguments: '' }
  for (const chunk of chunks) {
    if (chunk.type === 'reasoning-delta') seen.reasoning += chunk.text
    if (chunk.type === 'text-delta') seen.text += chunk.text
    if (chunk.type === 'tool-call-delta') seen.arguments += chunk.argumentsDelta
  }
  return seen
}

describe('a failure', () => {
  const failed = (error: JsonObject): Event => ({
    type: 'response.failed',
    response: { status: 'failed', error, usage: { input_tokens: 7, output_tokens: 0 } },
  })

  it.each([
    ['rate_limit_exceeded', 'RATE_LIMIT'],
    ['insufficient_quota', 'QUOTA'],
    ['context_length_exceeded', 'CONTEXT_WINDOW_EXCEEDED'],
    ['server_error', 'SERVER'],
    ['invalid_prompt', 'INVALID_REQUEST'],
    ['unsupported_image_media_type', 'INVALID_REQUEST'],
    ['image_parse_error', 'INVALID_REQUEST'],
    ['model_not_found', 'UNKNOWN_MODEL'],
    ['usage_limit_reached', 'QUOTA'],
  ])('%s inside the stream is %s, however it is said', async (code, expected) => {
    const root = await serve(
      [
        raw(failed({ code, message: 'no' })),
        raw({ type: 'error', code, message: 'no', param: null }),
        raw({ type: 'error', error: { type: code, code, message: 'no' } }),
        { raw: bare({ type: 'error', code, message: 'no', param: null }) },
        { raw: JSON.stringify({ object: 'response', status: 'failed', error: { code, message: 'no' }, output: [] }) },
      ],
      { strict: false },
    )
    for (let n = 0; n < 5; n++) {
      const got = await answer(root)
      expect(got.failure).toMatchObject({ code: expected })
      expect(got.failure!.message).toContain('no')
    }
  })

  it.each([
    ['Please try again in 11.054s. Visit …', 11_054],
    ['Please try again in 720ms.', 720],
    ['Please try again in 1m2.5s.', 62_500],
    ['Please retry after 20 seconds.', 20_000],
    ['Please try again later.', undefined],
  ])('of the rate inside the stream says how long to wait: %s', async (said, retryAfterMs) => {
    const root = await serve([raw(failed({ code: 'rate_limit_exceeded', message: `Rate limit reached. ${said}` }))], {
      strict: false,
    })
    expect((await answer(root)).failure?.retryAfterMs).toBe(retryAfterMs)
  })

  it('tells what it cost all the same', async () => {
    const root = await serve([raw(text('a'), failed({ code: 'server_error', message: 'no' }))], { strict: false })
    expect(await answer(root)).toMatchObject({ usage: { inputTokens: 7 }, failure: { code: 'SERVER' } })
  })

  it.each([
    [400, { code: 'unsupported_parameter', param: 'metadata', message: 'Unsupported parameter' }, 'INVALID_REQUEST'],
    [
      404,
      { code: 'DeploymentNotFound', message: 'The API deployment for this resource does not exist.' },
      'UNKNOWN_MODEL',
    ],
    [429, { type: 'usage_limit_reached', message: 'The usage limit has been reached' }, 'QUOTA'],
    [503, { code: 'slow_down', message: 'Slow down' }, 'SERVER'],
  ])('with status %s and %j has a code', async (status, error, expected) => {
    const root = await serve([{ raw: JSON.stringify({ error }), status }], { strict: false })
    expect((await answer(root)).failure).toMatchObject({ code: expected, status })
  })

  it('of a stream that ends without its last event is one', async () => {
    const root = await serve([raw(added(0, message('', { content: [] })), text('half'))], { strict: false })
    expect((await answer(root)).failure?.code).toBe('STREAM_CLOSED')
  })
})

describe('a request', () => {
  const picture = { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=' } as const
  const said = (content: AssistantBlock[], model = 'gpt-5', provider = 'test'): Message => ({
    id: newMessageId(),
    role: 'assistant',
    content,
    source: { kind: 'model', provider, model },
  })
  const result = (callId: string, more: JsonObject[] = []): Message =>
    createToolResultMessage({ callId, content: [{ type: 'text', text: 'found' }, ...(more as never[])] })
  const input = (n: number) => server.requests[n]!.body['input'] as JsonObject[]
  const types = (n: number) => input(n).map(item => item['type'])

  it('says everything that it has to say', async () => {
    const root = await serve(['fine'])
    const image: Message = {
      id: newMessageId(),
      role: 'user',
      content: [{ type: 'text', text: 'see' }, picture],
      source: { kind: 'user' },
    }
    const got = await answer(root, {
      model: 'gpt-5',
      system: 'Be brief.',
      messages: [
        image,
        said([
          { type: 'text', text: 'I look.' },
          { type: 'tool-call', id: 'a', name: 'read', arguments: '{}' },
          { type: 'tool-call', id: 'b'.repeat(80), name: 'read', arguments: '{}' },
        ]),
        result('a', [picture]),
        result('b'.repeat(80)),
      ],
      tools,
      effort: 'low',
      maxTokens: 5,
      temperature: 0.5,
      sessionId: 's'.repeat(90),
      providerOptions: { text: { verbosity: 'low' }, reasoning: { summary: 'detailed' } },
    })
    expect(got.text).toBe('fine')
    const { body, headers, protocol } = server.requests[0]!
    expect(protocol).toBe('responses')
    expect(headers['authorization']).toBeUndefined()
    const long = (input(0)[3] as { call_id: string }).call_id
    expect(long.length).toBeLessThanOrEqual(64)
    const part = { type: 'input_image', image_url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'auto' }
    expect(body).toEqual({
      model: 'gpt-5',
      instructions: 'Be brief.',
      tools: [{ type: 'function', ...tools[0], strict: false }],
      input: [
        { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'see' }, part] },
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.', annotations: [] }] },
        { type: 'function_call', call_id: 'a', name: 'read', arguments: '{}' },
        { type: 'function_call', call_id: long, name: 'read', arguments: '{}' },
        { type: 'function_call_output', call_id: 'a', output: [{ type: 'input_text', text: 'found' }, part] },
        { type: 'function_call_output', call_id: long, output: 'found' },
      ],
      stream: true,
      store: false,
      include: ['reasoning.encrypted_content'],
      reasoning: { effort: 'low', summary: 'detailed' },
      max_output_tokens: 16,
      parallel_tool_calls: true,
      prompt_cache_key: expect.stringMatching(/^[0-9a-f]{64}$/),
      text: { verbosity: 'low' },
    })
  })

  it.each([
    ['gpt-5-mini-2025-08-07', true],
    ['openai/gpt-5.1-codex', true],
    ['o4-mini', true],
    ['gpt-5-chat-latest', false],
    ['gpt-4.1', false],
    ['mystery', false],
  ])('to %s asks for reasoning: %s; for a temperature otherwise', async (model, reasons) => {
    const root = await serve(['ok'])
    await answer(root, { model, temperature: 0.5 })
    const { body } = server.requests[0]!
    expect([body['include'] !== undefined, body['reasoning'] !== undefined]).toEqual([reasons, reasons])
    expect(body['temperature']).toBe(reasons ? undefined : 0.5)
  })

  it('to a model of which the configuration says that it reasons asks for reasoning', async () => {
    const root = await serve(['ok'], {}, { reasoning: true })
    await answer(root, { model: 'my-deployment' })
    expect(server.requests[0]!.body['include']).toEqual(['reasoning.encrypted_content'])
  })

  it('with stop sequences is refused before it is sent, in a sentence with what to do', async () => {
    const root = await serve([])
    const { failure } = await answer(root, { stop: ['END'] })
    expect(failure).toMatchObject({ code: 'UNSUPPORTED_OPTION', fix: expect.stringContaining('chat completions') })
    expect(server.requests).toHaveLength(0)
  })

  it('begins with the bytes of the one before', async () => {
    const root = await serve([{ reasoning: 'hm', text: 'one', toolCalls: [{ name: 'read' }] }, 'two'])
    const first = [user('hello')]
    const got = await answer(root, { model: 'gpt-5', system: 'S', tools, messages: first })
    const messages = [...first, said([...got.blocks]), result(got.calls[0]!.id)]
    await answer(root, { model: 'gpt-5', system: 'S', tools, messages })
    const [one, two] = server.requests.map(request => request.text)
    const prefix = one!.slice(0, one!.indexOf('],"stream"'))
    expect(prefix).toContain('hello')
    expect(two!.startsWith(prefix)).toBe(true)
    server.expectDone()
  })

  it('gives reasoning back with what it led to, for many turns, and however it was shown', async () => {
    const root = await serve([
      { reasoning: 'first', text: 'I look.', toolCalls: [{ name: 'read' }, { name: 'read' }] },
      { reasoning: '', toolCalls: [{ name: 'read' }] },
      { reasoning: 'hidden', redacted: true, toolCalls: [{ name: 'read' }] },
      { reasoning: 'last', text: 'done' },
      'and so on',
    ])
    const messages: Message[] = [user('hello')]
    for (let turn = 0; turn < 4; turn++) {
      const got = await answer(root, { model: 'gpt-5', tools, messages })
      expect(got.failure).toBeUndefined()
      messages.push(JSON.parse(JSON.stringify(said([...got.blocks]))), ...got.calls.map(({ id }) => result(id)))
    }
    messages.push(user('more'))
    expect((await answer(root, { model: 'gpt-5', tools, messages })).text).toBe('and so on')
    expect(types(4).filter(type => type === 'reasoning')).toHaveLength(4)
    for (const item of input(4)) expect(item).not.toHaveProperty('id')
    server.expectDone()
  })

  const reasoned = async (root: Awaited<ReturnType<typeof tree>>, model = 'gpt-5') =>
    said([...(await answer(root, { model })).blocks], model)

  it('gives reasoning back to the model that it came from alone, under whatever date', async () => {
    const root = await serve([{ reasoning: 'hm', text: 'one' }], { otherwise: 'ok' })
    const message = await reasoned(root)
    const models = ['gpt-5', 'gpt-5-2025-08-07', 'openai/gpt-5', 'gpt-5-mini', 'gpt-4.1', 'gpt-5']
    for (const model of models) await answer(root, { model, messages: [user('a'), message, user('b')] })
    const replays = server.requests.slice(1).map((_, n) => types(n + 1).includes('reasoning'))
    expect(replays).toEqual([true, true, true, false, false, true])
    server.expectDone()
  })

  it('gives no reasoning back that another protocol left, or that nothing followed', async () => {
    const root = await serve([{ reasoning: 'hm', text: 'one' }], { otherwise: 'ok' })
    const [thinking] = (await reasoned(root)).content as [AssistantBlock]
    const foreign = {
      type: 'reasoning',
      text: 'x',
      replay: { signature: 's', item: { encrypted_content: 'y' } },
    } as const
    const cases: AssistantBlock[][] = [
      [foreign, { type: 'text', text: 'a' }],
      [{ type: 'text', text: 'a' }, thinking],
    ]
    for (const blocks of cases) {
      await answer(root, { model: 'gpt-5', messages: [user('a'), said(blocks), user('b')] })
      expect(types(server.requests.length - 1)).toEqual(['message', 'message', 'message'])
    }
    await answer(root, { model: 'gpt-5', messages: [user('a'), said(cases[0]!, 'gpt-5', 'other'), user('b')] })
    expect(types(3)).toEqual(['message', 'message', 'message'])
    server.expectDone()
  })

  it('whose reasoning the provider cannot read is sent again without, and stays so', async () => {
    const root = await serve([{ reasoning: 'hm', text: 'one' }], { otherwise: 'ok' })
    const message = await reasoned(root)
    const spoilt = JSON.parse(
      JSON.stringify(message).replace(/"encrypted_content":"[^"]+"/, '"encrypted_content":"gone"'),
    )
    const messages = [user('a'), spoilt, user('b')]
    expect((await answer(root, { model: 'gpt-5', messages })).text).toBe('ok')
    expect((await answer(root, { model: 'gpt-5', messages: [...messages, message, user('c')] })).text).toBe('ok')
    expect(server.requests.map((_, n) => types(n).filter(type => type === 'reasoning').length)).toEqual([0, 1, 0, 1])
  })

  it.each([
    [
      'reasoning.summary',
      {
        param: 'reasoning.summary',
        code: 'unsupported_value',
        message: 'Your organization must be verified to generate reasoning summaries.',
      },
      'gpt-5',
    ],
    [
      'stream',
      {
        param: 'stream',
        code: 'unsupported_value',
        message: 'Your organization must be verified to stream this model.',
      },
      'gpt-5',
    ],
    ['temperature', { message: "Unsupported parameter: 'temperature' is not supported with this model." }, 'mystery'],
    ['include', { message: 'Encrypted content is not supported with this model.' }, 'gpt-5'],
  ])('goes without %s where that is refused, from then on at once', async (field, error, model) => {
    const [name = '', part] = field.split('.')
    const has = (body: JsonObject) => (part ? part in ((body[name] as JsonObject) ?? {}) : name in body)
    const root = await serve([], {
      strict: false,
      otherwise: ({ body }) =>
        has(body as JsonObject)
          ? { raw: JSON.stringify({ error: { type: 'invalid_request_error', ...error } }), status: 400 }
          : { text: 'fine' },
    })
    for (let n = 0; n < 2; n++) expect((await answer(root, { model, temperature: 1 })).text).toBe('fine')
    expect(server.requests).toHaveLength(3)
  })

  it('that asks for an effort which the model does not know is refused, and not sent without it', async () => {
    const root = await serve([])
    const { failure } = await answer(root, { model: 'gpt-4.1', effort: 'high' })
    expect(failure?.code).toBe('INVALID_REQUEST')
    expect(server.requests.length).toBeLessThan(4)
  })

  it.each([
    ['gpt-5.2', undefined],
    ['gpt-5.3-codex', 'commentary'],
    ['gpt-5.4', 'commentary'],
    ['gpt-6-astra', 'commentary'],
  ])('to %s says of texts what they are: %s', async (model, phase) => {
    const root = await serve(['ok'])
    const messages = [
      user('a'),
      said(
        [
          { type: 'text', text: 'I look.' },
          { type: 'tool-call', id: 'c', name: 'read', arguments: '{}' },
        ],
        model,
      ),
      result('c'),
      said([{ type: 'text', text: 'So.' }], model),
      user('b'),
    ]
    await answer(root, { model, messages, tools })
    const phases = input(0).flatMap(item => (item['role'] === 'assistant' ? [item['phase']] : []))
    expect(phases).toEqual([phase, phase && 'final_answer'])
    server.expectDone()
  })

  it('to a model without phases says none of them, after one that has them was asked', async () => {
    const root = await serve([], { otherwise: 'ok' })
    const messages = [
      user('a'),
      said([
        { type: 'text', text: 'First this.' },
        { type: 'text', text: 'Then that.' },
      ]),
      user('b'),
    ]
    for (const model of ['gpt-5.4', 'gpt-5.1', 'gpt-5.4']) await answer(root, { model, messages })
    const phases = [0, 1, 2].map(n => input(n).flatMap(item => (item['role'] === 'assistant' ? [item['phase']] : [])))
    expect(phases).toEqual([
      ['commentary', 'final_answer'],
      [undefined, undefined],
      ['commentary', 'final_answer'],
    ])
  })

  it('whose reasoning a server wants in another way is sent again without', async () => {
    const check = ({ body }: { body: JsonObject }) =>
      (body['input'] as JsonObject[]).flatMap((item, at) =>
        item['type'] === 'reasoning' ? [`Missing required parameter: 'input[${at}].id'.`] : [],
      )[0]
    const root = await serve([{ reasoning: 'hm', text: 'one' }], { otherwise: 'ok', check: check as never })
    const messages = [user('a'), await reasoned(root), user('b')]
    expect((await answer(root, { model: 'gpt-5', messages })).text).toBe('ok')
    expect((await answer(root, { model: 'gpt-5', messages })).text).toBe('ok')
    expect(server.requests.map((_, n) => types(n).includes('reasoning'))).toEqual([false, true, false, false])
  })

  it('is not sent again for what it did not say', async () => {
    const error = { code: 'unsupported_parameter', param: 'temperature', message: 'Unsupported parameter' }
    const root = await serve([], { strict: false, otherwise: { raw: JSON.stringify({ error }), status: 400 } })
    expect((await answer(root, { model: 'gpt-5' })).failure?.code).toBe('INVALID_REQUEST')
    expect(server.requests).toHaveLength(1)
  })

  it('to a server of an open model gives its reasoning back in plain text, with its id', async () => {
    const open = { type: 'reasoning', id: 'rs_9', summary: [], content: [{ type: 'reasoning_text', text: 'open' }] }
    const root = await serve([raw(done(0, open), done(1, message('so')), completed())], {
      strict: false,
      otherwise: 'ok',
    })
    const replayed = await reasoned(root, 'gpt-oss-120b')
    await answer(root, { model: 'gpt-oss-120b', messages: [user('a'), replayed, user('b')] })
    expect(input(1)[1]).toEqual(open)
  })

  it('is never one that the strict provider refuses, whatever was said before', async () => {
    server = await startModelServer({ otherwise: ({ index }) => ANSWERS[index % ANSWERS.length]! })
    const root = await mounted({ test: { baseURL: server.url } })
    const ANSWERS = [
      { reasoning: 'a', text: 'b' },
      { reasoning: '', text: 'c', toolCalls: [{ name: 'read' }, { name: 'x y', arguments: '' }] },
      { text: 'd', fault: 'length' as const },
      { reasoning: 'e', toolCalls: [{ name: 'read', arguments: '[1' }], fault: 'duplicate-ids' as const },
      { reasoning: 'f', redacted: true, toolCalls: [{ name: 'read', arguments: { path: '\ud800' } }] },
    ]
    const model = fc.constantFrom('gpt-5', 'gpt-5-mini', 'gpt-4.1', 'gpt-5.4')
    const odd = fc.constantFrom<AssistantBlock[]>(
      [{ type: 'text', text: ' ' }],
      [
        { type: 'reasoning', text: '', replay: { protocol: 'responses', item: 3 } },
        { type: 'text', text: '\udc00' },
      ],
      [{ type: 'tool-call', id: 'x'.repeat(200), name: 'n'.repeat(200), arguments: 'no' }],
      [
        { type: 'tool-call', id: '', name: '', arguments: '' },
        { type: 'tool-call', id: '', name: '', arguments: '' },
      ],
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(model, fc.option(odd), fc.boolean()), { minLength: 1, maxLength: 6 }),
        async turns => {
          const messages: Message[] = [user('hello')]
          for (const [name, strange, answered] of turns) {
            if (strange) messages.push(said(strange, name))
            const got = await answer(root, { model: name, tools, messages, sessionId: 's', maxTokens: 1 })
            expect(got.failure?.message).toBeUndefined()
            messages.push(said([...got.blocks], name))
            if (answered) for (const { id } of got.calls) messages.push(result(id, [picture]))
          }
        },
      ),
      { numRuns: 40 },
    )
    expect(server.requests.filter(({ problem }) => problem).map(({ problem }) => problem)).toEqual([])
  })
})

describe('providers', () => {
  it('are OpenAI with its key, unless that key is meant for another server', async () => {
    const root = await mounted({})
    const state = () => root.llm.list().map(({ provider, ready }) => [provider, ready])
    expect(state()).toEqual([['openai-responses', false]])
    vi.stubEnv('OPENAI_API_KEY', 'sk-test')
    expect(state()).toEqual([['openai-responses', true]])
    vi.stubEnv('OPENAI_BASE_URL', 'https://models.example.com/v1')
    expect(state()).toEqual([['openai-responses', false]])
    vi.stubEnv('OPENAI_BASE_URL', 'https://api.openai.com/v1/')
    expect(state()).toEqual([['openai-responses', true]])
  })

  it('are taken by auto, with the first model, before chat completions', async () => {
    const root = await mounted({})
    vi.stubEnv('OPENAI_API_KEY', 'sk-test')
    expect((await root.llm.resolve('auto')).route).toEqual({ provider: 'openai-responses', model: 'gpt-5' })
    expect((await root.llm.resolve('gpt-5.1-codex')).route.provider).toBe('openai-responses')
  })

  it('of the configuration are asked at their own address, in the way of Azure where that is said', async () => {
    server = await startModelServer({ otherwise: 'ok', strict: false })
    const root = await mounted({
      plain: { baseURL: server.url, apiKey: 'key-1', headers: { 'x-extra': 'y' } },
      azure: { baseURL: `${server.url}/`, apiKey: 'key-2', keyHeader: 'api-key', apiVersion: '2025-04-01-preview' },
    })
    await answer(root, { provider: 'plain' })
    await answer(root, { provider: 'azure' })
    const [plain, azure] = server.requests
    expect(plain!.headers).toMatchObject({ authorization: 'Bearer key-1', 'x-extra': 'y' })
    expect(azure!.path).toBe('/v1/responses?api-version=2025-04-01-preview')
    expect(azure!.headers).toMatchObject({ 'api-key': 'key-2' })
    expect(azure!.headers['authorization']).toBeUndefined()
  })

  it('that refuse the key say so, with what to do', async () => {
    const root = await serve([], { apiKey: 'right' }, { apiKey: 'wrong-key' })
    expect((await answer(root)).failure).toMatchObject({ code: 'AUTH', status: 401 })
  })

  it('leave with the plugin', async () => {
    clearEnvironment()
    const root = await tree()
    const fiber = await root.plugin(responses, { providers: {} } as never)
    expect(root.llm.list()).toHaveLength(1)
    await fiber.dispose()
    expect(root.llm.list()).toHaveLength(0)
  })

  it('that stall end within their bound, and a cancelled answer ends at once', async () => {
    server = await startModelServer({
      replies: [
        { text: 'a b c', pieceChars: 1, fault: 'stall' },
        { text: 'a b c', pieceChars: 1, fault: 'stall' },
      ],
    })
    const root = await mounted({ test: { baseURL: server.url } }, { idleMs: 60 })
    expect((await answer(root)).failure?.code).toBe('TIMEOUT')
    const patient = await mounted({ test: { baseURL: server.url } })
    const controller = new AbortController()
    const pending = answer(patient, { signal: controller.signal })
    await server.request(1)
    const started = performance.now()
    controller.abort()
    expect((await pending).failure?.code).toBe('ABORTED')
    expect(performance.now() - started).toBeLessThan(100)
    expect(await server.requests[1]!.ended).toBe('left')
  })
})

const WILD = new URL('../../../../shared/wild/sse/', import.meta.url)
const wild = existsSync(WILD)
if (!wild) console.warn('../shared/wild/sse is absent: recorded streams are not replayed')

describe.runIf(wild)('a recorded stream', () => {
  /** One file may hold several answers, one after the other. */
  const recorded = (name: string) => {
    const text = readFileSync(new URL(name, WILD), 'utf8')
    return text.split(/(?=event: response\.created\n)/).filter(part => part.trim())
  }
  const serveAll = (bodies: readonly string[], splits: readonly (number | undefined)[]) =>
    serve(
      splits.flatMap(split => bodies.map(body => ({ raw: body, ...(split ? { split } : {}) }))),
      { strict: false },
    )

  it('of reasoning and calls is read to its blocks, whole and in pieces', async () => {
    const bodies = recorded('responses-reasoning-toolcall.sse')
    const splits = [undefined, 7, 1]
    const root = await serveAll(bodies, splits)
    const answers: Answer[][] = []
    for (const _ of splits) {
      const all: Answer[] = []
      for (const _ of bodies) all.push(await answer(root))
      answers.push(all)
    }
    const [whole, ...others] = answers
    for (const other of others) expect(other.map(got => got.blocks)).toEqual(whole!.map(got => got.blocks))
    expect(whole!.map(got => got.blocks.map(block => block.type))).toEqual([
      ['reasoning', 'tool-call'],
      ['tool-call'],
      ['tool-call'],
      ['text'],
    ])
    const [first] = whole!
    expect(first!.reasoning).toContain("I'll compute 12 plus 7")
    expect(first!.calls).toEqual([
      { id: 'call_AB6AaRZ1FYZB2RwS6A5vbdqn', name: 'calculator', arguments: '{"a":12,"b":7,"op":"add"}' },
    ])
    expect(first!.usage).toMatchObject({ cacheWriteTokens: 0 })
    expect(first!.blocks[0]).toHaveProperty('replay.item.encrypted_content', expect.stringMatching(/^gAAAA/))
    expect(whole![3]!.text).toBe('The final result is **570**.')
    expect(whole!.map(got => got.reason)).toEqual(['tool-calls', 'tool-calls', 'tool-calls', 'stop'])
  })

  it('that breaks off with an error is that failure', async () => {
    const root = await serveAll(recorded('responses-error-midstream.sse'), [undefined, 1])
    for (let n = 0; n < 2; n++) expect((await answer(root)).failure?.code).toBe('QUOTA')
  })
})
