import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { keepSecrets } from '@cambium/core'
import { call, fail, say } from '@cambium/testkit'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { ask, boot, user, type Watched } from './boot.ts'

interface Attribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}
interface Sent {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly status: { readonly code?: number; readonly message?: string }
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[]
}

/** A collector that takes nothing that the encoding does not allow. */
class Collector {
  readonly spans: Sent[] = []
  readonly bodies: string[] = []
  readonly requests: { readonly url: string | undefined; readonly headers: IncomingHttpHeaders }[] = []
  resource: Readonly<Record<string, unknown>> = {}
  /** Answers in turn; 200 when there are none left. */
  readonly answers: ((response: ServerResponse) => void)[] = []
  readonly server: Server
  private readonly waiting: { count: number; resolve: () => void }[] = []

  constructor() {
    this.server = createServer((request, response) => {
      const parts: Buffer[] = []
      request.on('data', part => parts.push(part))
      request.on('end', () => {
        const bytes = Buffer.concat(parts)
        const text = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString('utf8')
        this.requests.push({ url: request.url, headers: request.headers })
        const answer = this.answers.shift()
        if (answer) answer(response)
        else {
          this.take(text)
          response.end('{}')
        }
        for (const { count, resolve } of this.waiting) if (this.requests.length >= count) resolve()
      })
    })
  }

  get address(): string {
    return `http://127.0.0.1:${(this.server.address() as { port: number }).port}`
  }

  asked(count: number): Promise<void> {
    if (this.requests.length >= count) return Promise.resolve()
    return new Promise(resolve => this.waiting.push({ count, resolve }))
  }

  named(name: string): Sent[] {
    return this.spans.filter(span => span.name === name)
  }

  private take(text: string): void {
    this.bodies.push(text)
    const { resourceSpans } = JSON.parse(text) as {
      resourceSpans: {
        resource: { attributes: Attribute[] }
        scopeSpans: { scope: { name: string }; spans: Sent[] }[]
      }[]
    }
    for (const { resource, scopeSpans } of resourceSpans) {
      this.resource = values(resource.attributes)
      for (const { scope, spans } of scopeSpans) {
        expect(scope.name).toBe('@cambium/observe/otel')
        for (const span of spans) {
          expect(span.traceId).toMatch(/^[0-9a-f]{32}$/)
          expect(span.spanId).toMatch(/^[0-9a-f]{16}$/)
          expect(span.parentSpanId ?? '0123456789abcdef').toMatch(/^[0-9a-f]{16}$/)
          expect(span.startTimeUnixNano).toMatch(/^\d{19}$/)
          expect(span.endTimeUnixNano).toMatch(/^\d{19}$/)
          expect(BigInt(span.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(span.startTimeUnixNano))
          expect([1, 3]).toContain(span.kind)
          values(span.attributes)
          this.spans.push(span)
        }
      }
    }
  }
}

/** Each has exactly one value, of a type that there is. */
function values(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => {
      const [[type, content] = [], ...more] = Object.entries(value)
      expect(more).toEqual([])
      expect(['stringValue', 'intValue', 'doubleValue', 'boolValue', 'arrayValue']).toContain(type)
      if (type === 'intValue') expect(content).toMatch(/^-?\d+$/)
      return [key, type === 'intValue' ? Number(content) : content]
    }),
  )
}

let collector: Collector
let tree: Watched | undefined
beforeEach(async () => {
  collector = new Collector()
  await new Promise<void>(resolve => collector.server.listen(0, '127.0.0.1', resolve))
})
afterEach(async () => {
  await tree?.dispose()
  tree = undefined
  vi.unstubAllEnvs()
  collector.server.closeAllConnections()
  await new Promise(resolve => collector.server.close(resolve))
})

async function started(config: object, ...replies: NonNullable<Parameters<typeof boot>[1]>) {
  const rows = [{ name: '@cambium/session/telemetry' }, { id: 'otel', name: '@cambium/observe/otel', config }]
  tree = await boot(rows, replies)
  tree.ctx.tools.register({
    name: 'look',
    description: 'looks',
    parameters: { type: 'object' },
    execute: (args: { fail?: boolean }) => {
      if (args.fail) throw new Error('it is dark')
      return 'the secret garden'
    },
  })
  return tree
}

/** What is queued is sent when the row goes. */
async function ended(): Promise<void> {
  await tree!.dispose()
}

test('a turn becomes a trace: turn, steps, requests and calls, with their times, counts and failures', async () => {
  const usage = { inputTokens: 10, cacheReadTokens: 90, outputTokens: 5 }
  const { ctx } = await started(
    { endpoint: collector.address },
    fail('SERVER'),
    { ...call('look'), usage },
    call('look', { fail: true }),
    say('done'),
  )
  const { agent } = await ctx.agents.create()
  await ask(agent, 'where is it?')
  await ended()

  expect(collector.requests[0]).toMatchObject({ url: '/v1/traces', headers: { 'content-type': 'application/json' } })
  expect(collector.resource).toEqual({ 'service.name': 'cambium' })
  const [turn] = collector.named('invoke_agent cambium')
  expect(turn!.parentSpanId).toBeUndefined()
  expect(values(turn!.attributes)).toMatchObject({
    'gen_ai.operation.name': 'invoke_agent',
    'gen_ai.conversation.id': agent.id,
    'cambium.turn.end': 'completed',
  })
  const steps = ['step 1', 'step 2', 'step 3'].map(name => collector.named(name)[0]!)
  expect(steps.map(({ parentSpanId }) => parentSpanId)).toEqual(steps.map(() => turn!.spanId))
  const requests = collector.named('chat model')
  expect(requests.map(({ parentSpanId }) => parentSpanId)).toEqual([0, 0, 1, 2].map(at => steps[at]!.spanId))
  expect(requests.map(({ status }) => status)).toEqual([{ code: 2, message: 'SERVER' }, {}, {}, {}])
  expect(values(requests[0]!.attributes)).toMatchObject({ 'error.type': 'SERVER', 'cambium.attempt': 1 })
  expect(values(requests[1]!.attributes)).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'fake',
    'gen_ai.request.model': 'model',
    'gen_ai.usage.input_tokens': 100,
    'gen_ai.usage.cache_read.input_tokens': 90,
    'gen_ai.usage.output_tokens': 5,
    'gen_ai.response.finish_reasons': { values: [{ stringValue: 'tool-calls' }] },
  })
  const calls = collector.named('execute_tool look')
  expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual([steps[0]!.spanId, steps[1]!.spanId])
  expect(calls.map(({ status }) => status.code)).toEqual([undefined, 2])
  expect(values(calls[0]!.attributes)).toMatchObject({ 'gen_ai.tool.name': 'look', 'gen_ai.tool.call.id': 'call-1' })
  // One trace, every span once, and each within the one above it.
  expect(new Set(collector.spans.map(({ traceId }) => traceId)).size).toBe(1)
  expect(new Set(collector.spans.map(({ spanId }) => spanId)).size).toBe(collector.spans.length)
  for (const span of collector.spans) {
    const above = collector.spans.find(({ spanId }) => spanId === span.parentSpanId)
    if (!above) continue
    expect(BigInt(span.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(above.startTimeUnixNano))
    expect(BigInt(span.endTimeUnixNano)).toBeLessThanOrEqual(BigInt(above.endTimeUnixNano))
  }
  // Nothing of what was said.
  expect(collector.bodies.join()).not.toMatch(/where is it|secret garden|done|it is dark/)
})

test('content goes along where it is asked for, and known secrets never do', async () => {
  const key = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789'
  const { ctx } = await started(
    { endpoint: collector.address, content: true },
    call('look', { at: 'the gate' }),
    say('fine'),
  )
  const known = [key]
  keepSecrets(ctx, () => known)
  const { agent } = await ctx.agents.create()
  await ask(agent, `where is it? ${key}`)
  await ended()
  const [first] = collector.named('chat model')
  expect(values(first!.attributes)['gen_ai.input.messages']).toContain('where is it?')
  expect(values(first!.attributes)['gen_ai.output.messages']).toContain('the gate')
  const [made] = collector.named('execute_tool look')
  expect(values(made!.attributes)).toMatchObject({
    'gen_ai.tool.call.arguments': '{"at":"the gate"}',
    'gen_ai.tool.call.result': expect.stringContaining('the secret garden'),
  })
  expect(collector.bodies.join()).not.toContain(key)
})

test('a child lies in the trace of its parent, and a fork names the turn that it goes on from', async () => {
  const { ctx } = await started(
    { endpoint: collector.address },
    call('delegate'),
    say('from the child'),
    say('from the parent'),
    say('fork'),
  )
  ctx.tools.register({
    name: 'delegate',
    description: 'asks a child',
    parameters: { type: 'object' },
    async execute(_args: object, { agent }: { agent?: Parameters<typeof ask>[0] }) {
      const child = await ctx.agents.create({ parent: agent! })
      await ask(child.agent, 'do it')
      await child.dispose()
      return 'done'
    },
  } as never)
  const { agent } = await ctx.agents.create()
  await ask(agent, 'go')
  const fork = ctx.sessions.fork(agent.session)
  fork.append('turn/start', { turn: 2 })
  fork.append('turn/end', { turn: 2, reason: { kind: 'completed' } })
  await ended()
  const turns = collector.named('invoke_agent cambium')
  const of = (id: string) => turns.find(({ attributes }) => values(attributes)['gen_ai.conversation.id'] === id)!
  const parent = of(agent.id)
  const [delegated] = collector.named('execute_tool delegate')
  const child = turns.find(({ parentSpanId }) => parentSpanId === delegated!.spanId)!
  expect(child.traceId).toBe(parent.traceId)
  expect(values(child.attributes)).toMatchObject({ 'cambium.session.origin': 'subagent', 'cambium.session.depth': 1 })
  expect(of(fork.id).links).toMatchObject([{ traceId: parent.traceId, spanId: parent.spanId }])
})

test('the variables of OpenTelemetry say where, with what, and who', async () => {
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', `${collector.address}/base/`)
  vi.stubEnv('OTEL_EXPORTER_OTLP_HEADERS', 'authorization=Bearer%20token,x-team = blue')
  vi.stubEnv('OTEL_EXPORTER_OTLP_COMPRESSION', 'gzip')
  vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'deployment.environment.name=test,service.name=other')
  vi.stubEnv('OTEL_SERVICE_NAME', 'gardener')
  const { ctx } = await started({}, say('hi'))
  await ask((await ctx.agents.create()).agent, 'hello')
  await ended()
  expect(collector.requests[0]).toMatchObject({
    url: '/base/v1/traces',
    headers: { authorization: 'Bearer token', 'x-team': 'blue', 'content-encoding': 'gzip' },
  })
  expect(collector.resource).toEqual({ 'service.name': 'gardener', 'deployment.environment.name': 'test' })
  expect(collector.named('invoke_agent gardener')).toHaveLength(1)
})

test.each([
  ['no endpoint', {}],
  ['a switch', { OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }],
])('with %s nothing is registered', async (_why, env) => {
  for (const [key, value] of Object.entries(env)) vi.stubEnv(key, value)
  const { ctx } = await started({})
  // Its name is free.
  await ctx.telemetry.register({ name: 'otel', record() {} })()
})

test.each([
  ['OTEL_ENDPOINT', { endpoint: 'collector:4318' }, {}],
  ['OTEL_PROTOCOL', {}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x', OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }],
])('what cannot be sent to is refused at the start: %s', async (code, config, env) => {
  for (const [key, value] of Object.entries(env)) vi.stubEnv(key, value)
  await expect(started(config)).rejects.toThrow(code)
})

test('a collector that is busy is asked again, when it says so', async () => {
  collector.answers.push(
    response => response.writeHead(503, { 'retry-after': '0' }).end(),
    response => response.writeHead(429, { 'retry-after': '0' }).end(),
  )
  const { ctx } = await started({ endpoint: collector.address, flushMs: 1 }, say('hi'))
  await ask((await ctx.agents.create()).agent, 'hello')
  await collector.asked(3)
  await ended()
  expect(collector.named('invoke_agent cambium')).toHaveLength(1)
  const said = tree!.logs().match(/warn otel: .*/g)
  expect(said).toEqual([expect.stringContaining('answered 503'), expect.stringContaining('takes spans again')])
})

test('what a collector refuses is said once and not sent again', async () => {
  const partial = (response: ServerResponse) =>
    void response.end('{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}')
  collector.answers.push(partial, partial, response => response.writeHead(401).end())
  const { ctx } = await started({ endpoint: collector.address, maxBatch: 1 }, say('hi'))
  await ask((await ctx.agents.create()).agent, 'hello')
  await ended()
  expect(collector.requests).toHaveLength(3)
  expect(tree!.logs().match(/warn otel: .*/g)).toEqual([
    'warn otel: the collector refused 1 spans: too old',
    expect.stringMatching(/answered 401: spans are dropped/),
    'warn otel: 1 spans were not sent',
  ])
})

test('a collector that is down delays no turn, is said once, and holds nobody up at the end', async () => {
  const { address } = collector
  collector.server.closeAllConnections()
  await new Promise(resolve => collector.server.close(resolve))
  const { ctx } = await started(
    { endpoint: address, flushMs: 1, maxQueued: 4 },
    ...Array.from({ length: 5 }, () => say('hi')),
  )
  const { agent } = await ctx.agents.create()
  for (let turn = 0; turn < 5; turn++) agent.followup(user('hello'))
  await agent.whenIdle()
  expect(agent.session.lastTurn).toBe(5)
  const before = performance.now()
  await ended()
  expect(performance.now() - before).toBeLessThan(4_500)
  const said = tree!.logs().match(/warn otel: .*/g)!
  expect(said.filter(line => line.includes('cannot be reached'))).toHaveLength(1)
  expect(said.at(-1)).toMatch(/\d+ spans were not sent/)
})
