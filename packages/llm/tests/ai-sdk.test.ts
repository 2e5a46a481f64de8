import { symlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { JsonObject } from '@cambium/core'
import {
  type AssistantBlock,
  createToolResultMessage,
  type LlmRequest,
  type Message,
  newMessageId,
  type ResultBlock,
} from '@cambium/llm'
import {
  type BootedTree,
  bootTree,
  type ModelServer,
  type ModelServerOptions,
  type ReplyScript,
  startModelServer,
  type TempWorkspace,
  tempWorkspace,
} from '@cambium/testkit'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Answer, ask, clearEnvironment, collect, user } from './llm.ts'

let folder: TempWorkspace
beforeAll(() => {
  folder = tempWorkspace({
    'node_modules/odd/package.json': '{ "name": "odd", "type": "module", "exports": { "import": "./index.js" } }',
    'node_modules/odd/index.js': ODD,
    'node_modules/many/package.json': '{ "name": "many", "type": "module", "main": "index.js" }',
    'node_modules/many/index.js': `${ODD}\nexport const createOther = createOdd`,
    'node_modules/common/package.json': '{ "name": "common", "main": "index.cjs" }',
    'node_modules/common/index.cjs': ODD.replace('export const createOdd', 'exports.createOdd'),
    'node_modules/plain/package.json': '{ "name": "plain", "type": "module", "main": "index.js" }',
    'node_modules/plain/index.js': 'export const make = () => ({})',
    'node_modules/broken/package.json': '{ "name": "broken", "type": "module", "main": "index.js" }',
    'node_modules/broken/index.js': 'throw new Error("needs another Node")',
  })
  symlinkSync(fileURLToPath(new URL('../node_modules/@ai-sdk', import.meta.url)), `${folder.path}/node_modules/@ai-sdk`)
})
afterAll(() => folder.dispose())

/** A package whose model does what the test says. */
const ODD = `
export const createOdd = options => (globalThis.oddMade?.push(options), {
  languageModel: modelId => ({
    specificationVersion: 'version' in options ? options.version : 'v3',
    provider: options.name ?? 'odd.chat',
    modelId,
    doStream: call => globalThis.oddModel(call, options),
  }),
})
`

interface Call {
  readonly prompt: { role: string; content: string | JsonObject[] }[]
  readonly abortSignal: AbortSignal
  readonly [key: string]: unknown
}
let calls: Call[] = []
type Part = { type: string; [key: string]: unknown }

/** Lets the package's model say these parts. */
function say(...parts: Part[]) {
  play(controller => {
    for (const part of parts) controller.enqueue(part)
    controller.close()
  })
}

function play(start: (controller: ReadableStreamDefaultController<Part>, call: Call) => void, cancel?: () => void) {
  const model = (call: Call) => {
    calls.push(call)
    const stream = new ReadableStream<Part>({
      start: controller => start(controller, call),
      ...(cancel ? { cancel } : {}),
    })
    return Promise.resolve({ stream })
  }
  Object.assign(globalThis, { oddModel: model })
}

let server: ModelServer | undefined
const booted: BootedTree[] = []
afterEach(async () => {
  calls = []
  await Promise.all(booted.splice(0).map(tree => tree.dispose()))
  await server?.close()
  server = undefined
  vi.unstubAllEnvs()
})

type Settings = JsonObject & { package?: string }

async function mounted(providers: Record<string, Settings>, config: JsonObject = {}): Promise<BootedTree> {
  clearEnvironment()
  const rows = [{ name: '@cambium/llm' }, { id: 'sdk', name: '@cambium/llm/ai-sdk', config: { providers, ...config } }]
  const tree = await bootTree({ text: JSON.stringify(rows), file: `${folder.path}/cordis.yml` })
  booted.push(tree)
  return tree
}

const odd = (settings: Settings = {}, config: JsonObject = {}) =>
  mounted({ test: { package: 'odd', ...settings } }, config)
const answer = (tree: BootedTree, more: Partial<LlmRequest> = {}): Promise<Answer> =>
  collect(tree.ctx.llm.stream(ask(more)))

const FINISH = {
  type: 'finish',
  finishReason: { unified: 'stop', raw: 'stop' },
  usage: { inputTokens: {}, outputTokens: {} },
}
const ended = (unified: string, raw = unified) => ({ ...FINISH, finishReason: { unified, raw } })
const text = (said: string): Part[] => [
  { type: 'text-start', id: '0' },
  { type: 'text-delta', id: '0', delta: said },
  { type: 'text-end', id: '0' },
]
const toolCall = (id: string, input: string, more: JsonObject = {}): Part[] => [
  { type: 'tool-input-start', id, toolName: 'read' },
  { type: 'tool-input-delta', id, delta: input },
  { type: 'tool-input-end', id },
  { type: 'tool-call', toolCallId: id, toolName: 'read', input, ...more },
]
const tools = [{ name: 'read', description: 'Reads', parameters: { type: 'object', properties: {} } }]
const picture = { type: 'image', mediaType: 'image/png', data: PNG() } as const
const said = (content: readonly AssistantBlock[], provider = 'test'): Message => ({
  id: newMessageId(),
  role: 'assistant',
  content,
  source: { kind: 'model', provider, model: 'm' },
})
const result = (callId: string, content: ResultBlock[] = [{ type: 'text', text: 'found' }], isError = false): Message =>
  createToolResultMessage({ callId, content, isError })

/** One white pixel. */
function PNG() {
  return 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mP8/x8AAwMCAO+ip1sAAAAASUVORK5CYII='
}

describe('a real package', () => {
  async function serve(replies: readonly ReplyScript[], options: ModelServerOptions = {}, config: JsonObject = {}) {
    server = await startModelServer({ replies, ...options })
    const { url } = server
    return mounted(
      {
        test: { package: '@ai-sdk/openai-compatible', options: { name: 'test', baseURL: url, includeUsage: true } },
        claude: { package: '@ai-sdk/anthropic', options: { baseURL: url }, apiKeyEnv: 'CLAUDE_KEY', models: ['opus'] },
      },
      config,
    )
  }
  const PROVIDERS = ['test', 'claude'] as const

  it.each(PROVIDERS)('%s answers with reasoning, text, calls, usage and a reason, each once', async provider => {
    const tree = await serve([
      {
        reasoning: 'I had better look.',
        text: 'I look.',
        toolCalls: [
          { name: 'read', arguments: { path: 'a' } },
          { name: 'read', arguments: { path: 'b' } },
        ],
        usage: { input: 100, output: 20, cached: 60 },
      },
    ])
    vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
    const got = await answer(tree, { provider, tools, maxTokens: 5000 })
    expect(got.failure).toBeUndefined()
    expect(got.blocks.map(block => block.type)).toEqual(['reasoning', 'text', 'tool-call', 'tool-call'])
    expect([got.reasoning, got.text]).toEqual(['I had better look.', 'I look.'])
    expect(got.calls.map(({ arguments: sent }) => sent)).toEqual(['{"path":"a"}', '{"path":"b"}'])
    expect(got.usage).toMatchObject({ inputTokens: 40, outputTokens: 20, cacheReadTokens: 60 })
    expect(got.reason).toBe('tool-calls')
    server!.expectDone()
  })

  it.each(PROVIDERS)(
    '%s is refused nothing in a conversation with calls, pictures, errors and reasoning',
    async provider => {
      const tree = await serve([
        { reasoning: 'first', text: 'I look.', toolCalls: [{ name: 'read' }, { name: 'read' }] },
        { reasoning: 'second', toolCalls: [{ name: 'read' }] },
        { text: 'done' },
        'and so on',
      ])
      vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
      const messages: Message[] = [
        {
          id: newMessageId(),
          role: 'user',
          content: [{ type: 'text', text: 'see' }, picture],
          source: { kind: 'user' },
        },
      ]
      for (let turn = 0; turn < 3; turn++) {
        const got = await answer(tree, { provider, tools, messages, system: 'Be brief.' })
        expect(got.failure).toBeUndefined()
        messages.push(JSON.parse(JSON.stringify(said(got.blocks, provider))))
        for (const { id } of got.calls) messages.push(result(id, [{ type: 'text', text: 'no' }, picture], turn === 1))
      }
      messages.push(user('more'))
      const last = await answer(tree, { provider, tools, messages, system: 'Be brief.' })
      expect([last.text, last.failure]).toEqual(['and so on', undefined])
      server!.expectDone()
    },
  )

  it('claude gives thinking back with its signature', async () => {
    const tree = await serve([{ reasoning: 'deep', toolCalls: [{ name: 'read' }] }, 'ok'])
    vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
    const got = await answer(tree, { provider: 'claude', tools })
    expect(got.blocks[0]).toMatchObject({
      replay: { protocol: 'ai-sdk', metadata: { anthropic: { signature: expect.any(String) } } },
    })
    const messages = [user('hello'), said(got.blocks, 'claude'), result(got.calls[0]!.id)]
    expect((await answer(tree, { provider: 'claude', tools, messages })).text).toBe('ok')
    expect(server!.requests[1]!.text).toContain('"type":"thinking"')
  })

  it('claude is told what to keep in its cache', async () => {
    const tree = await serve(['ok'])
    vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
    const messages = [user('a'), said([{ type: 'text', text: 'b' }], 'claude'), user('c')]
    await answer(tree, { provider: 'claude', system: 'Be brief.', messages })
    const { system, messages: sent } = server!.requests[0]!.body as unknown as { system: unknown; messages: unknown[] }
    const marks = [system, ...sent].map(part => JSON.stringify(part).includes('cache_control'))
    expect(marks).toEqual([true, false, false, true])
    server!.expectDone()
  })

  it.each([
    ['429', 'RATE_LIMIT', 429],
    ['500', 'SERVER', 500],
    ['overflow', 'CONTEXT_WINDOW_EXCEEDED', 400],
    ['unknown-model', 'UNKNOWN_MODEL', 404],
  ] as const)('says of %s that it is %s, and tries only once', async (fault, code, status) => {
    const tree = await serve([{ fault, retryAfter: 3, times: 2 }])
    vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
    for (const [n, provider] of PROVIDERS.entries()) {
      const { failure } = await answer(tree, { provider })
      expect(failure).toMatchObject({ code, status, ...(code === 'RATE_LIMIT' ? { retryAfterMs: 3000 } : {}) })
      expect(server!.requests).toHaveLength(n + 1)
    }
  })

  it('that is refused its key says so, with the variable and without the key', async () => {
    const tree = await serve([], { apiKey: 'right' })
    vi.stubEnv('CLAUDE_KEY', 'wrong-key-of-claude')
    const { failure } = await answer(tree, { provider: 'claude' })
    expect(failure).toMatchObject({ code: 'AUTH', fix: expect.stringContaining('CLAUDE_KEY') })
    expect(JSON.stringify(failure)).not.toContain('wrong-key-of-claude')
  })

  it.each(['reset', 'truncate', 'error-chunk', 'malformed'] as const)(
    'whose stream suffers %s fails with a code, its calls not run',
    async fault => {
      const tree = await serve([{ text: 'a b c d e f', pieceChars: 2, fault, after: 3, times: 2 }])
      vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
      for (const provider of PROVIDERS) {
        const got = await answer(tree, { provider })
        expect(got.reason).toBe('error')
        expect(got.failure!.code).toMatch(/^(TRANSPORT|STREAM_CLOSED|SERVER|MALFORMED_RESPONSE|RATE_LIMIT)$/)
      }
    },
  )

  it.each(PROVIDERS)('%s does not run the call that the output limit cut', async provider => {
    const toolCalls = [{ name: 'read' }, { name: 'read', arguments: { path: 'a'.repeat(60) } }]
    const tree = await serve([{ toolCalls, fault: 'length' }])
    vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
    const got = await answer(tree, { provider, tools })
    expect(got.reason).toBe('max-tokens')
    expect(got.calls).toHaveLength(1)
    expect(got.cut).toHaveLength(1)
  })

  it.each(PROVIDERS)(
    '%s that stalls ends within its bound, and a cancelled answer ends at once, its connection too',
    async provider => {
      const tree = await serve([{ text: 'a b c', pieceChars: 1, fault: 'stall', times: 2 }], {}, { idleMs: 80 })
      vi.stubEnv('CLAUDE_KEY', 'key-of-claude')
      expect((await answer(tree, { provider })).failure?.code).toBe('TIMEOUT')
      const patient = await mounted(
        Object.fromEntries([
          [
            provider,
            (provider === 'test'
              ? { package: '@ai-sdk/openai-compatible', options: { name: 'test', baseURL: server!.url } }
              : { package: '@ai-sdk/anthropic', options: { baseURL: server!.url, apiKey: 'k' } }) as Settings,
          ],
        ]),
      )
      const controller = new AbortController()
      const pending = answer(patient, { provider, signal: controller.signal })
      await server!.request(1)
      const started = performance.now()
      controller.abort()
      expect((await pending).failure?.code).toBe('ABORTED')
      expect(performance.now() - started).toBeLessThan(100)
      expect(await server!.requests[1]!.ended).toBe('left')
    },
  )

  it('at an address where nobody listens is a connection refused', async () => {
    const tree = await serve([])
    await server!.close()
    const { failure } = await answer(tree)
    expect(failure).toMatchObject({ code: 'TRANSPORT', message: expect.stringContaining(new URL(server!.url).host) })
  })
})

describe('a package', () => {
  it('that is not installed is named, with the command and the folder', async () => {
    const tree = await mounted({ test: { package: '@ai-sdk/cohere' } })
    const { failure } = await answer(tree)
    expect(failure).toMatchObject({ code: 'NO_ADAPTER', fix: `run npm i @ai-sdk/cohere in ${folder.path}` })
    expect(failure!.message).toContain('@ai-sdk/cohere')
  })

  it('that is installed meanwhile is found', async () => {
    const tree = await mounted({ test: { package: 'late' } })
    expect((await answer(tree)).failure?.code).toBe('NO_ADAPTER')
    folder.write('node_modules/late/package.json', '{ "name": "late", "type": "module", "main": "index.js" }')
    folder.write('node_modules/late/index.js', ODD)
    say(...text('hi'), FINISH)
    expect((await answer(tree)).text).toBe('hi')
  })

  it.each([
    ['plain', 'no factory that begins with create', 'make'],
    ['many', 'several factories: createOdd, createOther', 'create'],
    ['broken', 'needs another Node', 'this Node'],
    ['./nothing.js', 'nothing.js', 'correct the path'],
  ])('like %s says what is wrong with it: %s', async (name, problem, fix) => {
    const { failure } = await answer(await mounted({ test: { package: name } }))
    expect(failure).toMatchObject({ code: 'NO_ADAPTER', message: expect.stringContaining(problem) })
    expect(failure!.fix).toContain(fix)
  })

  it.each([
    [undefined, 'v1', 'newer'],
    ['v1', 'v1', 'newer'],
    ['v9', 'v9', 'older'],
  ])('of version %s is refused with what to install', async (version, named, fix) => {
    const tree = await odd({ options: version === undefined ? { version: null } : { version } })
    const { failure } = await answer(tree)
    expect(failure).toMatchObject({ code: 'NO_ADAPTER', message: expect.stringContaining(`version ${named} `) })
    expect(failure!.fix).toContain(fix)
  })

  it('may be CommonJS, a file beside the tree, and have its factory named', async () => {
    folder.write('own/provider.mjs', ODD)
    const tree = await mounted({
      a: { package: 'common' },
      b: { package: './own/provider.mjs' },
      c: { package: 'many', create: 'createOther' },
    })
    say(...text('hi'), FINISH)
    for (const provider of ['a', 'b', 'c']) expect((await answer(tree, { provider })).text).toBe('hi')
  })

  it('is given its options and the key, and is not loaded before it is used', async () => {
    folder.write('own/counted.mjs', `globalThis.oddLoads = (globalThis.oddLoads ?? 0) + 1\n${ODD}`)
    const tree = await mounted({
      test: { package: './own/counted.mjs', options: { region: 'here' }, apiKeyEnv: 'ODD_KEY', models: ['m'] },
    })
    expect((globalThis as { oddLoads?: number }).oddLoads).toBeUndefined()
    expect(tree.ctx.llm.list()).toMatchObject([{ provider: 'test', ready: false }])
    expect((await answer(tree)).failure).toMatchObject({
      code: 'MISSING_CREDENTIAL',
      fix: expect.stringContaining('ODD_KEY'),
    })
    vi.stubEnv('ODD_KEY', 'key-of-odd')
    expect(tree.ctx.llm.list()).toMatchObject([{ ready: true }])
    say(...text('hi'), FINISH)
    const made: unknown[] = []
    Object.assign(globalThis, { oddMade: made })
    await answer(tree)
    await answer(tree)
    expect(made).toEqual([{ region: 'here', apiKey: 'key-of-odd' }])
    vi.stubEnv('ODD_KEY', 'new-key-of-odd')
    await answer(tree)
    expect(made[1]).toEqual({ region: 'here', apiKey: 'new-key-of-odd' })
    expect((globalThis as { oddLoads?: number }).oddLoads).toBe(1)
  })

  it('leaves with the plugin', async () => {
    const tree = await odd()
    await tree.ctx.loader.remove('sdk')
    expect(tree.ctx.llm.list()).toEqual([])
  })
})

describe('a request', () => {
  const exchange: Message[] = [
    user('one'),
    user('two'),
    said([
      { type: 'reasoning', text: 'hm', replay: { protocol: 'ai-sdk', metadata: { odd: { sign: 1 } } } },
      { type: 'text', text: 'I look.' },
      {
        type: 'tool-call',
        id: 'a',
        name: 'read',
        arguments: '{"path":"x"}',
        replay: { protocol: 'ai-sdk', metadata: { odd: { s: 2 } } },
      },
      { type: 'tool-call', id: 'b', name: 'read', arguments: '' },
    ]),
    result('a', [{ type: 'text', text: 'found' }, picture]),
    result('b', [{ type: 'text', text: 'no' }], true),
  ]

  it.each([
    ['v2', picture.data],
    ['v3', picture.data],
    ['v4', { type: 'data', data: picture.data }],
  ])('says everything that it has to say in %s', async (version, data) => {
    const tree = await odd({ options: { version } })
    say(...text('ok'), version === 'v2' ? { type: 'finish', finishReason: 'stop', usage: {} } : FINISH)
    const got = await answer(tree, {
      system: 'Be brief.',
      messages: exchange,
      tools,
      effort: 'low',
      maxTokens: 5,
      temperature: 0.5,
      stop: ['END'],
      providerOptions: { odd: { extra: true } },
    })
    expect(got.text).toBe('ok')
    const [{ abortSignal, ...call }] = calls as [Call]
    expect(abortSignal).toBeInstanceOf(AbortSignal)
    expect(call).toEqual({
      prompt: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'one' },
            { type: 'text', text: 'two' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'reasoning', text: 'hm', providerOptions: { odd: { sign: 1 } } },
            { type: 'text', text: 'I look.' },
            {
              type: 'tool-call',
              toolCallId: 'a',
              toolName: 'read',
              input: { path: 'x' },
              providerOptions: { odd: { s: 2 } },
            },
            { type: 'tool-call', toolCallId: 'b', toolName: 'read', input: {} },
          ],
        },
        {
          role: 'tool',
          content: [
            { type: 'tool-result', toolCallId: 'a', toolName: 'read', output: { type: 'text', value: 'found' } },
            { type: 'tool-result', toolCallId: 'b', toolName: 'read', output: { type: 'error-text', value: 'no' } },
          ],
        },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Images of the results above:' },
            { type: 'file', mediaType: 'image/png', data },
          ],
        },
      ],
      tools: [{ type: 'function', name: 'read', description: 'Reads', inputSchema: tools[0]!.parameters }],
      toolChoice: { type: 'auto' },
      maxOutputTokens: 5,
      temperature: 0.5,
      stopSequences: ['END'],
      ...(version === 'v4'
        ? { reasoning: 'low', providerOptions: { odd: { extra: true } } }
        : { providerOptions: { odd: { reasoningEffort: 'low', extra: true } } }),
    })
  })

  it.each([
    ['anthropic.messages', { anthropic: { effort: 'high' } }],
    ['google.generative-ai', { google: { thinkingConfig: { thinkingLevel: 'high' } } }],
    ['google.vertex.chat', { google: { thinkingConfig: { thinkingLevel: 'high' } } }],
    ['vertex.anthropic.messages', { anthropic: { effort: 'high' } }],
    ['azure.responses', { openai: { reasoningEffort: 'high' } }],
    ['amazon-bedrock', { bedrock: { reasoningConfig: { type: 'enabled', maxReasoningEffort: 'high' } } }],
    ['openai.responses', { openai: { reasoningEffort: 'high' } }],
  ])('asks %s for an effort in its own words', async (name, providerOptions) => {
    const tree = await odd({ options: { name } })
    say(...text('ok'), FINISH)
    await answer(tree, { effort: 'high' })
    expect(calls[0]).toMatchObject({ providerOptions })
  })

  it('has its system text in front alone, and what comes later as a message', async () => {
    const tree = await odd()
    say(...text('ok'), FINISH)
    const system = (content: string): Message => ({
      id: newMessageId(),
      role: 'system',
      content: [{ type: 'text', text: content }],
      source: { kind: 'plugin', plugin: 'test' },
    })
    await answer(tree, { system: 'a', messages: [system('b'), user('q'), system('c')] })
    expect(calls[0]!.prompt).toEqual([
      { role: 'system', content: 'a' },
      { role: 'system', content: 'b' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'q' },
          { type: 'text', text: 'c' },
        ],
      },
    ])
  })

  it('holds no reasoning that another provider thought, and no metadata that is not of this kind', async () => {
    const tree = await odd()
    say(...text('ok'), FINISH)
    const thinking: AssistantBlock[] = [
      { type: 'reasoning', text: 'x', replay: { metadata: { signature: { s: 1 } } } },
      { type: 'text', text: 'a' },
    ]
    await answer(tree, { messages: [user('q'), said(thinking, 'other'), user('q'), said(thinking), user('q')] })
    const parts = calls[0]!.prompt.flatMap(({ role, content }) => (role === 'assistant' ? [content] : []))
    expect(parts).toEqual([
      [{ type: 'text', text: 'a' }],
      [
        { type: 'reasoning', text: 'x' },
        { type: 'text', text: 'a' },
      ],
    ])
  })
})

describe('the parts of a stream', () => {
  const read = async (...parts: Part[]) => {
    const tree = await odd()
    say(...parts)
    return answer(tree)
  }

  it('are blocks in their order, each with what it wants back', async () => {
    const got = await read(
      { type: 'stream-start', warnings: [] },
      { type: 'response-metadata', id: 'r', timestamp: new Date() },
      { type: 'raw', rawValue: {} },
      { type: 'reasoning-start', id: '0', providerMetadata: { odd: { a: 1 } } },
      { type: 'reasoning-delta', id: '0', delta: 'h' },
      { type: 'reasoning-delta', id: '0', delta: 'm' },
      { type: 'reasoning-delta', id: '0', delta: '', providerMetadata: { odd: { sign: 's' } } },
      { type: 'reasoning-end', id: '0' },
      { type: 'reasoning-start', id: '0', providerMetadata: { odd: { hidden: 'z' } } },
      { type: 'reasoning-end', id: '0' },
      { type: 'reasoning-start', id: '1' },
      { type: 'reasoning-end', id: '1' },
      ...text('said'),
      { type: 'source', sourceType: 'url', id: 's', url: 'x' },
      { type: 'ping' },
      { type: 'tool-input-start', id: 't', toolName: 'web', providerExecuted: true },
      { type: 'tool-input-delta', id: 't', delta: '{}' },
      { type: 'tool-call', toolCallId: 't', toolName: 'web', input: '{}', providerExecuted: true },
      { type: 'tool-result', toolCallId: 't', toolName: 'web', result: {} },
      ...toolCall('c', '{"path":"a"}', { providerMetadata: { odd: { sig: 2 } } }),
      { type: 'tool-call', toolCallId: 'd', toolName: 'read', input: '{}' },
      ended('tool-calls'),
    )
    expect(got.blocks).toEqual([
      { type: 'reasoning', text: 'hm', replay: { protocol: 'ai-sdk', metadata: { odd: { a: 1, sign: 's' } } } },
      { type: 'reasoning', text: '', replay: { protocol: 'ai-sdk', metadata: { odd: { hidden: 'z' } } } },
      { type: 'text', text: 'said' },
      {
        type: 'tool-call',
        id: 'c',
        name: 'read',
        arguments: '{"path":"a"}',
        replay: { protocol: 'ai-sdk', metadata: { odd: { sig: 2 } } },
      },
      { type: 'tool-call', id: 'd', name: 'read', arguments: '{}' },
    ])
    expect(got.reason).toBe('tool-calls')
  })

  it('join into one chunk what came at once', async () => {
    const words = Array.from({ length: 500 }, () => ({ type: 'text-delta', id: '0', delta: 'word ' }))
    const got = await read({ type: 'text-start', id: '0' }, ...words, { type: 'text-end', id: '0' }, FINISH)
    expect(got.text).toBe('word '.repeat(500))
    expect(got.chunks.filter(({ type }) => type === 'text-delta').length).toBeLessThan(5)
  })

  it.each([
    [
      'v2',
      { inputTokens: 100, outputTokens: 20, totalTokens: 120, cachedInputTokens: 60, reasoningTokens: 5 },
      undefined,
    ],
    [
      'v2',
      { inputTokens: 40, outputTokens: 20, totalTokens: 60, cachedInputTokens: 60, reasoningTokens: 5 },
      undefined,
    ],
    [
      'v3',
      { inputTokens: { total: 100, noCache: 40, cacheRead: 60 }, outputTokens: { total: 20, text: 15, reasoning: 5 } },
      undefined,
    ],
    ['v3', { inputTokens: { total: 100, cacheRead: 60 }, outputTokens: { text: 15, reasoning: 5 } }, undefined],
  ])('count what it cost, each token once: %s %j', async (version, usage, providerMetadata) => {
    const tree = await odd({ options: { version } })
    const finish = version === 'v2' ? { type: 'finish', finishReason: 'stop' } : FINISH
    say(...text('x'), { ...finish, usage, ...(providerMetadata ? { providerMetadata } : {}) })
    expect((await answer(tree)).usage).toEqual({
      inputTokens: 40,
      outputTokens: 20,
      cacheReadTokens: 60,
      cacheWriteTokens: 0,
      reasoningTokens: 5,
    })
  })

  it.each([[{ anthropic: { cacheCreationInputTokens: 7 } }], [{ bedrock: { usage: { cacheWriteInputTokens: 7 } } }]])(
    'count the cache beside the rest where the package does: %j',
    async providerMetadata => {
      const tree = await odd({ options: { version: 'v2' } })
      const usage = { inputTokens: 100, outputTokens: 20, cachedInputTokens: 60 }
      say(...text('x'), { type: 'finish', finishReason: 'stop', usage, providerMetadata })
      expect((await answer(tree)).usage).toMatchObject({ inputTokens: 100, cacheReadTokens: 60, cacheWriteTokens: 7 })
    },
  )

  it.each([
    ['length', 'max-tokens'],
    ['content-filter', 'refusal'],
    ['other', 'stop'],
    ['tool-calls', 'stop'],
  ])('that finish with %s finish with %s', async (unified, reason) => {
    expect((await read(...text('x'), ended(unified))).reason).toBe(reason)
  })

  it('run no call that the provider runs itself, nor one that a filter cut', async () => {
    const theirs = { type: 'tool-call', toolCallId: 't', toolName: 'web', input: '{}', providerExecuted: true }
    expect((await read(theirs, ...text('x'), FINISH)).calls).toEqual([])
    const got = await read(...text('x'), ...toolCall('c', '{}').slice(0, 2), ended('content-filter'))
    expect(got.reason).toBe('refusal')
    expect(got.calls[0]!.arguments).toMatch(/^\(garbled: /)
  })

  it('leave the last call open where the output limit came, complete or not', async () => {
    for (const cut of [toolCall('c', '{}'), toolCall('c', '{"a').slice(0, 2)]) {
      const got = await read(...toolCall('b', '{"path":"a"}'), ...cut, ended('length'))
      expect(got.calls.map(({ id }) => id)).toEqual(['b'])
      expect(got.cut.map(({ id }) => id)).toEqual(['c'])
    }
  })

  it.each([
    [
      'an error of the provider',
      [{ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, ended('error')],
      'SERVER',
    ],
    [
      'its words alone',
      [{ type: 'error', error: 'the context_length_exceeded: prompt is too long' }, ended('error')],
      'CONTEXT_WINDOW_EXCEEDED',
    ],
    ['a finish that is an error', [ended('error', 'network')], 'SERVER'],
    ['no finish', [], 'STREAM_CLOSED'],
    ['a finish without a reason', [{ ...FINISH, finishReason: { unified: 'other', raw: undefined } }], 'STREAM_CLOSED'],
    ['a finish that was interrupted', [ended('interrupted')], 'STREAM_CLOSED'],
    [
      'a reason that is unknown, before anything was counted',
      [{ ...FINISH, finishReason: 'unknown', usage: { inputTokens: 3 } }],
      'STREAM_CLOSED',
    ],
    ['a call that does not end', [...toolCall('c', '{"a').slice(0, 2), ended('stop')], 'STREAM_CLOSED'],
  ] as [string, Part[], string][])('that end with %s are a failure', async (_what, parts, code) => {
    const got = await read(...text('half'), ...parts)
    expect(got).toMatchObject({ reason: 'error', failure: { code } })
    expect(got.text).toBe('half')
  })

  it.each([
    ['AI_LoadAPIKeyError', {}, 'MISSING_CREDENTIAL'],
    ['AI_UnsupportedFunctionalityError', {}, 'UNSUPPORTED_CONTENT'],
    ['AI_TypeValidationError', {}, 'MALFORMED_RESPONSE'],
    ['AI_APICallError', { statusCode: 401, responseBody: '{"error":{"message":"bad key"}}' }, 'AUTH'],
    ['AI_APICallError', { statusCode: 200, responseBody: '?' }, 'MALFORMED_RESPONSE'],
    [
      'AI_APICallError',
      { cause: Object.assign(new Error('x'), { code: 'ENOTFOUND' }), url: 'https://a.example/v1' },
      'TRANSPORT',
    ],
    ['Error', {}, 'UNKNOWN'],
  ])('that are thrown as %s %j are %s', async (name, fields, code) => {
    const tree = await odd()
    Object.assign(globalThis, {
      oddModel: () => Promise.reject(Object.assign(new Error('it failed'), { name }, fields)),
    })
    expect((await answer(tree)).failure).toMatchObject({ code })
    play(controller => controller.error(Object.assign(new Error('it failed'), { name }, fields)))
    expect((await answer(tree)).failure).toMatchObject({ code })
  })

  it('run no getter of what is thrown', async () => {
    const tree = await odd()
    let ran = false
    const trap = Object.defineProperty(new Error('x'), 'statusCode', {
      get() {
        ran = true
        return 401
      },
    })
    Object.assign(globalThis, { oddModel: () => Promise.reject(trap) })
    expect((await answer(tree)).failure).toMatchObject({ code: 'UNKNOWN', message: expect.stringContaining('x') })
    expect(ran).toBe(false)
  })

  it('that never come, or stop coming, end within their bound; signs of life are no parts', async () => {
    const tree = await odd({}, { firstEventMs: 60, idleMs: 60 })
    Object.assign(globalThis, { oddModel: () => new Promise(() => {}) })
    expect((await answer(tree)).failure).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('no answer'),
    })
    const alive = (first: Part[]) =>
      play((controller, call) => {
        for (const part of first) controller.enqueue(part)
        const timer = setInterval(() => controller.enqueue({ type: 'ping' }), 5)
        call.abortSignal.addEventListener('abort', () => clearInterval(timer))
      })
    alive([{ type: 'stream-start', warnings: [] }])
    expect((await answer(tree)).failure).toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringContaining('no answer'),
    })
    alive(text('half'))
    const got = await answer(tree)
    expect(got.failure).toMatchObject({ code: 'TIMEOUT', message: expect.stringContaining('middle') })
    expect(got.text).toBe('half')
    expect(calls.every(call => call.abortSignal.aborted)).toBe(true)
  })

  it('that come slowly are waited for, each in its own time', async () => {
    const tree = await odd({}, { idleMs: 150 })
    play(controller => {
      const parts = [...text('a'), ...text('b'), ...text('c'), FINISH]
      const timer = setInterval(() => {
        const part = parts.shift()
        if (part) controller.enqueue(part)
        else {
          clearInterval(timer)
          controller.close()
        }
      }, 20)
    })
    expect(await answer(tree)).toMatchObject({ text: 'abc', reason: 'stop' })
  })

  it('end at once when cancelled, though the package does not listen', async () => {
    const tree = await odd()
    let cancelled = 0
    for (const hang of [
      () => {
        const oddModel = (call: Call) => {
          calls.push(call)
          return new Promise(() => {})
        }
        Object.assign(globalThis, { oddModel })
      },
      () =>
        play(
          controller => controller.enqueue({ type: 'text-start', id: '0' }),
          () => void cancelled++,
        ),
    ]) {
      hang()
      const controller = new AbortController()
      const pending = answer(tree, { signal: controller.signal })
      await vi.waitFor(() => expect(calls.length).toBeGreaterThan(0))
      const started = performance.now()
      controller.abort()
      expect((await pending).failure?.code).toBe('ABORTED')
      expect(performance.now() - started).toBeLessThan(100)
      expect(calls.at(-1)!.abortSignal.aborted).toBe(true)
      calls = []
    }
    await vi.waitFor(() => expect(cancelled).toBe(1))
  })

  it('are let go when the consumer stops early', async () => {
    const tree = await odd()
    let cancelled = false
    play(
      controller => {
        for (const part of text('a')) controller.enqueue(part)
      },
      () => {
        cancelled = true
      },
    )
    for await (const chunk of tree.ctx.llm.stream(ask())) if (chunk.type === 'text-delta') break
    expect([cancelled, calls[0]!.abortSignal.aborted]).toEqual([true, true])
  })

  it('in any order and number give an answer or a coded failure, and no call that was not said', async () => {
    const tree = await odd({}, { idleMs: 1000 })
    const id = fc.constantFrom('0', '1')
    const part = fc.oneof(
      fc.record({
        type: fc.constantFrom('text-start', 'text-end', 'reasoning-start', 'reasoning-end', 'tool-input-end'),
        id,
      }),
      fc.record({
        type: fc.constantFrom('text-delta', 'reasoning-delta', 'tool-input-delta'),
        id,
        delta: fc.constantFrom('', 'x', '{}'),
      }),
      fc.record({ type: fc.constant('tool-input-start'), id, toolName: fc.constant('read') }),
      fc.record({
        type: fc.constant('tool-call'),
        toolCallId: id,
        toolName: fc.constant('read'),
        input: fc.constant('{"said":1}'),
      }),
      fc.constantFrom<Part>({ type: 'unknown' }, { type: 'error', error: null }, ended('length'), ended('stop')),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 14 }), async parts => {
        say(...(parts as Part[]), FINISH)
        const { reason, failure, calls: made } = await answer(tree)
        expect(failure?.message ?? '').not.toContain('broke the order')
        expect(['stop', 'tool-calls', 'max-tokens', 'error']).toContain(reason)
        if (reason !== 'error') for (const { arguments: sent } of made) expect(sent).toBe('{"said":1}')
      }),
      { numRuns: 150 },
    )
  })
})
