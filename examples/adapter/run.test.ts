import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { BlockAssembler, createToolResultMessage, createUserMessage, type LlmRequest, type Message } from '@cambium/llm'
import { type BootedTree, bootTree, startModelServer, tempWorkspace } from '@cambium/testkit'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type MurmurReply, type MurmurServer, startMurmurServer } from './murmur-server.ts'

const here = (file: string) => fileURLToPath(new URL(file, import.meta.url))

const open: { close?(): Promise<void>; dispose?(): unknown }[] = []
afterEach(async () => {
  vi.restoreAllMocks()
  for (const one of open.splice(0).reverse()) await (one.close ?? one.dispose)?.call(one)
})

const user = (content: string): Message => createUserMessage({ content, source: { kind: 'user' } })

/** A tree of rows, named relative to this folder. */
async function boot(rows: object[]): Promise<BootedTree> {
  const tree = await bootTree({ data: [{ name: '@cambium/llm' }, ...rows], file: here('cordis.yml') })
  open.push(tree)
  return tree
}

async function ask(tree: BootedTree, request: Partial<LlmRequest> = {}) {
  const answer = new BlockAssembler()
  const whole = { provider: 'murmur', model: 'soft', messages: [user('hello')], ...request }
  for await (const chunk of tree.ctx.llm.stream(whole)) answer.push(chunk)
  return { blocks: answer.blocks(), usage: answer.usage, ...answer.finish! }
}

/** The adapter as a row, against a server that says this. */
async function murmurs(...replies: MurmurReply[]): Promise<{ tree: BootedTree; server: MurmurServer }> {
  const server = await startMurmurServer(replies, access => access === 'key')
  open.push(server)
  const config = { providers: { murmur: { baseURL: server.url, apiKey: 'key' } }, idleMs: 200 }
  return { server, tree: await boot([{ id: 'murmur', name: './murmur.ts', config }]) }
}

test('the demo shows what the README shows', async () => {
  using home = tempWorkspace()
  const lines: string[] = []
  vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line))
  const patches = [{ text: JSON.stringify([{ id: 'credentials', config: { home: home.path } }]) }]
  const tree = await bootTree({ file: here('cordis.yml') }, { patches })
  expect(await tree.ended).toBe(0)
  const shown = /\$ npm run demo:adapter\n([\s\S]*?)```/.exec(readFileSync(here('README.md'), 'utf8'))?.[1]
  expect(`${lines.join('\n')}\n`).toBe(shown)
  expect(home.read('credentials.json')).not.toContain('hush')
})

describe('the abacus', () => {
  const sum = (more: Partial<LlmRequest>) => ({
    provider: 'abacus',
    model: 'beads',
    messages: [user('1234 * 5678')],
    ...more,
  })

  test('says its digits, its usage and its end', async () => {
    const tree = await boot([{ name: './abacus.ts' }])
    expect(await ask(tree, sum({}))).toMatchObject({
      blocks: [{ type: 'text', text: '7006652' }],
      usage: { outputTokens: 7 },
      reason: 'stop',
    })
  })

  test('a signal ends it at once', async () => {
    const tree = await boot([{ name: './abacus.ts' }])
    const stop = new AbortController()
    const answer = tree.ctx.llm.stream(sum({ signal: stop.signal }))
    const seen: string[] = []
    for await (const chunk of answer) {
      seen.push(chunk.type === 'finish' ? chunk.reason : chunk.type)
      stop.abort()
    }
    expect(seen).toEqual(['block-start', 'aborted'])
  })
})

describe('murmur', () => {
  test('what a conversation holds is said in its words', async () => {
    const { tree, server } = await murmurs(
      [
        { think: 'Look', seal: 'wax' },
        { call: { id: 'c', name: 'look', input: '{}' } },
        { end: 'calls', spent: { read: 9, kept: 4, wrote: 3, thought: 1 } },
      ],
      [{ say: 'A ' }, { say: 'dot.' }, { end: 'said' }],
    )
    const tools = [{ name: 'look', description: 'Looks.', parameters: { type: 'object', properties: {} } }]
    const first = await ask(tree, { tools, system: 'Be brief.', maxTokens: 50 })
    expect(first).toEqual({
      blocks: [
        { type: 'reasoning', text: 'Look', replay: 'wax' },
        { type: 'tool-call', id: 'c', name: 'look', arguments: '{}' },
      ],
      usage: { inputTokens: 5, cacheReadTokens: 4, cacheWriteTokens: 0, outputTokens: 3, reasoningTokens: 1 },
      reason: 'tool-calls',
    })
    const source = { kind: 'model', provider: 'murmur', model: 'soft' } as const
    const dot = { type: 'image', mediaType: 'image/png', data: 'iVBORw0KGgo=' } as const
    const messages: Message[] = [
      user('hello'),
      { id: 'a', role: 'assistant', content: first.blocks, source },
      createToolResultMessage({ callId: 'c', content: [dot] }),
    ]
    expect((await ask(tree, { messages, tools })).blocks).toEqual([{ type: 'text', text: 'A dot.' }])
    expect(server.requests.map(({ body }) => body)).toEqual([
      {
        model: 'soft',
        rules: 'Be brief.',
        most: 50,
        tools: [{ name: 'look', about: 'Looks.', input: { type: 'object', properties: {} } }],
        talk: [{ who: 'you', parts: [{ say: 'hello' }] }],
      },
      expect.objectContaining({
        talk: [
          { who: 'you', parts: [{ say: 'hello' }] },
          { who: 'me', parts: [{ think: 'Look', seal: 'wax' }, { call: { id: 'c', name: 'look', input: '{}' } }] },
          { who: 'you', parts: [{ answer: [{ show: 'iVBORw0KGgo=', as: 'image/png' }], to: 'c' }] },
        ],
      }),
    ])
  })

  test.each<[string, MurmurReply, string, RegExp]>([
    ['is over its rate', { status: 429, error: { message: 'hush' } }, 'RATE_LIMIT', /murmur limits the rate/],
    [
      'reports an error in its answer',
      [{ say: 'A' }, { error: { message: 'broken', code: 'overloaded' } }],
      'SERVER',
      /broken/,
    ],
    ['says a reason that nobody knows', [{ say: 'A' }, { end: 'fog' }], 'MALFORMED_RESPONSE', /ended with "fog"/],
    ['ends without its end', [{ say: 'A' }], 'STREAM_CLOSED', /before its answer was complete/],
    ['breaks the connection', [{ say: 'A' }, 'drop'], 'TRANSPORT', /./],
    ['falls silent', [{ say: 'A' }, 'wait'], 'TIMEOUT', /silent for 200 ms/],
    ['sends what is no event', [{ say: 7 }], 'MALFORMED_RESPONSE', /no event: {"say":7}/],
    ['calls without a name', [{ call: { id: 'c' } }], 'MALFORMED_RESPONSE', /no event/],
    ['says nothing', [{ end: 'said' }], 'EMPTY_RESPONSE', /empty answer/],
  ])('a server that %s is a failure with a code', async (_, reply, code, message) => {
    const { tree } = await murmurs(reply)
    const { reason, failure } = await ask(tree)
    expect({ reason, code: failure?.code }).toEqual({ reason: 'error', code })
    expect(failure?.message).toMatch(message)
  })

  test('a word that is refused is renewed once', async () => {
    using home = tempWorkspace()
    const server = await startMurmurServer([[{ say: 'hi' }, { end: 'said' }]], access => access === 'hush-2')
    open.push(server)
    const tree = await boot([
      { name: '@cambium/store/credentials', config: { home: home.path } },
      { name: './murmur-login.ts' },
      { name: './murmur.ts', config: { providers: { murmur: { baseURL: server.url } } } },
    ])
    expect((await ask(tree)).failure).toMatchObject({ code: 'AUTH', status: 401 })
    await tree.ctx.auth.login('murmur', { say() {}, ask: async () => 'hush', signal: new AbortController().signal })
    expect((await ask(tree)).blocks).toEqual([{ type: 'text', text: 'hi' }])
    expect(server.requests.map(({ access }) => access)).toEqual(['hush-2'])
  })

  test('a reload takes the adapter out and puts the new one in', async () => {
    const { tree } = await murmurs([{ say: 'one' }, 'wait'], [{ say: 'two' }, { end: 'said' }])
    const answer = new BlockAssembler()
    for await (const chunk of tree.ctx.llm.stream({ provider: 'murmur', model: 'soft', messages: [user('hello')] })) {
      answer.push(chunk)
      if (chunk.type === 'text-delta') await tree.restart('murmur')
    }
    // An answer that is on its way ends with the connections of its adapter.
    expect(answer.finish?.failure?.code).toBe('TRANSPORT')
    expect((await ask(tree)).blocks).toEqual([{ type: 'text', text: 'two' }])
  })

  test('a patch gives it to the default tree', async () => {
    const tree = await bootTree(
      { file: here('../../cordis.yml') },
      { patches: [{ file: here('murmur.patch.yml') }], env: {} },
    )
    open.push(tree)
    const names = tree.ctx.llm.list().map(({ provider }) => provider)
    expect(names).toEqual(expect.arrayContaining(['quiet', 'murmur']))
    expect(await tree.ctx.llm.resolve('quiet')).toEqual({ route: { provider: 'quiet', model: 'tiny' } })
  })
})

test('a server that speaks a known protocol needs no adapter, and the model server of the testkit tries it', async () => {
  await using server = await startModelServer({ replies: [{ fault: '429', retryAfter: 2 }, 'hello'] })
  const config = { providers: { mine: { baseURL: server.url, apiKey: 'key', models: ['test-model'] } } }
  const tree = await boot([{ name: '@cambium/llm/openai', config }])
  const mine = { provider: 'mine', model: 'test-model' }
  expect((await ask(tree, mine)).failure).toMatchObject({ code: 'RATE_LIMIT', retryAfterMs: 2_000 })
  expect((await ask(tree, mine)).blocks).toEqual([{ type: 'text', text: 'hello' }])
  expect(server.requests[0]!.body).toMatchObject({ model: 'test-model', stream: true })
  server.expectDone()
})
