import { existsSync, readFileSync } from 'node:fs'
import { type AssistantBlock, createUserMessage, type Message, newMessageId } from '@cambium/llm'
import * as anthropic from '@cambium/llm/anthropic'
import { type ModelServer, type ModelServerOptions, type ReplyScript, startModelServer } from '@cambium/testkit'
import { afterEach, describe, expect, it, vi } from 'vitest'
import {
  ask,
  assistant,
  type Block,
  begin,
  bodies,
  called,
  claudeAt,
  close,
  delta,
  events,
  finish,
  open,
  PNG,
  READ,
  result,
  stop,
} from './anthropic.ts'
import { answer, clearEnvironment, collect, tree, user } from './llm.ts'

let server: ModelServer
afterEach(() => server?.close())

async function serve(
  replies: readonly ReplyScript[],
  options: ModelServerOptions = {},
  settings: Partial<anthropic.ProviderConfig> = {},
  config: Partial<anthropic.Config> = {},
) {
  server = await startModelServer({ replies, apiKey: 'key', ...options })
  return claudeAt(server.url, settings, config)
}

const raw = (...list: readonly Block[]) => ({ raw: events(...list) })
const picture = { type: 'image', mediaType: 'image/png', data: PNG } as const

describe('an answer of the Messages API', () => {
  it('is thought, text, calls, usage and a reason, each once', async () => {
    const root = await serve([
      {
        reasoning: 'I had better look.',
        text: 'I look.',
        toolCalls: [
          { name: 'read', arguments: { path: 'a' } },
          { name: 'read', arguments: { path: 'b' } },
        ],
        usage: { input: 100, output: 20, cached: 60, written: 10 },
      },
    ])
    const got = await ask(root, { messages: [user('hello')], tools: [READ] })
    expect(got.blocks.map(block => block.type)).toEqual(['reasoning', 'text', 'tool-call', 'tool-call'])
    expect(got.reasoning).toBe('I had better look.')
    expect(got.text).toBe('I look.')
    expect(got.calls.map(({ arguments: text }) => text)).toEqual(['{"path":"a"}', '{"path":"b"}'])
    expect(got.usage).toEqual({
      inputTokens: 30,
      outputTokens: 20,
      cacheReadTokens: 60,
      cacheWriteTokens: 10,
      reasoningTokens: 0,
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
      type: 'message',
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 'sig' },
        { type: 'text', text: 'whole' },
        { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a' } },
        { type: 'tool_use', id: 'toolu_2', name: 'list', input: {} },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 3, output_tokens: 1 },
    }
    const root = await serve([{ raw: JSON.stringify(body), headers: { 'content-type': 'application/json' } }])
    const got = await answer(root)
    expect(got.blocks).toEqual([
      { type: 'reasoning', text: 'hm', replay: { type: 'thinking', signature: 'sig' } },
      { type: 'text', text: 'whole' },
      { type: 'tool-call', id: 'toolu_1', name: 'read', arguments: '{"path":"a"}' },
      { type: 'tool-call', id: 'toolu_2', name: 'list', arguments: '' },
    ])
    expect([got.reason, got.usage?.inputTokens]).toEqual(['tool-calls', 3])
  })

  it('passes over blocks and events of other kinds, citations and pings', async () => {
    const root = await serve([
      raw(
        begin(),
        { type: 'ping' },
        open(0, { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }),
        delta(0, { type: 'input_json_delta', partial_json: '{"query":"x"}' }),
        close(0),
        open(1, { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] }),
        close(1),
        { type: 'something_new', value: 1 },
        open(2, { type: 'text', text: '' }),
        delta(2, { type: 'citations_delta', citation: { type: 'char_location' } }),
        delta(2, { type: 'text_delta', text: 'found' }),
        delta(2, { type: 'hologram_delta', hologram: 'x' }),
        close(2),
        finish('end_turn'),
        stop,
      ),
    ])
    const got = await answer(root)
    expect(got.blocks).toEqual([{ type: 'text', text: 'found' }])
    expect(got.reason).toBe('stop')
  })

  it('may bring the input of a call whole with its start', async () => {
    const root = await serve([
      raw(
        begin(),
        open(0, { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'ä' } }),
        close(0),
        open(1, { type: 'tool_use', id: 'toolu_2', name: 'read', input: {} }),
        close(1),
        finish('tool_use'),
        stop,
      ),
    ])
    expect((await answer(root)).calls).toEqual([
      { id: 'toolu_1', name: 'read', arguments: '{"path":"ä"}' },
      { id: 'toolu_2', name: 'read', arguments: '' },
    ])
  })

  it('ends well without message_stop, and waits for nothing after it', async () => {
    const root = await serve([
      { text: 'a', done: false },
      raw(begin(), delta(0, { type: 'text_delta', text: 'no block was announced' }), finish('end_turn'), stop),
    ])
    expect(await answer(root)).toMatchObject({ text: 'a', reason: 'stop' })
    expect(await answer(root)).toMatchObject({ text: 'no block was announced', reason: 'stop' })
  })

  it.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['pause_turn', 'stop'],
    ['max_tokens', 'max-tokens'],
    ['model_context_window_exceeded', 'max-tokens'],
    ['refusal', 'refusal'],
    ['some_new_reason', 'stop'],
  ])('that stops with %s finishes with %s', async (finish, reason) => {
    const root = await serve([{ text: 'said', finish }])
    expect((await answer(root)).reason).toBe(reason)
  })

  it.each([
    ['in the middle of its arguments', '{"path":"a', 0],
    ['where what is there happens to be JSON', '{"path":"a"}', 0],
    ['where another one was whole before it', '{"path":"a"}', 1],
  ])('leaves a call open that the output limit cut %s', async (_, text, before) => {
    const whole = (index: number, partial_json: string) => [
      open(index, { type: 'tool_use', id: `toolu_${index}`, name: 'write', input: {} }),
      delta(index, { type: 'input_json_delta', partial_json }),
      close(index),
    ]
    const earlier = Array.from({ length: before }, (_item, index) => whole(index, '{"path":"first"}')).flat()
    const root = await serve([raw(begin(), ...earlier, ...whole(before, text), finish('max_tokens'), stop)])
    const got = await answer(root)
    expect(got.reason).toBe('max-tokens')
    expect(got.calls.map(({ arguments: args }) => args)).toEqual(earlier.length ? ['{"path":"first"}'] : [])
    expect(got.cut).toEqual([{ id: `toolu_${before}`, name: 'write' }])
  })

  it('counts by the highest count of each kind, and thoughts into the answer', async () => {
    const root = await serve([
      raw(
        begin({ input_tokens: 7, cache_read_input_tokens: 100, cache_creation_input_tokens: null, output_tokens: 1 }),
        delta(0, { type: 'text_delta', text: 'x' }),
        finish('end_turn', {
          input_tokens: 0,
          cache_creation_input_tokens: 11,
          output_tokens: 9,
          output_tokens_details: { thinking_tokens: 4 },
          unheard_of: { tokens: 1 },
        }),
        stop,
      ),
    ])
    expect((await answer(root)).usage).toEqual({
      inputTokens: 7,
      outputTokens: 9,
      cacheReadTokens: 100,
      cacheWriteTokens: 11,
      reasoningTokens: 4,
    })
  })

  it('decodes text that is cut anywhere', async () => {
    const said = '台 and 🎉'
    for (let split = 1; split <= 3; split++) {
      const root = await serve([{ text: said, toolCalls: [{ name: 'read', arguments: { said } }], split, eol: '\r\n' }])
      const got = await answer(root)
      expect([got.text, JSON.parse(got.calls[0]!.arguments)]).toEqual([said, { said }])
      await server.close()
    }
  })
})

describe('recorded streams', () => {
  const wild = new URL('../../../../shared/wild/sse/', import.meta.url)
  const there = existsSync(wild)
  if (!there) console.warn('skipped: no recorded streams at ../shared/wild')
  const recorded = async (name: string) => {
    const text = readFileSync(new URL(name, wild), 'utf8')
    const answers = []
    for (const split of [undefined, 1, 7, 333]) {
      const root = await serve([{ raw: text, ...(split === undefined ? {} : { split }) }])
      answers.push(await answer(root))
      await server.close()
    }
    for (const other of answers) expect(other.blocks).toEqual(answers[0]!.blocks)
    return answers[0]!
  }

  it.skipIf(!there)('of a thought with its signature', async () => {
    const got = await recorded('anthropic-thinking.sse')
    expect(got.text).toBe('925 ÷ 5 = 185')
    expect(got.reasoning).toBe('The previous result was 925. Now I need to divide that by 5.\n\n925 ÷ 5 = 185')
    expect(got.blocks[0]).toMatchObject({ replay: { type: 'thinking', signature: /^EvQB.*CBgB$/ } })
    expect(got.usage).toMatchObject({ inputTokens: 69, outputTokens: 53 })
  })

  it.skipIf(!there)('of a call', async () => {
    const got = await recorded('anthropic-tooluse.sse')
    expect(got.calls).toEqual([
      { id: 'toolu_019Zvehfe1XQWweT1pm7okyt', name: 'weather', arguments: '{"location": "San Francisco"}' },
    ])
    expect([got.reason, got.usage?.outputTokens]).toEqual(['tool-calls', 28])
  })
})

describe('a request', () => {
  it('says who we are, what version we speak, and what the conversation holds', async () => {
    const root = await serve(['ok'])
    await ask(root, {
      system: 'Be brief.',
      messages: [user('hello')],
      tools: [READ],
      stop: ['END', ' '],
      temperature: 0.5,
    })
    const [request] = server.requests
    expect(request!.headers).toMatchObject({ 'x-api-key': 'key', 'anthropic-version': '2023-06-01' })
    expect(request!.headers.authorization).toBeUndefined()
    expect(bodies(server)[0]).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 64_000,
      stream: true,
      temperature: 0.5,
      stop_sequences: ['END'],
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      tools: [
        {
          name: 'read',
          description: 'Reads a file',
          input_schema: { type: 'object', properties: {} },
          cache_control: { type: 'ephemeral' },
        },
      ],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', cache_control: { type: 'ephemeral' } }] }],
    })
    server.expectDone()
  })

  it('gives all results of a message at once and first, with pictures inside and errors marked', async () => {
    const root = await serve(['ok'], {}, { cache: false })
    await ask(root, {
      messages: [
        user('look'),
        assistant([called('a'), called('b'), called('c')]),
        result('b', 'no such file', true),
        result('a', [{ type: 'text', text: 'here' }, picture]),
        result('c', [picture], true),
        createUserMessage({ content: [picture, { type: 'text', text: 'and this?' }], source: { kind: 'user' } }),
      ],
    })
    const source = { type: 'base64', media_type: 'image/png', data: PNG }
    expect(bodies(server)[0]!.messages.slice(2)).toEqual([
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'a',
            content: [
              { type: 'text', text: 'here' },
              { type: 'image', source },
            ],
          },
          { type: 'tool_result', tool_use_id: 'b', content: [{ type: 'text', text: 'no such file' }], is_error: true },
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [{ type: 'text', text: '(an image, shown below)' }],
            is_error: true,
          },
          { type: 'image', source },
          { type: 'image', source },
          { type: 'text', text: 'and this?' },
        ],
      },
    ])
    server.expectDone()
  })

  it('has turns that alternate, begin with the user and hold what the system said later', async () => {
    const root = await serve(['ok'])
    const system: Message = {
      id: newMessageId(),
      role: 'system',
      content: [{ type: 'text', text: 'The plan is approved.' }],
      source: { kind: 'plugin', plugin: 'plan' },
    }
    await ask(root, {
      messages: [assistant([{ type: 'text', text: 'Hello!' }]), user('one'), system, user('two'), user(' ')],
    })
    expect(bodies(server)[0]!.messages.map(({ role, content }) => [role, content.map(block => block['text'])])).toEqual(
      [
        ['user', ['Continue.']],
        ['assistant', ['Hello!']],
        ['user', ['one', '<system-message>\nThe plan is approved.\n</system-message>', 'two']],
      ],
    )
    server.expectDone()
  })

  it('that ends with an answer has it gone on with, or asks to where the model does not do that', async () => {
    const root = await serve(['ok', 'ok'])
    const messages = [user('count'), assistant([{ type: 'text', text: 'one, two, \n' }])]
    await ask(root, { messages })
    await ask(root, { messages, model: 'claude-opus-4-6' })
    expect(bodies(server).map(body => body.messages.slice(1))).toEqual([
      [{ role: 'assistant', content: [{ type: 'text', text: 'one, two,' }] }],
      [
        { role: 'assistant', content: [{ type: 'text', text: 'one, two, \n' }] },
        { role: 'user', content: [{ type: 'text', text: 'Continue.', cache_control: { type: 'ephemeral' } }] },
      ],
    ])
    server.expectDone()
  })

  it('gives arguments back as they were written, and ids as the API takes them', async () => {
    const root = await serve(['ok'])
    const id = 'functions.read:0'
    await ask(root, { messages: [user('x'), assistant([called(id, '{ "n": 1.0 }')]), result(id)] })
    expect(server.requests[0]!.text).toContain('"input":{ "n": 1.0 }')
    const [, call, answered] = bodies(server)[0]!.messages
    expect(call!.content[0]!['id']).toMatch(/^toolu_[0-9a-f]{32}$/)
    expect(answered!.content[0]!['tool_use_id']).toBe(call!.content[0]!['id'])
    server.expectDone()
  })

  it('declares the tools of its history where it offers none, and lets none be called', async () => {
    const root = await serve(['ok'])
    await ask(root, { messages: [user('x'), assistant([called('a')]), result('a')] })
    expect(bodies(server)[0]).toMatchObject({ tools: [{ name: 'read' }], tool_choice: { type: 'none' } })
    server.expectDone()
  })

  it('tells of a parameter in words whose name the API refuses', async () => {
    const root = await serve(['ok'])
    const parameters = {
      type: 'object',
      properties: { path: { type: 'string' }, 'line number': { type: 'integer' } },
      required: ['path', 'line number'],
      additionalProperties: false,
    }
    await ask(root, { messages: [user('x')], tools: [{ ...READ, parameters }] })
    expect(bodies(server)[0]!.tools![0]).toMatchObject({
      description: 'Reads a file\n\nIt also takes "line number": {"type":"integer"}',
      input_schema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    })
    expect(server.requests[0]!.text).not.toContain('additionalProperties')
    server.expectDone()
  })

  it('is as hot as the scale of this API goes', async () => {
    const root = await serve(['ok'])
    await ask(root, { messages: [user('x')], temperature: 1.7 })
    expect(bodies(server)[0]!['temperature']).toBe(1)
    server.expectDone()
  })

  it('takes the options of its provider, whose own tools stand behind ours', async () => {
    const root = await serve(['ok'], { strict: false })
    const search = { type: 'web_search_20250305', name: 'web_search' }
    const providerOptions = { top_k: 5, tools: [search], messages: [], model: 'x', stream: false }
    await ask(root, { messages: [user('x')], tools: [READ], providerOptions })
    const [body] = bodies(server)
    expect(body).toMatchObject({ top_k: 5, model: 'claude-sonnet-4-5', stream: true })
    expect(body!.messages).toHaveLength(1)
    expect(body!.tools!.map(tool => tool['name'])).toEqual(['read', 'web_search'])
  })

  it.each([
    ['as the request says', 'claude-sonnet-4-5', 100, 100],
    ['as the model can at most', 'claude-sonnet-4-5', 1_000_000, 64_000],
    ['as the model can, where nothing is said', 'claude-opus-4-1', undefined, 32_000],
    ['as is usual for a Claude that nobody knows', 'claude-sonnet-4-9', undefined, 32_000],
    ['as is usual for a model that nobody knows', 'test-model', undefined, 8_192],
    ['as the configuration says', 'small', undefined, 2_000],
  ])('limits the answer %s', async (_, model, maxTokens, expected) => {
    const root = await serve(['ok'], {}, { models: [{ id: 'small', maxOutputTokens: 2_000 }] })
    await ask(root, { messages: [user('x')], model, ...(maxTokens === undefined ? {} : { maxTokens }) })
    expect(bodies(server)[0]!.max_tokens).toBe(expected)
    server.expectDone()
  })
})

describe('the prompt cache', () => {
  const marks = (index: number) =>
    bodies(server)[index]!.messages.map(({ content }) => content.map(block => 'cache_control' in block))

  it('is marked behind tools, instructions and the last two turns of the user', async () => {
    const root = await serve(['ok', 'ok'])
    const messages = [user('one'), assistant([called('a')]), result('a'), assistant([called('b')]), result('b')]
    const more = { system: 'Be brief.', tools: [READ, { ...READ, name: 'write' }] }
    await ask(root, { messages: messages.slice(0, 3), ...more })
    await ask(root, { messages, ...more })
    expect(marks(0)).toEqual([[true], [false], [true]])
    expect(marks(1)).toEqual([[false], [false], [true], [false], [true]])
    expect(bodies(server)[1]!.tools!.map(tool => 'cache_control' in tool)).toEqual([false, true])
    expect(server.requests[1]!.text.match(/cache_control/g)).toHaveLength(4)
    server.expectDone()
  })

  it('finds the same bytes in front of what is new', async () => {
    const root = await serve(['ok', 'ok'])
    const messages = [user('one'), assistant([called('a', '{"b": 1, "a": 2}')]), result('a')]
    const more = { system: 'Be brief.', tools: [READ] }
    await ask(root, { messages, ...more })
    await ask(root, { messages: [...messages, assistant([{ type: 'text', text: 'done' }]), user('next')], ...more })
    const [first, second] = server.requests.map(({ text }) => text.replaceAll(/,"cache_control":\{[^}]*\}/g, ''))
    expect(second!.startsWith(first!.slice(0, first!.lastIndexOf(']')))).toBe(true)
  })

  it('may be asked to keep a prompt for an hour, or not at all', async () => {
    const hour = await serve(['ok'], {}, { cache: '1h' })
    await ask(hour, { messages: [user('x')], system: 's' })
    expect(bodies(server)[0]!.system![0]!['cache_control']).toEqual({ type: 'ephemeral', ttl: '1h' })
    await server.close()
    const never = await serve(['ok'], {}, { cache: false })
    await ask(never, { messages: [user('x')], system: 's', tools: [READ] })
    expect(server.requests[0]!.text).not.toContain('cache_control')
    server.expectDone()
  })
})

describe('thinking', () => {
  const thought = (text: string): AssistantBlock[] => [{ type: 'reasoning', text }]

  it.each([
    ['claude-sonnet-4-5', 'low', { type: 'enabled', budget_tokens: 4_096 }],
    ['claude-haiku-4-5', 'max', { type: 'enabled', budget_tokens: 32_768 }],
    ['claude-3-7-sonnet-20250219', 'high', { type: 'enabled', budget_tokens: 20_480 }],
    ['claude-sonnet-4-20250514', 'low', { type: 'enabled', budget_tokens: 4_096 }],
    ['us.anthropic.claude-opus-4-5-20251101-v1:0', 'low', { type: 'enabled', budget_tokens: 4_096 }],
    ['anthropic/claude-opus-4.8', 'xhigh', { type: 'adaptive', display: 'summarized' }],
    ['unknown-model', 'medium', { type: 'enabled', budget_tokens: 10_240 }],
    ['claude-opus-4-6', 'max', { type: 'adaptive' }],
    ['claude-opus-4-8', 'xhigh', { type: 'adaptive', display: 'summarized' }],
    ['claude-opus-5', undefined, { type: 'adaptive', display: 'summarized' }],
    ['claude-opus-5', 'none', { type: 'disabled' }],
    ['claude-sonnet-5-5', 'none', { type: 'between_tools' }],
    ['claude-sonnet-4-5', 'none', undefined],
    ['claude-opus-4-8', undefined, undefined],
  ])('of %s with effort %s is asked for as it wants it', async (model, effort, thinking) => {
    const root = await serve(['ok'])
    await ask(root, { messages: [user('x')], model, temperature: 0.3, ...(effort ? { effort } : {}) })
    const [body] = bodies(server)
    expect(body!.thinking).toEqual(thinking)
    const adaptive = thinking?.type === 'adaptive' && effort
    expect(body!['output_config']).toEqual(adaptive ? { effort } : undefined)
    // It goes where somebody thinks, and for models that refuse it.
    expect(body!['temperature']).toBe(model === 'claude-sonnet-4-5' && !thinking ? 0.3 : undefined)
    server.expectDone()
  })

  it('that is bound to what stands before it is forgotten when that changes', async () => {
    const root = await serve(['ok', 'ok'], {}, { headers: { 'Anthropic-Beta': 'something-else' } })
    await ask(root, { messages: [user('x')], model: 'claude-opus-5-5', effort: 'low' })
    await ask(root, { messages: [user('x')] })
    expect(bodies(server)[0]!.thinking).toEqual({
      type: 'adaptive',
      display: 'summarized',
      block_binding: { prefix_mismatch_behavior: 'drop_block' },
    })
    expect(server.requests.map(({ headers }) => headers['anthropic-beta'])).toEqual([
      'thinking-binding-controls-2026-08-01,something-else',
      'something-else',
    ])
    server.expectDone()
  })

  it.each([
    [
      'claude-sonnet-4-5',
      'xhigh',
      'has no effort "xhigh"',
      'choose one of none, low, medium, high, max, or none at all',
    ],
    ['claude-opus-5-5', 'none', 'has no effort "none"', 'choose one of low, medium, high, xhigh, max, or none at all'],
    ['claude-3-5-haiku-20241022', 'low', 'cannot think on demand', 'choose no effort, or another model'],
  ])('of %s with an effort that it does not have fails', async (model, effort, problem, fix) => {
    const root = await serve([])
    const { failure } = await ask(root, { messages: [user('x')], model, effort })
    expect(failure).toEqual({ code: 'UNSUPPORTED_OPTION', message: `test/${model} ${problem}`, fix })
    expect(server.requests).toHaveLength(0)
  })

  it.each([
    ['a small limit is raised by it', 'claude-sonnet-4-5', 500, 'low', 4_596, 4_096],
    ['a large one stays', 'claude-sonnet-4-5', 30_000, 'low', 30_000, 4_096],
    ['the model has less', 'claude-opus-4-1', undefined, 'max', 32_000, 30_976],
  ])('has room beside the answer: %s', async (_, model, maxTokens, effort, max, budget) => {
    const root = await serve(['ok'])
    await ask(root, { messages: [user('x')], model, effort, ...(maxTokens ? { maxTokens } : {}) })
    expect(bodies(server)[0]).toMatchObject({ max_tokens: max, thinking: { budget_tokens: budget } })
    server.expectDone()
  })

  it('goes back as it came, signed or hidden, before the calls that it led to', async () => {
    const root = await serve([
      { reasoning: 'First I read.', toolCalls: [{ name: 'read', id: 'a' }] },
      { reasoning: 'secret', redacted: true, toolCalls: [{ name: 'read', id: 'b' }] },
      { text: 'done' },
    ])
    const messages = [user('x')]
    for (const id of ['a', 'b', '']) {
      const got = await ask(root, { messages, tools: [READ], effort: 'low' })
      expect(got.failure).toBeUndefined()
      messages.push(assistant(got.blocks))
      if (id) messages.push(result(id))
    }
    const sent = bodies(server)[2]!.messages
    expect(sent.map(({ content }) => content.map(block => block['type']))).toEqual([
      ['text'],
      ['thinking', 'tool_use'],
      ['tool_result'],
      ['redacted_thinking', 'tool_use'],
      ['tool_result'],
    ])
    expect(bodies(server).map(body => body.thinking?.['type'])).toEqual(['enabled', 'enabled', 'enabled'])
    server.expectDone()
  })

  it('that its provider keeps for itself is a signature without words, and goes back', async () => {
    const root = await serve(
      [
        raw(
          begin(),
          open(0, { type: 'thinking', thinking: '', signature: '' }),
          delta(0, { type: 'signature_delta', signature: 'c2ln' }),
          close(0),
          open(1, { type: 'text', text: '' }),
          delta(1, { type: 'text_delta', text: 'hi' }),
          close(1),
          finish('end_turn'),
          stop,
        ),
      ],
      { strict: false, otherwise: 'ok' },
    )
    const got = await ask(root, { messages: [user('x')], model: 'claude-opus-4-8', effort: 'low' })
    expect(got.blocks[0]).toEqual({ type: 'reasoning', text: '', replay: { type: 'thinking', signature: 'c2ln' } })
    await ask(root, {
      messages: [user('x'), assistant(got.blocks), user('y')],
      model: 'claude-opus-4-8',
      effort: 'low',
    })
    expect(bodies(server)[1]!.messages[1]!.content[0]).toEqual({ type: 'thinking', thinking: '', signature: 'c2ln' })
  })

  it('is left out where it was interrupted, is somebody else’s, or is of another shape', async () => {
    const root = await serve(['ok'])
    const foreign = { type: 'reasoning', text: 'x', replay: { reasoning_details: [] } } as const
    const signed = { type: 'reasoning', text: 'x', replay: { type: 'thinking', signature: 'theirs' } } as const
    const text = { type: 'text', text: 'said' } as const
    await ask(root, {
      effort: 'low',
      messages: [
        user('1'),
        assistant([...thought('interrupted'), text]),
        user('2'),
        assistant([foreign, text]),
        user('3'),
        assistant([signed, text], 'other'),
        user('4'),
      ],
    })
    expect(server.requests[0]!.text).not.toMatch(/"type":"(redacted_)?thinking"/)
    expect(bodies(server)[0]!.thinking).toBeDefined()
    server.expectDone()
  })

  it('is off for the rest of a turn that another model began, and on again after it', async () => {
    const root = await serve(['ok', { reasoning: 'mine', text: 'ok' }, 'ok'])
    const begun = [user('x'), assistant([...thought('theirs'), called('a')], 'other'), result('a')]
    await ask(root, { messages: begun, tools: [READ], effort: 'high' })
    const next = [...begun, assistant([{ type: 'text', text: 'ok' }]), user('and?')]
    const got = await ask(root, { messages: next, tools: [READ], effort: 'high' })
    await ask(root, { messages: [...next, assistant(got.blocks), user('good')], tools: [READ] })
    expect(bodies(server).map(({ thinking }) => thinking !== undefined)).toEqual([false, true, false])
    // Thoughts are no part of a request that does not think.
    expect(server.requests[2]!.text).not.toContain('mine')
    server.expectDone()
  })

  it('goes back without a signature to providers that give none', async () => {
    const root = await serve(
      [
        raw(
          begin(),
          open(0, { type: 'thinking', thinking: '' }),
          delta(0, { type: 'thinking_delta', thinking: 'unsigned' }),
          close(0),
          open(1, { type: 'tool_use', id: 'a', name: 'read', input: {} }),
          close(1),
          finish('tool_use'),
          stop,
        ),
      ],
      { strict: false, otherwise: 'ok' },
    )
    const model = 'deepseek-chat'
    const got = await ask(root, { messages: [user('x')], model, effort: 'high' })
    await ask(root, { messages: [user('x'), assistant(got.blocks), result('a')], model, effort: 'high' })
    expect(bodies(server)[1]).toMatchObject({
      thinking: { type: 'enabled' },
      messages: [
        {},
        { content: [{ type: 'thinking', thinking: 'unsigned', signature: '' }, { type: 'tool_use' }] },
        {},
      ],
    })
  })
})

describe('a refusal', () => {
  const refuse = (message: string, type = 'invalid_request_error', status = 400) => ({
    status,
    raw: JSON.stringify({ type: 'error', error: { type, message }, request_id: 'req_7' }),
    headers: { 'content-type': 'application/json' },
  })
  const signed = { type: 'reasoning', text: 'x', replay: { type: 'thinking', signature: 'old' } } as const

  it.each([
    [
      'of its length, it is shorter',
      'max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens for this',
      {},
      (body: string) => body.includes('"max_tokens":8192'),
    ],
    [
      'of a temperature, it has none',
      '`temperature` is deprecated for this model.',
      { temperature: 0.1 },
      (body: string) => !body.includes('temperature'),
    ],
    [
      'of thoughts from another account, they are left out',
      'messages.1.content.0: Invalid `signature` in `thinking` block',
      { effort: 'low', messages: [user('a'), assistant([signed, { type: 'text', text: 'b' }]), user('c')] },
      (body: string) => !body.includes('"signature"'),
    ],
    [
      'of cache marks, it has none',
      'messages.0.content.0.text.cache_control: Extra inputs are not permitted',
      {},
      (body: string) => !body.includes('cache_control'),
    ],
    [
      'of a budget, it names the effort',
      '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort"',
      { effort: 'low' },
      (body: string) => body.includes('"output_config":{"effort":"low"}'),
    ],
    [
      'of an effort by its name, it is a budget',
      'adaptive thinking is not supported on this model',
      { effort: 'low', model: 'claude-opus-4-6' },
      (body: string) => body.includes('"budget_tokens":4096'),
    ],
    [
      'of an answer that stands last, it asks to go on',
      'This model does not support assistant message prefill. The conversation must end with a user message.',
      { messages: [user('a'), assistant([{ type: 'text', text: 'b' }])] },
      (body: string) => body.includes('Continue.'),
    ],
    [
      'of what is to be done with old thoughts, it does not say',
      'thinking.block_binding: Extra inputs are not permitted',
      { model: 'claude-opus-5-5' },
      (body: string) => !body.includes('block_binding'),
    ],
    [
      'of a turn that began without a thought, it does not think',
      'messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.',
      { effort: 'low' },
      (body: string) => !body.includes('thinking'),
    ],
  ] as const)('is learned from: %s', async (_, message, request, better) => {
    const root = await serve([refuse(message), 'ok', 'ok'], { strict: false })
    const got = await ask(root, { messages: [user('x')], ...request })
    expect(got).toMatchObject({ text: 'ok', failure: undefined })
    expect(server.requests.map(({ text }) => better(text))).toEqual([false, true])
  })

  it('of cache marks in this request alone does not turn the cache off for others', async () => {
    const wrong = refuse('messages.0.content.0.cache_control: cache_control cannot be set for empty text blocks')
    const root = await serve([wrong, 'ok', 'ok'], { strict: false })
    await ask(root, { messages: [user('x')] })
    await ask(root, { messages: [user('y')] })
    expect(server.requests.map(({ text }) => text.includes('cache_control'))).toEqual([true, false, true])
  })

  it('that is about a moment teaches nothing, whatever it quotes', async () => {
    const busy = refuse('cannot route `temperature`, cache_control: not supported', 'invalid_request_error', 503)
    const root = await serve([busy, 'ok'], { strict: false })
    expect((await ask(root, { messages: [user('x')], temperature: 0.1 })).failure?.code).toBe('SERVER')
    await ask(root, { messages: [user('x')], temperature: 0.1 })
    for (const { text } of server.requests)
      expect(text).toMatch(/temperature.*cache_control|cache_control.*temperature/)
    expect(server.requests).toHaveLength(2)
  })

  it('that says the same again is told', async () => {
    const root = await serve([{ ...refuse('`temperature` is deprecated for this model.'), times: 9 }], {
      strict: false,
    })
    const { failure } = await ask(root, { messages: [user('x')], temperature: 0.1 })
    expect(failure).toMatchObject({ code: 'INVALID_REQUEST', status: 400, requestId: 'req_7' })
    expect(server.requests).toHaveLength(2)
  })

  it.each([
    ['authentication_error', 401, 'invalid x-api-key', 'AUTH', /put a valid key into MINE_KEY/],
    ['permission_error', 403, 'not allowed', 'AUTH', /./],
    ['billing_error', 402, 'no money', 'QUOTA', /billing page/],
    ['invalid_request_error', 400, 'Your credit balance is too low to access the Anthropic API.', 'QUOTA', /billing/],
    ['not_found_error', 404, 'model: claude-zero', 'UNKNOWN_MODEL', /check the name/],
    ['request_too_large', 413, 'Request exceeds the maximum size', 'CONTEXT_WINDOW_EXCEEDED', undefined],
    [
      'invalid_request_error',
      400,
      'prompt is too long: 201 tokens > 200 maximum',
      'CONTEXT_WINDOW_EXCEEDED',
      undefined,
    ],
    [
      'invalid_request_error',
      400,
      'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
      'CONTEXT_WINDOW_EXCEEDED',
      undefined,
    ],
    ['invalid_request_error', 400, 'messages: nonsense', 'INVALID_REQUEST', undefined],
    ['rate_limit_error', 429, 'slow down', 'RATE_LIMIT', undefined],
    ['api_error', 500, 'Internal server error', 'SERVER', undefined],
    ['timeout_error', 504, 'too slow', 'TIMEOUT', undefined],
    ['overloaded_error', 529, 'Overloaded', 'SERVER', undefined],
  ])('of type %s with %i is %4$s', async (type, status, message, code, fix) => {
    const root = await serve([refuse(message, type, status)], { strict: false }, { apiKeyEnv: 'MINE_KEY', apiKey: '' })
    vi.stubEnv('MINE_KEY', 'key')
    const { failure } = await answer(root)
    expect(failure).toMatchObject({ code, status, requestId: 'req_7' })
    expect(failure!.message).toContain(message)
    if (fix) expect(failure!.fix).toMatch(fix)
  })

  it('inside an answer is the same failure, and what it had cost is counted', async () => {
    const failed = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' }, request_id: 'req_9' }
    const root = await serve([
      raw(failed),
      raw(begin({ input_tokens: 9, output_tokens: 1 }), delta(0, { type: 'text_delta', text: 'be' }), failed),
    ])
    expect(await answer(root)).toMatchObject({ reason: 'error', failure: { code: 'SERVER', requestId: 'req_9' } })
    const got = await answer(root)
    expect(got).toMatchObject({ failure: { code: 'SERVER' }, usage: { inputTokens: 9 } })
    expect(got.failure!.message).toBe('test is in trouble: Overloaded')
  })
})

describe('a broken exchange', () => {
  it('is cancelled within 100 ms, before an answer and within one', async () => {
    const root = await serve([
      { text: 'x', fault: 'stall', after: 'request' },
      { text: 'word '.repeat(50), fault: 'stall', after: 2 },
    ])
    for (const after of ['request', 'text'] as const) {
      const abort = new AbortController()
      const stream = root.llm.stream({ provider: 'test', model: 'm', messages: [user('x')], signal: abort.signal })
      const reading = (async () => {
        let reason: string | undefined
        for await (const chunk of stream) {
          if (chunk.type === 'text-delta' && !abort.signal.aborted) abort.abort()
          if (chunk.type === 'finish') reason = chunk.reason
        }
        return reason
      })()
      if (after === 'request') void server.request(0).then(() => abort.abort())
      const aborted = new Promise<number>(resolve => {
        abort.signal.addEventListener('abort', () => resolve(performance.now()))
      })
      expect(await reading).toBe('aborted')
      expect(performance.now() - (await aborted)).toBeLessThan(100)
      expect(await (await server.request(after === 'request' ? 0 : 1)).ended).toBe('left')
    }
  })

  it('that is silent, cut off or broken JSON ends in its code', async () => {
    const root = await serve(
      [
        { text: 'word '.repeat(50), fault: 'stall', after: 2 },
        { text: 'word '.repeat(50), fault: 'truncate', after: 2 },
        { text: 'word '.repeat(50), fault: 'reset', after: 2 },
        { text: 'word '.repeat(50), fault: 'malformed', after: 2 },
      ],
      {},
      {},
      { idleMs: 50 },
    )
    for (const code of ['TIMEOUT', 'STREAM_CLOSED', 'TRANSPORT', 'MALFORMED_RESPONSE']) {
      expect((await answer(root)).failure?.code).toBe(code)
    }
  })

  it('with something else than the API says what it got', async () => {
    const root = await serve([{ raw: '<html><title>Sign in</title></html>', headers: { 'content-type': 'text/html' } }])
    const { failure } = await answer(root)
    expect(failure).toMatchObject({ code: 'MALFORMED_RESPONSE' })
    expect(failure!.message).toContain('something that is no message')
  })
})

describe('the provider', () => {
  it('anthropic is there with its key, and asks for it', async () => {
    clearEnvironment()
    const root = await tree()
    await root.plugin(anthropic, {} as anthropic.Config)
    expect(root.llm.list().map(({ provider, ready }) => [provider, ready])).toEqual([['anthropic', false]])
    expect((await answer(root, { provider: 'anthropic' })).failure).toEqual({
      code: 'MISSING_CREDENTIAL',
      message: 'no key for anthropic is set',
      fix: 'set ANTHROPIC_API_KEY',
    })
    vi.stubEnv('ANTHROPIC_API_KEY', 'k')
    const { route } = await root.llm.resolve('auto')
    expect(route).toEqual({ provider: 'anthropic', model: 'claude-sonnet-5-5' })
    expect(root.llm.list()[0]!.models.find(({ id }) => id === 'claude-opus-5-5')?.efforts).not.toContain('none')
  })

  it('is reached at the address of the environment, with or without the version', async () => {
    server = await startModelServer({ otherwise: 'ok', models: ['claude-next', 'claude-sonnet-5-5'] })
    clearEnvironment()
    const root = await tree()
    await root.plugin(anthropic, {} as anthropic.Config)
    vi.stubEnv('ANTHROPIC_API_KEY', 'k')
    for (const base of [server.url, server.url.replace('/v1', ''), `${server.url}/messages`]) {
      vi.stubEnv('ANTHROPIC_BASE_URL', base)
      expect((await answer(root, { provider: 'anthropic', model: 'claude-next' })).text).toBe('ok')
    }
    // What it knows comes first among what another server has.
    expect((await root.llm.resolve('anthropic')).route.model).toBe('claude-sonnet-5-5')
    expect(server.others).toEqual(['GET /v1/models?limit=1000'])
  })

  it('of somebody else is one entry of configuration, its key a bearer token where it wants one', async () => {
    const root = await serve(['ok'], {}, { authorization: 'bearer', models: ['big'] })
    const { route } = await root.llm.resolve('test')
    expect(await answer(root, route)).toMatchObject({ text: 'ok' })
    expect(server.requests[0]!.headers).toMatchObject({ authorization: 'Bearer key' })
    expect(server.requests[0]!.headers['x-api-key']).toBeUndefined()
    expect(server.others).toEqual([])
  })

  it('needs no version in its address', async () => {
    server = await startModelServer({ otherwise: 'ok' })
    const root = await claudeAt(server.url.replace('/v1', '/'))
    expect((await answer(root)).text).toBe('ok')
    expect(server.requests[0]!.path).toBe('/v1/messages')
  })

  it('says an effort as the configuration wants it', async () => {
    const root = await serve(['ok'], { strict: false }, { thinking: 'adaptive' })
    await ask(root, { messages: [user('x')], model: 'kimi-next', effort: 'whatever' })
    expect(bodies(server)[0]).toMatchObject({ thinking: { type: 'adaptive' }, output_config: { effort: 'whatever' } })
  })

  it('is let in by a login', async () => {
    server = await startModelServer({ otherwise: 'ok', apiKey: 'from the login' })
    clearEnvironment()
    const root = await tree()
    const auth = {
      loggedIn: (id: string) => id === 'mine',
      headers: async () => ({ authorization: 'Bearer from the login', 'anthropic-beta': 'login' }),
    }
    root.provide('auth')
    root.set('auth', auth as never)
    const providers = { mine: { baseURL: server.url } }
    await root.plugin(anthropic, { providers } as unknown as anthropic.Config)
    const stream = root.llm.stream({ provider: 'mine', model: 'claude-opus-5-5', messages: [user('x')] })
    expect(await collect(stream)).toMatchObject({ text: 'ok' })
    expect(server.requests[0]!.headers).toMatchObject({
      'anthropic-beta': 'thinking-binding-controls-2026-08-01,login',
    })
    expect(server.requests[0]!.headers['x-api-key']).toBeUndefined()
  })
})
