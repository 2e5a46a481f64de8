import { type Context, createRoot, createScope, type LogRecord, notify } from '@cambium/core'
import * as llm from '@cambium/llm'
import { BlockAssembler, LlmAdapter, LlmError, type LlmRequest, type StreamChunk } from '@cambium/llm'
import { describe, expect, it } from 'vitest'
import { adapted, answer, ask, collect, tree } from './llm.ts'

class Adapter extends LlmAdapter {
  readonly requests: LlmRequest[] = []
  closed = 0
  private readonly script: (request: LlmRequest) => AsyncIterable<StreamChunk> | Iterable<StreamChunk>
  constructor(script: (request: LlmRequest) => AsyncIterable<StreamChunk> | Iterable<StreamChunk>) {
    super()
    this.script = script
  }
  override async *stream(request: LlmRequest): AsyncGenerator<StreamChunk> {
    this.requests.push(request)
    try {
      yield* this.script(request)
    } finally {
      this.closed++
    }
  }
}

const text = (said: string, index = 0): StreamChunk[] => [
  { type: 'block-start', index, blockType: 'text' },
  { type: 'text-delta', index, text: said },
  { type: 'block-end', index, block: { type: 'text', text: said } },
]
const call = (name: string, id: string, index = 0): StreamChunk[] => [
  { type: 'block-start', index, blockType: 'tool-call' },
  { type: 'tool-call-delta', index, id, name, argumentsDelta: '{}' },
  { type: 'block-end', index, block: { type: 'tool-call', id, name, arguments: '{}' } },
]
const stop: StreamChunk = { type: 'finish', reason: 'stop' }
const usage: StreamChunk = {
  type: 'usage',
  usage: { inputTokens: 1, outputTokens: 1, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 },
}

/** The context of a plugin that uses the service. */
async function host(root: Context): Promise<Context> {
  const fiber = root.plugin({ name: 'host', inject: ['llm'], apply() {} })
  await fiber
  return fiber.ctx
}

describe('a provider', () => {
  it.each(['', 'auto', 'my/own', 'my own'])('that nobody could choose, as "%s", is refused', async name => {
    const root = await tree()
    expect(() => root.llm.registerAdapter(name, new Adapter(() => [stop]))).toThrow('LLM_PROVIDER_NAME')
    expect(root.llm.list()).toEqual([])
  })

  it('leaves with the plugin that offered it, and its name is free again', async () => {
    const root = await tree()
    const plugin = root.plugin({
      name: 'p',
      inject: ['llm'],
      apply: ctx => void ctx.llm.registerAdapter('x', new Adapter(() => [stop])),
    })
    await plugin
    expect(root.llm.list().map(({ provider }) => provider)).toEqual(['x'])
    expect(() => root.llm.registerAdapter('x', new Adapter(() => [stop]))).toThrow(
      /LLM_DUPLICATE_PROVIDER: provider "x" is already offered by p/,
    )
    await plugin.dispose()
    expect(root.llm.list()).toEqual([])
    root.llm.registerAdapter('x', new Adapter(() => [stop]))()
    expect(root.llm.list()).toEqual([])
  })

  it('that nobody offers is an answer that says so', async () => {
    const root = await adapted(new Adapter(() => [stop]))
    expect((await answer(root, { provider: 'tset' })).failure).toEqual({
      code: 'NO_ADAPTER',
      message: 'no adapter offers the provider "tset"',
      fix: 'did you mean test?',
    })
  })

  it('of a scope shadows the one of everybody', async () => {
    const root = await adapted(new Adapter(() => [...text('outer'), stop]))
    const scope = createScope(await host(root), {})
    scope.ctx.llm.registerAdapter('test', new Adapter(() => [...text('inner'), stop]))
    expect((await collect(scope.ctx.llm.stream(ask()))).text).toBe('inner')
    expect((await answer(root)).text).toBe('outer')
    await scope.dispose()
  })

  it('tells what it has', async () => {
    const adapter = new (class extends Adapter {
      override models = () => [{ id: 'm', contextWindow: 5 }]
      override ready = () => false
    })(() => [stop])
    const root = await adapted(adapter)
    expect(root.llm.list()).toMatchObject([{ provider: 'test', ready: false, models: [{ id: 'm', contextWindow: 5 }] }])
    expect(root.llm.modelInfo({ provider: 'test', model: 'm' })?.contextWindow).toBe(5)
    expect(root.llm.modelInfo({ provider: 'test', model: 'n' })).toBeUndefined()
    expect(root.llm.modelInfo({ provider: 'none', model: 'm' })).toBeUndefined()
  })

  it('stays the same for one call, whatever is mounted meanwhile', async () => {
    const root = await tree()
    const undo = root.llm.registerAdapter('test', new Adapter(() => [...text('old'), stop]))
    const stream = root.llm.stream(ask())
    undo()
    root.llm.registerAdapter('test', new Adapter(() => [...text('new'), stop]))
    expect((await collect(stream)).text).toBe('old')
  })
})

describe('a stream', () => {
  it('turns what an adapter throws into its finish', async () => {
    const failing = (error: unknown) => async () => {
      const root = await adapted(
        new Adapter(() => {
          throw error
        }),
      )
      return (await answer(root)).failure
    }
    expect(await failing(new LlmError({ code: 'QUOTA', message: 'spent' }))()).toEqual({
      code: 'QUOTA',
      message: 'spent',
    })
    expect(await failing(new TypeError('bug'))()).toEqual({ code: 'UNKNOWN', message: 'bug' })
    expect(await failing('text')()).toEqual({ code: 'UNKNOWN', message: 'text' })
    const posing = Object.assign(new Error('posing'), { failure: { code: 'AUTH', message: 'no' } })
    expect(await failing(posing)()).toEqual({ code: 'UNKNOWN', message: 'posing' })
  })

  it('also of an adapter that throws before it streams', async () => {
    class Broken extends LlmAdapter {
      stream(): AsyncIterable<StreamChunk> {
        throw new Error('at once')
      }
    }
    expect((await answer(await adapted(new Broken()))).failure?.message).toBe('at once')
  })

  const broken: [string, StreamChunk[]][] = [
    ['a delta without a block', [{ type: 'text-delta', index: 0, text: 'x' }]],
    ['a block twice', [...text('a'), ...text('b')]],
    [
      'a delta of another kind',
      [
        { type: 'block-start', index: 0, blockType: 'text' },
        { type: 'reasoning-delta', index: 0, text: 'x' },
      ],
    ],
    [
      'an end of another kind',
      [
        { type: 'block-start', index: 0, blockType: 'text' },
        { type: 'block-end', index: 0, block: { type: 'reasoning', text: '' } },
      ],
    ],
    ['a delta after the end', [...text('a'), { type: 'text-delta', index: 0, text: 'x' }]],
    ['usage twice', [...text('a'), usage, usage, stop]],
    [
      'a block left open',
      [{ type: 'block-start', index: 0, blockType: 'text' }, { type: 'text-delta', index: 0, text: 'x' }, stop],
    ],
    [
      'a call left open',
      [
        { type: 'block-start', index: 0, blockType: 'tool-call' },
        { type: 'finish', reason: 'tool-calls' },
      ],
    ],
  ]
  it.each(broken)('with %s ends as malformed', async (_what, chunks) => {
    const got = await answer(await adapted(new Adapter(() => chunks)))
    expect([got.reason, got.failure?.code]).toEqual(['error', 'MALFORMED_RESPONSE'])
    expect(got.chunks.filter(({ type }) => type === 'finish')).toHaveLength(1)
  })

  it('without a finish was closed too early', async () => {
    const got = await answer(await adapted(new Adapter(() => text('half'))))
    expect([got.text, got.failure?.code]).toEqual(['half', 'STREAM_CLOSED'])
  })

  it('says nothing after its finish', async () => {
    const got = await answer(await adapted(new Adapter(() => [...text('a'), stop, ...text('b', 1), stop])))
    expect(got.text).toBe('a')
    expect(got.chunks.at(-1)).toEqual(stop)
  })

  it.each([
    ['blank text', text('  \n')],
    ['no block', []],
    [
      'reasoning alone',
      [
        { type: 'block-start', index: 0, blockType: 'reasoning' },
        { type: 'block-end', index: 0, block: { type: 'reasoning', text: 'hm' } },
      ],
    ],
  ] as [string, StreamChunk[]][])('that stops with %s is an empty response', async (_what, chunks) => {
    expect((await answer(await adapted(new Adapter(() => [...chunks, stop])))).failure?.code).toBe('EMPTY_RESPONSE')
  })

  it('finishes by what it holds: calls, or text', async () => {
    const calls = await answer(await adapted(new Adapter(() => [...call('a', 'x'), stop])))
    expect(calls.reason).toBe('tool-calls')
    const said = await answer(
      await adapted(new Adapter(() => [...text('x'), { type: 'finish', reason: 'tool-calls' }])),
    )
    expect(said.reason).toBe('stop')
    const silent = await answer(await adapted(new Adapter(() => [{ type: 'finish', reason: 'max-tokens' }])))
    expect(silent.reason).toBe('max-tokens')
  })

  it('gives a failure to an error that has none', async () => {
    const got = await answer(await adapted(new Adapter(() => [{ type: 'finish', reason: 'error' }])))
    expect(got.failure?.code).toBe('UNKNOWN')
  })

  it('has call ids of its own', async () => {
    const root = await adapted(new Adapter(() => [...call('a', 'x'), ...call('b', 'x', 1), ...call('c', '', 2), stop]))
    const messages = [
      {
        id: 'm',
        role: 'assistant' as const,
        content: [{ type: 'tool-call' as const, id: 'x', name: 'a', arguments: '{}' }],
        source: { kind: 'model' as const, provider: 'p', model: 'm' },
      },
    ]
    const got = await answer(root, { messages })
    expect(got.calls.map(({ id }) => id)).toEqual(['x-2', 'x-3', 'call'])
    const deltas = got.chunks.flatMap(chunk => (chunk.type === 'tool-call-delta' ? [chunk.id] : []))
    expect(deltas).toEqual(['x-2', 'x-3', 'call'])
  })

  it('calls a tool by our name for it, whatever it was sent as', async () => {
    const adapter = new Adapter(({ tools }) => [...call(tools![0]!.name, 'x'), stop])
    const root = await adapted(adapter)
    const got = await answer(root, { tools: [{ name: 'my.tool/läuft', description: '', parameters: {} }] })
    expect(adapter.requests[0]?.tools?.[0]?.name).toMatch(/^my_tool_l_uft_[0-9a-f]{8}$/)
    expect(got.calls[0]?.name).toBe('my.tool/läuft')
  })

  it('is closed when its consumer stops early, and its adapter is told to stop', async () => {
    let aborted = false
    const adapter = new Adapter(async function* ({ signal }) {
      signal?.addEventListener('abort', () => {
        aborted = true
      })
      yield* text('a')
      yield* text('b', 1)
      yield stop
    })
    const root = await adapted(adapter)
    for await (const chunk of root.llm.stream(ask())) if (chunk.type === 'text-delta') break
    expect([adapter.closed, aborted]).toEqual([1, true])
  })

  it('is cancelled at once though its adapter hangs and ignores the signal', async () => {
    const adapter = new Adapter(async function* () {
      yield* text('a')
      await new Promise(() => {})
    })
    const root = await adapted(adapter)
    const controller = new AbortController()
    const stream = root.llm.stream(ask({ signal: controller.signal }))[Symbol.asyncIterator]()
    for (let at = 0; at < 3; at++) await stream.next()
    const pending = stream.next()
    const asked = performance.now()
    controller.abort()
    expect((await pending).value).toMatchObject({ type: 'finish', reason: 'aborted', failure: { code: 'ABORTED' } })
    expect(performance.now() - asked).toBeLessThan(500)
    expect((await stream.next()).done).toBe(true)
  })

  it('of a cancelled request is aborted, not failed, also when the adapter throws for it', async () => {
    const controller = new AbortController()
    const adapter = new Adapter(async function* () {
      controller.abort()
      yield* text('late')
      throw new Error('socket hang up')
    })
    expect((await answer(await adapted(adapter), { signal: controller.signal })).reason).toBe('aborted')
  })

  it('whose adapter fails while it is closed still ends, and the log has it', async () => {
    const logs: LogRecord[] = []
    const root = await tree(logs)
    class Unclosable extends LlmAdapter {
      stream(): AsyncIterable<StreamChunk> {
        const chunks = [...text('a'), stop]
        return {
          [Symbol.asyncIterator]: () => ({
            next: async () => ({ done: false, value: chunks.shift()! }),
            return: async () => {
              throw new Error('stuck')
            },
          }),
        }
      }
    }
    root.llm.registerAdapter('test', new Unclosable())
    expect((await answer(root)).reason).toBe('stop')
    await new Promise(setImmediate)
    expect(logs.map(({ text: line }) => line).join()).toMatch(/closing a stream of test failed.*stuck/s)
  })
})

describe('llm/stream', () => {
  it('wraps each attempt, and hears the normalised request', async () => {
    const root = await adapted(new Adapter(() => [...text('inner'), stop]))
    const heard: LlmRequest[] = []
    root.on('llm/stream', (request, next) => {
      heard.push(request)
      const inner = next()
      return (async function* () {
        for await (const chunk of inner)
          yield chunk.type === 'text-delta' ? { ...chunk, text: chunk.text.toUpperCase() } : chunk
      })()
    })
    const got = await answer(root, { system: '  ', messages: [] })
    expect(got.chunks.find(({ type }) => type === 'text-delta')).toMatchObject({ text: 'INNER' })
    expect('system' in heard[0]!).toBe(false)
  })

  it.each([[undefined], [null], [{}], [Promise.resolve()], ['text']])(
    'answered with %s is a failure in words',
    async value => {
      const root = await adapted(new Adapter(() => [...text('x'), stop]))
      root.on('llm/stream', (() => value) as never)
      const { reason, failure } = await answer(root)
      expect([reason, failure?.message]).toEqual(['error', 'a listener of llm/stream answered with no stream'])
    },
  )

  it('of one scope is not heard in another', async () => {
    const root = await adapted(new Adapter(() => [...text('x'), stop]))
    const ctx = await host(root)
    const key = {}
    const [a, b] = [createScope(ctx, key), createScope(ctx, {})]
    const heard: string[] = []
    a.ctx.on('llm/stream', (_request, next) => {
      heard.push('a')
      return next()
    })
    await collect(b.ctx.llm.stream(ask()))
    await collect(root.llm.stream(ask()))
    expect(heard).toEqual([])
    await collect(a.ctx.llm.stream(ask()))
    await collect(root.llm.stream(ask({ scope: key })))
    expect(heard).toEqual(['a', 'a'])
    await a.dispose()
    await b.dispose()
  })
})

describe('the plugin', () => {
  it('provides what it says, and takes it along', async () => {
    const root = createRoot()
    const fiber = root.plugin(llm)
    await fiber
    for (const key of llm.provide) expect(root.get(key)).toBeDefined()
    await fiber.dispose()
    expect(root.get('llm')).toBeUndefined()
    notify(root, undefined, 'llm/retry', {} as never, {} as never, undefined)
    await root.fiber.dispose()
  })
})

describe('the assembler', () => {
  const feed = (...chunks: StreamChunk[]) => {
    const assembler = new BlockAssembler()
    for (const chunk of chunks) assembler.push(chunk)
    return assembler
  }
  const delta = (index: number, argumentsDelta: string): StreamChunk => ({
    type: 'tool-call-delta',
    index,
    id: '',
    argumentsDelta,
  })

  it('understands deltas alone, and names a call that has no id', () => {
    const assembler = feed(
      { type: 'text-delta', index: 1, text: 'b' },
      { type: 'reasoning-delta', index: 0, text: 'a' },
      delta(2, '{'),
      { type: 'tool-call-delta', index: 2, id: '', name: 'x', argumentsDelta: '}' },
    )
    expect(assembler.blocks()).toEqual([
      { type: 'reasoning', text: 'a' },
      { type: 'text', text: 'b' },
      { type: 'tool-call', id: 'call-2', name: 'x', arguments: '{}' },
    ])
    expect(assembler.finish).toBeUndefined()
  })

  it('takes the first end of a block, and nothing after it', () => {
    const end = (said: string): StreamChunk => ({ type: 'block-end', index: 0, block: { type: 'text', text: said } })
    expect(feed(end('first'), { type: 'text-delta', index: 0, text: 'x' }, end('second')).blocks()).toEqual([
      { type: 'text', text: 'first' },
    ])
  })

  it('leaves out calls that were cut, and lists them', () => {
    const assembler = feed(
      ...call('whole', 'a'),
      { type: 'tool-call-delta', index: 1, id: 'b', name: 'cut', argumentsDelta: '{}' },
      { type: 'finish', reason: 'max-tokens' },
    )
    expect(assembler.blocks()).toMatchObject([{ name: 'whole' }])
    expect(assembler.cutCalls()).toEqual([{ id: 'b', name: 'cut' }])
  })

  it('keeps of an interrupted answer what a person has read', () => {
    const assembler = feed(
      { type: 'reasoning-delta', index: 0, text: 'hm' },
      { type: 'text-delta', index: 1, text: '  ' },
      { type: 'text-delta', index: 2, text: 'half' },
      ...call('x', 'a', 3),
      usage,
      { type: 'finish', reason: 'aborted', failure: { code: 'ABORTED', message: '' } },
    )
    expect(assembler.interruptedBlocks()).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'text', text: 'half' },
    ])
    expect(assembler.visible).toBe(true)
    expect(feed({ type: 'text-delta', index: 0, text: ' ' }).visible).toBe(false)
    expect(assembler.usage?.inputTokens).toBe(1)
  })
})
